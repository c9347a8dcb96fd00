"""What the package says and prints, word by word: of calls that are wrong, and of its commands."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import weft
from weft import _library, host_cost, stubs
from weft._contract import Contract, Field
from weft._function import docstring, framework_of
from weft._op import OPS
from weft.host_cost import Cost

torch = pytest.importorskip("torch")

X = np.ones((4, 64), np.float32)
SOFTMAX: Any = weft.softmax


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: SOFTMAX(X, X), "softmax() takes 1 positional arguments, got 2"),
        (weft.softmax, "softmax() needs 'x'"),
        (lambda: SOFTMAX(X, x=X), "softmax() got 'x' twice"),
        (lambda: SOFTMAX(X, y=X), "softmax() has no parameter 'y'; it has x, scale, out, out_dtype"),
        (lambda: weft.softmax(None), "softmax() needs an array for one of x"),
        (
            lambda: weft.gated_activation(activation="silu"),
            f"gated_activation() needs an array for one of {', '.join(OPS['gated_activation'].positional)}",
        ),
        (lambda: weft.softmax(3), "expected an array of PyTorch, JAX or NumPy, got int"),
        (
            lambda: weft.softmax(X, out_dtype="int8"),
            f"softmax.out: expected dtype {', '.join(OPS['softmax'].contract.outputs[0].dtypes)}, got int8",
        ),
        (
            lambda: weft.softmax(X, out_dtype=np.int8),
            f"softmax.out: expected dtype {', '.join(OPS['softmax'].contract.outputs[0].dtypes)}, got {np.int8}",
        ),
        (lambda: weft.softmax(X.astype(np.complex64)), "softmax.x: weft has no dtype complex64"),
        (lambda: weft.softmax(X.astype(">f4")), "softmax.x: weft has no dtype >f4"),
    ],
)
def test_what_is_said_of_a_call(call: Any, said: str) -> None:
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == said


def test_what_is_said_of_an_array() -> None:
    still = np.empty_like(X)
    still.flags.writeable = False
    odd = np.zeros((4, 65), np.dtype([("value", np.float32), ("more", np.int8)]))["value"]
    for call, said in (
        (lambda: weft.softmax(X, out=still), "softmax.out: the array is read-only"),
        (lambda: weft.softmax(odd), "softmax.x: strides (325, 5) are no multiples of the element's 4 bytes"),
    ):
        with pytest.raises(ValueError) as raised:
            call()
        assert str(raised.value) == said
    assert weft.softmax(still).shape == (4, 64), "what is read may be read-only"


class Dlpack:
    """An array of nobody's."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __dlpack__(self, **words: Any) -> Any:
        return self.array.__dlpack__(**words)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_arrays_are_known_by_the_package_of_their_class() -> None:
    import weft.dlpack  # noqa: PLC0415
    import weft.numpy  # noqa: PLC0415
    import weft.torch  # noqa: PLC0415

    class Own(np.ndarray):
        """Of somebody's who builds on NumPy."""

    assert framework_of(torch.zeros(1)) is weft.torch
    assert framework_of(torch.nn.Parameter(torch.zeros(1))) is weft.torch
    assert framework_of(X) is weft.numpy
    assert framework_of(X.view(Own)) is weft.numpy
    assert framework_of(np.float32(1)) is weft.numpy
    assert framework_of(Dlpack(X)) is weft.dlpack
    jax = pytest.importorskip("jax")
    import weft.jax  # noqa: PLC0415

    assert framework_of(jax.numpy.zeros(1)) is weft.jax
    with pytest.raises(TypeError) as raised:
        weft.rms_norm(Dlpack(X), residual_out=True)
    assert str(raised.value) == (
        "rms_norm() allocates for PyTorch, JAX and NumPy; give out=, residual_out= an array to write to"
    )


COSTS = [
    Cost("one way", 1.25, 1.0, 2.126, 2),
    Cost("another", 1234.5678, 0.5, 99.999, None),
    Cost("third", 0.001, 0, 0, 2.5),
]
nothing = ""  # no limit
TABLE = f"""\
way                                   median µs     p10     p90  limit
one way                                    1.25    1.00    2.13  2
another                                 1234.57    0.50  100.00  {nothing}
third                                      0.00    0.00    0.00  2.5
"""


def test_costs_are_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(host_cost, "costs", lambda: COSTS)
    monkeypatch.setattr(sys, "argv", ["host_cost"])
    host_cost.main()
    assert capsys.readouterr().out == TABLE
    monkeypatch.setattr(sys, "argv", ["host_cost", "--json"])
    host_cost.main()
    rows = json.loads(capsys.readouterr().out)
    assert rows[0] == {"way": "one way", "median": 1.25, "low": 1.0, "high": 2.126, "limit": 2}
    assert [row["limit"] for row in rows] == [2, None, 2.5]


