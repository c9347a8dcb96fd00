"""Matrix products and their epilogues in plain PyTorch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from weft.baselines import Case, Tensors
from weft.baselines import _bounded as bounded
from weft.baselines._bounded import Bounded
from weft.baselines._form import Form, Outputs, activate, spread, to_fp8
from weft.baselines._norms import beside
from weft.torch import DTYPES


def _product(case: Case, t: Tensors, weights: str, bias: str) -> Any:
    """a @ weights.T + bias, in one call that rounds once; of int8 in fp32, with the scales of its whole sums."""
    a: Any = t["a"]
    b, added = t[weights], t.get(bias)
    whole = case.dtype("a") == "int8"
    if not whole and not case.dtype("a").startswith("fp8"):
        return F.linear(a, b, added)
    dtype = DTYPES[case.dtype("out")]
    dtype = torch.bfloat16 if dtype.itemsize == 1 else dtype
    fast, scales = bool(case.options["fast_accumulation"]), (t.get("a_scale"), t.get(f"{weights}_scale"))
    of_rows, of_columns = t.get("a_token_scale"), t.get(f"{weights}_channel_scale")
    if whole or isinstance(a, Bounded):
        short = 2.0**-10 + (2.0**-9 * a.shape[-1] / 32 if fast else 0)
        if isinstance(a, Bounded):
            total: Any = bounded.linear(a, t[weights], None, torch.float32, 0 if whole else short)  # type: ignore[arg-type]
        else:
            total = torch._int_mm(a.reshape(-1, a.shape[-1]), b.t()).reshape(*a.shape[:-1], b.shape[0])
        for scale in (*scales, None if of_rows is None else of_rows[..., None], of_columns):
            total = total * scale if scale is not None else total
        total = total + added.float() if added is not None else total
        return total if whole else total.to(dtype)
    one = torch.ones(1, device=a.device)
    scale_a, scale_b = (one if scale is None else scale for scale in scales)
    rows = a.reshape(-1, a.shape[-1])
    if of_rows is not None or of_columns is not None:  # PyTorch takes these of both, or of neither
        scale_a = spread(scale_a if of_rows is None else of_rows, len(rows)).reshape(-1, 1)
        scale_b = spread(scale_b if of_columns is None else of_columns, len(b)).reshape(1, -1)
    y: Any = torch._scaled_mm(rows, b.t(), scale_a, scale_b, bias=added, out_dtype=dtype, use_fast_accum=fast)
    return y.reshape(*a.shape[:-1], b.shape[0])


def gemm(case: Case, t: Tensors, _: Form) -> Outputs:
    y = activate(case.options["activation"], _product(case, t, "b", "bias"))
    if "up" in t:
        y = y * _product(case, t, "up", "up_bias")
    y = y * beside(t["gate"], y) if "gate" in t else y
    y = y + beside(t["residual"], y) if "residual" in t else y
    dtype = DTYPES[case.dtype("out")]
    if dtype.itemsize > 1:
        return {"out": y.to(dtype)}
    return {"out": to_fp8(y.float() * (1 / t["out_scale"]) if "out_scale" in t else y.float(), dtype)}


def rounds_once(case: Case) -> bool:
    """One product that PyTorch rounds once; a gate's two products it would round before they meet."""
    return (
        not case.dtype("a").startswith("fp8") and case.dtype("a") == case.dtype("out") and not case.has("up")
    )


def rounds_in_between(case: Case) -> bool:
    """PyTorch's products take operands of one dtype, of fp8 with scales and whole rows of 16 bytes, of int8 of 8."""
    a, alike = (
        case.dtype("a"),
        {case.dtype(name) for name in ("b", "up", "bias", "up_bias") if case.has(name)},
    )
    n, k = case.tensors["b"].shape
    if a == "int8":
        return n % 8 == k % 8 == 0
    if not a.startswith("fp8"):
        return alike == {a} and not rounds_once(case)
    added = {case.dtype(name) for name in ("bias", "up_bias") if case.has(name)}
    out = "bf16" if case.dtype("out").startswith("fp8") else case.dtype("out")
    takes = {"bf16"} if case.has("a_token_scale", "b_channel_scale", "up_channel_scale") else {"bf16", "fp16"}
    return a == case.dtype("b") == "fp8_e4m3" and n % 16 == k % 16 == 0 and added <= {out} <= takes
