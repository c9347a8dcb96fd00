"""Ops of one pass in plain PyTorch, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.baselines import Case, Tensors
from weft.baselines._form import Form, Outputs, activate, gelu_tanh, store, to_fp8
from weft.torch import DTYPES


def reduce(case: Case, t: Tensors, _: Form) -> Outputs:
    x, dtype = t["x"].float(), DTYPES[case.dtype("out")]
    x = x * t["factor"].float() if "factor" in t else x
    kinds: dict[str, Any] = {"sum": x.sum, "mean": x.mean, "max": x.amax, "amax": x.abs().amax}
    found: Tensor = kinds[str(case.options["kind"])](-1)
    return {"out": found.to(dtype).reshape(t["out"].shape)}


def histogram(case: Case, t: Tensors, _: Form) -> Outputs:
    return {"counts": torch.bincount(t["x"].flatten(), minlength=int(case.options["bins"])).int()}


def copy(case: Case, t: Tensors, _: Form) -> Outputs:
    if "x" not in t:
        return {"out": torch.full_like(t["out"], case.options["value"])}
    if case.dtype("out").startswith("fp8") and case.dtype("x") != case.dtype("out"):
        return {"out": to_fp8(t["x"].float(), DTYPES[case.dtype("out")])}
    return {"out": t["x"].to(DTYPES[case.dtype("out")], copy=True, memory_format=torch.contiguous_format)}


def activation(case: Case, t: Tensors, _: Form) -> Outputs:
    x = t["x"].float()
    for term in ("add", "bias"):
        x = x + t[term].float() if term in t else x
    name, alpha = str(case.options["activation"]), case.options["alpha"]
    plain: Mapping[str, Callable[[Tensor], Tensor]] = {
        "gelu_tanh": gelu_tanh,
        "gelu_quick": lambda v: v * torch.sigmoid(1.702 * v),
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "relu": F.relu,
        "relu2": lambda v: F.relu(v).square(),
        "leaky_relu": lambda v: F.leaky_relu(v, alpha),
        "elu": lambda v: F.elu(v, alpha),
        "hardswish": F.hardswish,
        "hardshrink": lambda v: F.hardshrink(v, alpha),
    }
    y = plain[name](x) if name in plain else activate(name, x)
    return store(case, torch.cat([t["front"].float(), y], -1) if "front" in t else y, t)


def euler_step(case: Case, t: Tensors, _: Form) -> Outputs:
    v = t["velocity"].float()
    if "conditional" in t:
        v = v + case.options["guidance"] * (t["conditional"].float() - v)
    y = case.options["step"] * v
    y = t["sample"].float() + y if "sample" in t else y
    return {"out": y.to(DTYPES[case.dtype("out")])}


def timestep_embedding(case: Case, t: Tensors, _: Form) -> Outputs:
    o, half = case.options, int(case.options["dim"]) // 2
    exponent = -math.log(o["max_period"]) * torch.arange(half, device=t["t"].device, dtype=torch.float32)
    angle = o["scale"] * (t["t"].float()[:, None] * torch.exp(exponent / (half - o["downscale"])))
    parts = [angle.cos(), angle.sin()] if o["cos_first"] else [angle.sin(), angle.cos()]
    return {"out": F.pad(torch.cat(parts, -1), (0, int(o["dim"]) % 2)).to(DTYPES[case.dtype("out")])}


def merge_attention_states(case: Case, t: Tensors, _: Form) -> Outputs:
    lse = torch.logaddexp(t["lse_a"], t["lse_b"])

    def part(x: Tensor, own: Tensor) -> Tensor:
        return x.float() * torch.exp(own - lse).transpose(1, 2)[..., None]

    y = part(t["a"], t["lse_a"]) + part(t["b"], t["lse_b"])
    return {"out": y.to(DTYPES[case.dtype("out")])} | ({"lse": lse} if case.has("lse") else {})


def concat_pad(case: Case, t: Tensors, _: Form) -> Outputs:
    x = torch.cat([t["cache"], t["x"]], 2) if "cache" in t else t["x"]
    around = [int(case.options[side]) for side in ("left", "right", "top", "bottom", "front")]
    return {"out": F.pad(x, (*around, 0))}


def upsample(case: Case, t: Tensors, _: Form) -> Outputs:
    y = t["x"]
    for axis, name in ((-4, "time_scale"), (-3, "height_scale"), (-2, "width_scale")):
        scale = int(case.options[name])
        y = y.repeat_interleave(scale, axis) if scale > 1 else y
    y = y.float() + t["residual"].float() if "residual" in t else y
    return {"out": y.to(DTYPES[case.dtype("out")])}


def top_k(case: Case, t: Tensors, _: Form) -> Outputs:
    found = torch.topk(t["scores"], int(case.options["k"]), -1)
    return {"values": found.values, "indices": found.indices.to(DTYPES[case.dtype("indices")])}


def group_norm(case: Case, t: Tensors, _: Form) -> Outputs:
    weight, bias = (t[name].float() if name in t else None for name in ("weight", "bias"))
    y = F.group_norm(t["x"].float(), int(case.options["groups"]), weight, bias, case.options["eps"])
    return {"out": activate(str(case.options["activation"]), y).to(DTYPES[case.dtype("out")])}


def channel_rms_norm(case: Case, t: Tensors, _: Form) -> Outputs:
    y = F.normalize(t["x"].float(), dim=1, eps=case.options["eps"]) * t["x"].shape[1] ** 0.5
    for name, use in (("weight", torch.mul), ("bias", torch.add)):
        y = use(y, t[name].float()[:, None]) if name in t else y
    return {"out": activate(str(case.options["activation"]), y).to(DTYPES[case.dtype("out")])}
