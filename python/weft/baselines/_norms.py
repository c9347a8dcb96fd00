"""The norms of rows in plain PyTorch, in both forms."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.baselines import Case, Tensors
from weft.baselines._form import Form, Outputs, store
from weft.torch import DTYPES


def beside(operand: Tensor, x: Tensor) -> Tensor:
    """An operand that has x's leading axes, fewer of them, or one of frames, in a shape that broadcasts to x's."""
    more = x.dim() - operand.dim()
    if more < 0:  # [B, F, 1, D]: a row for each of the F frames that x's rows are cut into
        batches, frames, _, dim = operand.shape
        return operand.expand(batches, frames, x.shape[-2] // frames, dim).reshape(batches, x.shape[-2], dim)
    if more == 0 or operand.dim() == 1:
        return operand
    return operand.reshape(*operand.shape[:-1], *[1] * more, operand.shape[-1])


def _residual(t: Tensors, form: Form) -> tuple[Tensor, Outputs]:
    """What a norm reads: x, or residual + gate * x as it is stored."""
    if "residual" not in t:
        return t["x"], {}
    x, residual = form.read(t["x"]), form.read(t["residual"])
    x = beside(form.read(t["gate"]), x) * x if "gate" in t else x
    total = (residual + x).to(t["residual"].dtype)
    return total, {"residual_out": total} if "residual_out" in t else {}


def _modulated(case: Case, y: Tensor, t: Tensors, second: str, form: Form) -> Tensor:
    """y * (mod_offset + scale) + shift, each row's own where an index picks it."""
    for name in ("mod_scale", "mod_shift"):
        operand = t.get(name + second)
        if operand is None:
            continue
        rows = operand[t["mod_index"]] if "mod_index" in t else beside(operand, y)
        rows = form.read(rows)
        if name == "mod_shift":
            y = y + rows
            continue
        rows = torch.tanh(rows) if case.options["mod_tanh"] else rows
        y = y * (rows + case.options["mod_offset"] if case.options["mod_offset"] else rows)
    return y


def _norm_outputs(case: Case, y: Tensor, t: Tensors, form: Form) -> Outputs:
    outputs = store(case, _modulated(case, y, t, "", form), t)
    if "out2" in t:
        outputs["out2"] = _modulated(case, y, t, "2", form).to(DTYPES[case.dtype("out2")])
    return outputs


def rms_norm(case: Case, t: Tensors, form: Form) -> Outputs:
    r, outputs = _residual(t, form)
    x = r.float()
    y = form.keep(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + case.options["eps"]), r.dtype)
    if "weight" in t:
        y = y * _offset(form.read(t["weight"]), case)
    if "bias" in t:
        y = y + form.read(t["bias"])
    return outputs | _norm_outputs(case, y, t, form)


def _offset(weight: Tensor, case: Case) -> Tensor:
    offset = case.options["weight_offset"]
    return weight + offset if offset else weight


def layer_norm(case: Case, t: Tensors, form: Form) -> Outputs:
    r, outputs = _residual(t, form)
    eps, weight, bias = case.options["eps"], t.get("weight"), t.get("bias")
    if form.as_written and case.options["weight_offset"]:  # modulated: norm(x) * (1 + scale) + shift
        y = F.layer_norm(r, r.shape[-1:], eps=eps) * _offset(t["weight"], case)
        y = y + bias if bias is not None else y
    else:
        weight = None if weight is None else _offset(weight.float(), case)
        y = F.layer_norm(r.float(), r.shape[-1:], weight, None if bias is None else bias.float(), eps)
        y = form.keep(y, r.dtype)
    return outputs | _norm_outputs(case, y, t, form)
