"""What follows from contracts alone: shapes, dtypes, signatures, documentation, stubs, the library's functions."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tvm_ffi
import weft
from weft import _library, host_cost, stubs
from weft._contract import LEADING, Axis
from weft._op import OPS

from tests.paths import PYTHON_PATH, ROOT
from tests.python.cases import SHAPED_BY

EVERY_OP = pytest.mark.parametrize("op", OPS)


class Array:
    """Just a shape."""

    def __init__(self, shape: list[int]) -> None:
        self.shape = tuple(shape)


@EVERY_OP
def test_shapes_are_those_that_the_library_infers(op):
    contract = OPS[op].contract
    compared = 0
    for seed in range(40):
        case = _library.generate_case(op, seed)
        assert case is not None
        given = {
            f.name: case["tensors"][f.name]["shape"] for f in contract.inputs if f.name in case["tensors"]
        }
        wanted = [f for f in contract.outputs if f.name in case["tensors"]]
        try:
            dtypes = {name: spec["dtype"] for name, spec in case["tensors"].items()}
            shapes = contract.shapes(wanted, given, case["options"], dtypes)
        except ValueError:  # a factor of 0 hides the others
            unknown = op in SHAPED_BY and SHAPED_BY[op] not in given
            assert unknown or any(0 in shape for shape in given.values()), case["case"]
            continue
        for field, shape in zip(wanted, shapes, strict=True):
            expected = tuple(case["tensors"][field.name]["shape"])
            assert shape in (expected, () if expected == (1,) else expected), case["case"]
            compared += 1
    assert compared > 0 or not contract.outputs


def test_groups_and_padding_are_worked_out_as_the_library_does():
    sizes = {"dim": 100, LEADING: 129}
    expected = {
        "ceil(dim/16)": 7,
        "pad(...,128)": 256,
        "pad(ceil(dim/16),4)": 8,
        "3*ceil(.../128)": 6,
        "dim": 100,
    }
    assert {text: Axis(text).evaluate(sizes) for text in expected} == expected
    assert Axis("pad(ceil(dim/group),4)").names == ("dim", "group")
    unknown: dict[str, int] = {}
    Axis("ceil(dim/16)").solve(7, unknown)  # 97 to 112
    Axis("pad(...,128)").solve(128, unknown)
    assert unknown == {}


def test_groups_of_no_columns_are_none():
    for text in ("ceil(dim/group)", "pad(ceil(dim/group),4)", "pad(dim,group)"):
        assert Axis(text).evaluate({"dim": 5, "group": 0}) == 0


def test_an_input_of_another_rank_is_named_rather_than_the_output_that_follows_from_it():
    contract = OPS["attention"].contract
    wanted = [field for field in contract.outputs if field.name == "out"]
    options = {option.name: option.default for option in contract.options}
    expected = r"^attention\.q: expected \[batch, q_tokens, kv_heads\*group, head_dim\], got \[4, 64\]$"
    with pytest.raises(ValueError, match=expected):
        contract.shapes(wanted, dict.fromkeys(("q", "k", "v"), (4, 64)), options, {})


def test_help_says_what_fields_must_be():
    assert "Not beside scale." in " ".join((weft.quantize.__doc__ or "").split())
    assert "Not beside token_scale." in " ".join((weft.quantize.__doc__ or "").split())
    assert "Numbers in [0, vocab), or -1: none." in " ".join((weft.embedding.__doc__ or "").split())


def test_default_dtypes():
    def default(op: str, **dtypes: str) -> str:
        contract = OPS[op].contract
        return contract.default_dtype(contract.outputs[0], dtypes)

    assert default("rms_norm", x="bf16", weight="fp32") == "bf16"
    assert default("embedding", ids="int64", table="fp16") == "fp16"
    assert default("gemm", a="fp8_e4m3", b="fp8_e4m3", residual="bf16") == "bf16"
    assert default("gemm", a="fp4_e2m1", b="fp4_e2m1", a_group_scale="fp8_e4m3", bias="fp16") == "bf16"
    assert default("gemm", a="int8", b="int8", a_token_scale="fp32") == "bf16"
    assert default("gemm", a="fp16", b="fp4_e2m1", b_group_scale="fp8_e4m3") == "fp16"
    assert default("quantize", x="bf16") == "fp8_e4m3"
    assert default("patch_im2col", image="uint8") == "fp32"


@EVERY_OP
def test_signature_and_documentation(op):
    function, contract = getattr(weft, op), OPS[op].contract
    parameters = inspect.signature(function).parameters
    for field in contract.fields:
        assert field.name in parameters
    for option in contract.options:
        assert parameters[option.name].default == option.default
        assert parameters[option.name].kind is inspect.Parameter.KEYWORD_ONLY
    required = [p.name for p in parameters.values() if p.default is inspect.Parameter.empty]
    assert required == [field.name for field in contract.inputs if not field.optional]
    assert " ".join(function.__doc__.split()).startswith(contract.formula)
    assert all(f"    {name}: " in function.__doc__ for name in parameters)
    assert op in weft.__all__


def test_stubs_are_rendered_from_the_contracts():
    stored = (ROOT / "python" / "weft" / "__init__.pyi").read_text()
    assert stored == stubs.render(), (
        "run: python -m weft.stubs > /tmp/stubs && mv /tmp/stubs python/weft/__init__.pyi"
    )


def test_case_lines():
    case = _library.parse_case("rms_norm x=bf16[4,64] out=fp8_e4m3")
    assert case["tensors"]["out"] == {"dtype": "fp8_e4m3", "shape": [4, 64]}
    assert case["options"]["eps"] == 1e-6
    with pytest.raises(ValueError, match="no such op"):
        _library.parse_case("no_such_op x=bf16[4]")
    with pytest.raises(ValueError, match="no such op"):
        _library.generate_case("no_such_op", 0)
    with pytest.raises(TypeError, match=r"rms_norm\.x: expected dtype"):
        _library.function("check")("rms_norm x=int8[4,64] out=fp32")


def test_calls_by_buffers_count_them():
    for count in (0, 1, 3):
        with pytest.raises(ValueError, match=f"expected 2 tensors, got {count}"):
            _library.function("buffers.softmax")(3, 1.0, *[None] * count)


@EVERY_OP
def test_calls_count_their_arguments(op):
    described = OPS[op]
    most = len(described.order)
    for more in (1, 2):
        with pytest.raises(ValueError, match=f"expected at most {most} arguments, got {most + more}"):
            described.function(*[None] * (most + more))


def test_arrays_have_axes_and_a_stride_for_each():
    array = _library.function("array")
    for shape, strides in (((1,) * 7, (1,) * 7), ((2, 2), (1,)), ((2,), (2, 1))):
        with pytest.raises(ValueError, match="expected one stride for each of at most 6 axes"):
            array(0, "fp32", tvm_ffi.Shape(shape), tvm_ffi.Shape(strides))
    with pytest.raises(TypeError, match="weft has no dtype fp31"):
        array(0, "fp31", tvm_ffi.Shape((1,)), tvm_ffi.Shape((1,)))


def test_the_library_links_no_python():
    for library in {_library.PATH, *_library.PATH.parent.glob("libweft.so*")}:
        symbols = subprocess.run(
            ["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True
        )
        assert not [
            line for line in symbols.stdout.splitlines() if line.split()[-1].startswith(("Py", "_Py"))
        ]


def test_importing_needs_no_framework(tmp_path: Path):
    """With every framework hidden, the functions are there, and an array of nobody's is a TypeError."""
    script = """
import sys
for name in ("torch", "jax", "jax_tvm_ffi", "numpy", "ml_dtypes"):
    sys.modules[name] = None
import weft
assert callable(weft.rms_norm) and callable(weft.names.gate_geglu)
try:
    weft.rms_norm(object())
except TypeError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=_environment(),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "expected an array of PyTorch, JAX or NumPy, got object" in run.stdout


def _environment() -> dict[str, str]:
    environment = {"PYTHONPATH": PYTHON_PATH, "WEFT_LIBRARY": str(_library.PATH), "PATH": "/usr/bin:/bin"}
    # Where a library's own libraries were brought along.
    return environment | {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


def test_the_library_that_is_named_is_the_one(tmp_path: Path):
    """Of a checkout that has one, too."""
    (tmp_path / "lib").symlink_to(_library.PATH.parent)
    named = tmp_path / "lib" / _library.PATH.name
    script = "from weft import _library; print(_library.PATH)"
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH, "WEFT_LIBRARY": str(named)},
        check=False,
    )
    assert run.stdout.strip() == str(named), run.stderr


def test_a_missing_library_is_said(tmp_path: Path):
    (tmp_path / "weft").symlink_to(ROOT / "python" / "weft")
    script = "import sys, pathlib; sys.path.insert(0, sys.argv[1]); pathlib.Path.exists = lambda _: False; import weft"
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert "weft's library was not found" in run.stderr


def test_host_cost(capsys, monkeypatch):
    """The ways are measured; a machine that others load too says little, so the bound is wide."""
    monkeypatch.setattr(host_cost, "CALLS", 300)
    monkeypatch.setattr(host_cost, "ROUNDS", 5)
    monkeypatch.setattr(sys, "argv", ["host_cost"])
    host_cost.main()
    assert "tvm-ffi, destination" in capsys.readouterr().out
    direct, operator = host_cost.costs()[1:3]
    assert direct.low < 5 * (direct.limit or 0)
    assert operator.low < 5 * (operator.limit or 0)


@EVERY_OP
def test_options_are_read_strictly(op):
    """A number that is none, a fraction where only whole numbers have a meaning, a word that is no choice."""
    described = OPS[op]
    for option in described.contract.options:
        bad: list[tuple[Any, str]] = [([], "expected a number"), ("nonsense", "expected (a number|one of)")]
        if option.kind != "real":
            bad += [(0.5, "expected a whole number, got 0.5"), (float("nan"), "expected a whole number")]
        for value, message in bad:
            arguments = [value if name == option.name else None for name in described.order]
            with pytest.raises(ValueError, match=rf"{op}\.{option.name}: {message}"):
                described.function(*arguments)