def test_a_cost_is_the_median_of_rounds_without_the_first_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a clock on which round number n takes n times 100 calls of a microsecond each."""
    monkeypatch.setattr(host_cost, "CALLS", 100)
    monkeypatch.setattr(host_cost, "ROUNDS", 19)
    now, calls = [0.0], [0]
    reads = [0]

    def clock() -> float:
        reads[0] += 1
        if reads[0] % 2 == 0:  # a round ends
            now[0] += reads[0] / 2 * 1e-4
        return now[0]

    monkeypatch.setattr("weft.host_cost.time.thread_time", clock)
    cost = host_cost.measure("a way", lambda: calls.__setitem__(0, calls[0] + 1), 3)
    assert calls[0] == 22 * 100
    assert (cost.way, cost.limit) == ("a way", 3)
    assert [cost.median, cost.low, cost.high] == pytest.approx([13, 5, 21])


def test_the_ways_that_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is called here as it is measured: on no rows of bf16."""
    results: dict[str, Any] = {}

    def measure(way: str, call: Any, limit: float | None = None) -> Any:
        results[way] = (call(), limit)

    monkeypatch.setattr(host_cost, "measure", measure)
    host_cost.costs()
    assert {way: limit for way, (_, limit) in results.items()} == {
        "nothing: an empty Python function": None,
        "tvm-ffi, destination": 2,
        "torch.ops.weft.rms_norm_out": 6,
        "torch.ops.weft.rms_norm": None,
        "weft.rms_norm(x, weight, out=out)": None,
        "weft.rms_norm(x, weight)": None,
        "torch.empty_like(x), to compare": None,
    }
    made = [value for value, _ in results.values() if isinstance(value, torch.Tensor)]
    assert [(tuple(tensor.shape), tensor.dtype) for tensor in made] == [((0, 2048), torch.bfloat16)] * 3


def test_the_stubs_are_printed_by_their_module(capsys: pytest.CaptureFixture[str]) -> None:
    sys.modules.pop("weft.stubs")
    runpy.run_module("weft.stubs", run_name="__main__")
    assert capsys.readouterr().out == stubs.render()


def test_where_the_library_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "checkout" / "python" / "weft"
    installed, built = package / "lib", tmp_path / "checkout" / "build" / "release"
    monkeypatch.setattr(_library, "_PACKAGE", package)
    monkeypatch.setenv("WEFT_LIBRARY", str(tmp_path / "named.so"))
    places = [tmp_path / "named.so", *(folder / "libweft_ffi.so" for folder in (installed, built))]
    for given in (places, places[1:]):
        with pytest.raises(ImportError) as raised:
            _library._find()
        tried = ", ".join(map(str, given))
        assert str(raised.value) == f"weft's library was not found ({tried}); build it, or set WEFT_LIBRARY"
        monkeypatch.delenv("WEFT_LIBRARY", raising=False)
    for place in reversed(places[1:]):
        place.parent.mkdir(parents=True)
        place.touch()
        assert _library._find() == place
    places[0].touch()
    monkeypatch.setenv("WEFT_LIBRARY", str(places[0]))
    assert _library._find() == places[0]


def field(name: str, role: str = "in", optional: bool = False, **words: Any) -> Field:
    given = {"layout": "", "in_place_of": (), "rules": (), "meaning": f"the {name}.", **words}
    return Field(name, role, optional, words.pop("axes", "rows dim"), words.pop("dtypes", ("fp32",)), **{
        key: value for key, value in given.items() if key not in ("axes", "dtypes")
    })  # fmt: skip


MADE = Contract(
    name="made",
    formula="out = x",
    fields=(
        field("x", dtypes=("fp32", "bf16"), rules=("only beside y", "finite")),
        field("state", "in-out", True),
        field("out", "out", dtypes=("fp32", "bf16"), in_place_of=("x", "state")),
        field("more", "out", True, dtypes=("fp32", "bf16")),
        field("scale", "out", True, dtypes=("fp32",)),
    ),
    options=(),
    tolerance="one ulp",
    replaces="nothing",
)
HELP = """\
out = x

Args:
    x: [rows dim] fp32, bf16. The x. Only beside y. Finite.
    state: [rows dim] fp32. The state. Updated in place (JAX: returned).
    out: [rows dim] fp32, bf16. The out. May be the memory of x or state.
    more: [rows dim] fp32, bf16. The more. True asks for it.
    scale: [rows dim] fp32. The scale. True asks for it.
    out_dtype: dtype of out where it is allocated.
    more_dtype: dtype of more where it is allocated. It asks for it.

Returns:
    a named tuple, or the one result: out, state if asked for, more if asked for, scale if asked for.

Raises:
    ValueError, TypeError: what the contract forbids, with the field at fault.

Numerics: one ulp.
Replaces: nothing."""


def test_help_of_a_contract() -> None:
    assert docstring(MADE) == HELP
    one = Contract("one", "f", MADE.fields[:1] + MADE.fields[2:3], (), "t " * 60, "r", )  # fmt: skip
    text = docstring(one)
    assert "    the result: out." in text
    assert max(map(len, text.splitlines())) <= 104 and "\n    t t" in text


def test_every_value_of_a_dtype_has_its_name() -> None:
    from weft import numpy as ours  # noqa: PLC0415
    from weft.torch import DTYPES, NAMES  # noqa: PLC0415

    numpy_names = {
        "fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8_e4m3": "float8_e4m3fn",
        "fp8_e5m2": "float8_e5m2", "ue8m0": "float8_e8m0fnu", "int8": "int8", "int32": "int32", "int64": "int64",
        "uint8": "uint8",
    }  # fmt: skip
    for name, of_numpy in numpy_names.items():
        assert ours.dtype_of(name).name == of_numpy and ours.name_of(ours.dtype_of(name)) == name
        assert str(DTYPES[name]).removeprefix("torch.") == of_numpy and NAMES[DTYPES[name]] == name
    assert ours.name_of(np.bool_) == "uint8" and NAMES[torch.bool] == "uint8"
    assert ours.name_of(">f4") is None and ours.name_of(np.complex64) is None
    with pytest.raises(TypeError, match=r"^NumPy has no fp4_e2m1$"):
        ours.dtype_of("fp4_e2m1")


def test_without_ml_dtypes_the_dtype_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft import numpy as ours  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match=r"^NumPy has bf16 through ml_dtypes, which is not installed$"):
        ours.dtype_of("bf16")
    assert ours.dtype_of("fp32") == np.float32
