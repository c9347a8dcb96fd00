"""What `weft.names` says of each of its entries, word by word, and what frameworks make of odd arrays."""

from __future__ import annotations

import csv
import itertools
import runpy
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import weft
from weft import numpy as ours
from weft import stubs
from weft._op import OPS
from weft.names import ROWS

from tests.paths import ROOT
from tests.python.test_words import MADE

HELP = {
    "gate_geglu_merged_fp8_fp16": "gate_geglu_merged_fp8_fp16(x, scale): weft.gated_activation(activation=gelu_tanh, "
    "out=fp8_e4m3). Source: FlashRT kernel library. What differs: any width, where the source needs multiples of 4.",
    "silu_mul_per_tensor_fp8": "silu_mul_per_tensor_fp8(x): weft.gated_activation(activation=silu, rounding=eager) and "
    "weft.quantize(out=fp8_e4m3, tensor_scale=true, x=_product). Source: SGLang diffusion kernels. What differs: two "
    "calls; the scale of an all-zero tensor is 1.",
    "cutlass_fp4_sq_fp16": "cutlass_fp4_sq_fp16(a, sfa, b, sfb, [alpha]): weft.gemm(out=fp16, a_swizzled_scale=sfa, "
    "b_swizzled_scale=sfb, a_scale=alpha). Source: FlashRT kernel library. What differs: alpha is a device tensor of "
    "one number, where the source takes one of the host; no beta; the tile is the dispatcher's choice; what fails is "
    "an exception, where the source returns a number that callers ignore.",
}


@pytest.mark.parametrize("name", HELP)
def test_help(name: str) -> None:
    assert getattr(weft.names, name).__doc__ == HELP[name]


def test_every_entry_says_its_ops_its_source_and_what_differs() -> None:
    with (ROOT / "python" / "weft" / "names.csv").open(newline="", encoding="utf-8") as table:
        entries = [
            list(lines)
            for _, lines in itertools.groupby(csv.DictReader(table), key=lambda line: line["name"])
        ]
    for lines in entries:
        for name in lines[0]["name"].split():
            function = getattr(weft.names, name)
            assert (function.__name__, function.__qualname__) == (name, name)
            said = function.__doc__ or ""
            taken = [part.split("=")[0] for part in lines[0]["fields"].split()]
            shown = ", ".join(f"[{word[:-1]}]" if word.endswith("?") else word for word in taken)
            assert said.startswith(f"{name}({shown}): "), said
            ops = [part.split("(")[0] for part in said.partition("): ")[2].split("weft.")[1:]]
            assert ops[: len(lines)] == [line["op"] for line in lines], said
            differs = f" What differs: {lines[0]['differs']}." if lines[0]["differs"] else ""
            assert said.endswith(f". Source: {lines[0]['source']}.{differs}"), said
    assert sum(len(lines[0]["name"].split()) for lines in entries) == len(ROWS)


def test_what_is_said_of_a_call_by_name() -> None:
    function = weft.names.silu_mul_per_tensor_fp8
    x = np.ones((2, 8), np.float32)
    alone = weft.names.gate_geglu_merged_fp8_fp16
    has = ", ".join(OPS["gated_activation"].defaults)
    for call, said in (
        (lambda: alone(x, x, colour=1), f"gated_activation() has no parameter 'colour'; it has {has}"),
        (lambda: function(x, x), "silu_mul_per_tensor_fp8() takes 1 positional arguments, got 2"),
        (function, "silu_mul_per_tensor_fp8() needs x"),
        (lambda: function(x, colour=1), "silu_mul_per_tensor_fp8() has no parameter 'colour'"),
    ):
        with pytest.raises(TypeError) as raised:
            call()
        assert str(raised.value) == said
    with pytest.raises(
        AttributeError, match=r"^weft\.names has no 'no_such_name': names\.csv lists what it has$"
    ):
        _ = weft.names.no_such_name


def test_arrays_without_elements_have_the_strides_of_dense_ones() -> None:
    for shape, strides in (((2, 0, 3), (0, 3, 1)), ((0,), (1,)), ((3, 4, 0), (0, 0, 1))):
        view = ours._view(OPS["softmax"], "x", np.empty(shape, np.float32), False)
        assert (tuple(view.shape), tuple(view.strides)) == (shape, strides)


def test_jax_takes_what_it_can_make_an_array_of() -> None:
    jax = pytest.importorskip("jax")
    a, b = np.arange(8, dtype=np.float32).reshape(2, 4), np.eye(4, dtype=np.float32)[:3]
    for other in (b, b.tolist()):
        out = weft.gemm(jax.numpy.asarray(a), other)
        np.testing.assert_array_equal(np.asarray(out), a[:, :3])


def test_jax_s_dtypes_that_weft_lacks_are_named() -> None:
    jax = pytest.importorskip("jax")
    with pytest.raises(TypeError, match=r"^x: weft has no dtype complex64$"):
        weft.softmax(jax.numpy.zeros((2, 4), np.complex64), out_dtype="fp32")


def test_results_of_a_name_have_one_type() -> None:
    torch = pytest.importorskip("torch")
    x, weight, gate = (torch.ones(*shape) for shape in ((3, 32), (32,), (3, 32)))
    rows = [
        weft.names.fused_norm_tanh_mul_add_norm_scale(x, weight, None, x, x, None, None, gate)
        for _ in range(2)
    ]
    assert type(rows[0]) is type(rows[1]) and rows[0]._fields == ("y", "y2")


def test_a_backslash_in_help_is_one_in_a_stub() -> None:
    class Made:
        name, contract = "made", replace(MADE, formula="a \\n b")
        positional, defaults = ("x",), {"x": None}

    made: Any = Made()
    text = stubs._function(made, "_Array", None)
    names: dict[str, Any] = {"_Array": Any, "_DType": Any}
    exec(text, names)
    assert names["made"].__doc__.splitlines()[0] == "a \\n b"


def test_host_cost_is_a_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(sys, "argv", ["host_cost", "--help"])
    monkeypatch.delitem(sys.modules, "weft.host_cost", raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("weft.host_cost", run_name="__main__")
    assert ended.value.code == 0 and "print JSON" in capsys.readouterr().out
