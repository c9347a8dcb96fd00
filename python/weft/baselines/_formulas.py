"""The ops in plain PyTorch, as a careful user writes them: fp32 arithmetic and one rounding, as weft's contracts say.

PyTorch's own operators are taken where they compute that; torch.compile fuses the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.baselines import Case, Compute, Tensors
from weft.torch import DTYPES

Outputs = dict[str, Tensor]


def to_fp8(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Saturated: PyTorch's conversion alone gives NaN beyond the range."""
    limit = torch.finfo(dtype).max
    return x.clamp(-limit, limit).to(dtype)


def token_scale(y: Tensor, dtype: torch.dtype) -> Tensor:
    amax = y.abs().amax(-1)
    return torch.where(amax == 0, torch.ones_like(amax), amax / torch.finfo(dtype).max)


def store(case: Case, y: Tensor, t: Tensors) -> Outputs:
    """fp32 values as `out`, scaled where it is fp8."""
    dtype = DTYPES[case.dtype("out")]
    if not case.dtype("out").startswith("fp8"):
        return {"out": y.to(dtype)}
    if case.has("token_scale"):
        scale = token_scale(y, dtype)
        return {"out": to_fp8(y * (1 / scale)[..., None], dtype), "token_scale": scale}
    return {"out": to_fp8(y * (1 / t["scale"]) if case.has("scale") else y, dtype)}


def _residual(t: Tensors) -> tuple[Tensor, Outputs]:
    if "residual" not in t:
        return t["x"], {}
    total = (t["x"].float() + t["residual"].float()).to(t["residual"].dtype)
    return total, {"residual_out": total} if "residual_out" in t else {}


def rms_norm(case: Case, t: Tensors) -> Outputs:
    r, outputs = _residual(t)
    x = r.float()
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + case.options["eps"])
    if "weight" in t:
        y = y * (t["weight"].float() + case.options["weight_offset"])
    if "bias" in t:
        y = y + t["bias"].float()
    return outputs | store(case, y, t)


def layer_norm(case: Case, t: Tensors) -> Outputs:
    r, outputs = _residual(t)
    weight = t["weight"].float() + case.options["weight_offset"] if "weight" in t else None
    bias = t["bias"].float() if "bias" in t else None
    y = F.layer_norm(r.float(), r.shape[-1:], weight, bias, case.options["eps"])
    return outputs | store(case, y, t)


def _activation(name: str, x: Tensor) -> Tensor:
    if name == "none":
        return x
    return F.silu(x) if name == "silu" else F.gelu(x, approximate="tanh" if name == "gelu_tanh" else "none")


def _gelu_tanh(x: Tensor) -> Tensor:
    """Through the sigmoid: PyTorch's 1 + tanh loses its digits where x is far below 0."""
    return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))


def gated_activation(case: Case, t: Tensors) -> Outputs:
    gate, up = t["x"].chunk(2, -1) if "x" in t else (t["gate"], t["up"])
    name = case.options["activation"]
    act = _gelu_tanh(gate.float()) if name == "gelu_tanh" else _activation(name, gate.float())
    return store(case, act * up.float(), t)


def quantize(case: Case, t: Tensors) -> Outputs:
    x, dtype = t["x"].float(), DTYPES[case.dtype("out")]
    if case.has("tensor_scale"):
        amax = x.abs().amax().reshape(1)
        scale = torch.where(amax == 0, torch.ones_like(amax), amax / torch.finfo(dtype).max)
        return {"out": to_fp8(x * (1 / scale), dtype), "tensor_scale": scale}
    return store(case, x, t)


def dequantize(case: Case, t: Tensors) -> Outputs:
    y = t["x"].float()
    if "scale" in t:
        y = y * t["scale"]
    if "token_scale" in t:
        y = y * t["token_scale"][..., None]
    return {"out": y.to(DTYPES[case.dtype("out")])}


def reduce(case: Case, t: Tensors) -> Outputs:
    x, dtype = t["x"].float(), DTYPES[case.dtype("out")]
    x = x * t["factor"].float() if "factor" in t else x
    found = {"sum": x.sum, "mean": x.mean, "max": x.amax, "amax": x.abs().amax}[str(case.options["kind"])](-1)
    return {"out": found.to(dtype).reshape(t["out"].shape)}


def histogram(case: Case, t: Tensors) -> Outputs:
    return {"counts": torch.bincount(t["x"].flatten(), minlength=int(case.options["bins"])).int()}


def copy(case: Case, t: Tensors) -> Outputs:
    if "x" not in t:
        return {"out": torch.full_like(t["out"], case.options["value"])}
    if case.dtype("out").startswith("fp8") and case.dtype("x") != case.dtype("out"):
        return {"out": to_fp8(t["x"].float(), DTYPES[case.dtype("out")])}
    return {"out": t["x"].to(DTYPES[case.dtype("out")], copy=True, memory_format=torch.contiguous_format)}


def activation(case: Case, t: Tensors) -> Outputs:
    x = t["x"].float()
    for term in ("add", "bias"):
        x = x + t[term].float() if term in t else x
    name, alpha = str(case.options["activation"]), case.options["alpha"]
    plain: Mapping[str, Callable[[Tensor], Tensor]] = {
        "gelu_tanh": _gelu_tanh,
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
    y = plain[name](x) if name in plain else _activation(name, x)
    return store(case, torch.cat([t["front"].float(), y], -1) if "front" in t else y, t)


def euler_step(case: Case, t: Tensors) -> Outputs:
    v = t["velocity"].float()
    if "conditional" in t:
        v = v + case.options["guidance"] * (t["conditional"].float() - v)
    y = case.options["step"] * v
    y = t["sample"].float() + y if "sample" in t else y
    return {"out": y.to(DTYPES[case.dtype("out")])}


def timestep_embedding(case: Case, t: Tensors) -> Outputs:
    o, half = case.options, int(case.options["dim"]) // 2
    exponent = -math.log(o["max_period"]) * torch.arange(half, device=t["t"].device, dtype=torch.float32)
    angle = o["scale"] * (t["t"].float()[:, None] * torch.exp(exponent / (half - o["downscale"])))
    parts = [angle.cos(), angle.sin()] if o["cos_first"] else [angle.sin(), angle.cos()]
    return {"out": F.pad(torch.cat(parts, -1), (0, int(o["dim"]) % 2)).to(DTYPES[case.dtype("out")])}


def merge_attention_states(case: Case, t: Tensors) -> Outputs:
    lse = torch.logaddexp(t["lse_a"], t["lse_b"])

    def part(x: Tensor, own: Tensor) -> Tensor:
        return x.float() * torch.exp(own - lse).transpose(1, 2)[..., None]

    y = part(t["a"], t["lse_a"]) + part(t["b"], t["lse_b"])
    return {"out": y.to(DTYPES[case.dtype("out")])} | ({"lse": lse} if case.has("lse") else {})


def concat_pad(case: Case, t: Tensors) -> Outputs:
    x = torch.cat([t["cache"], t["x"]], 2) if "cache" in t else t["x"]
    around = [int(case.options[side]) for side in ("left", "right", "top", "bottom", "front")]
    return {"out": F.pad(x, (*around, 0))}


def upsample(case: Case, t: Tensors) -> Outputs:
    y = t["x"]
    for axis, name in ((-4, "time_scale"), (-3, "height_scale"), (-2, "width_scale")):
        scale = int(case.options[name])
        y = y.repeat_interleave(scale, axis) if scale > 1 else y
    y = y.float() + t["residual"].float() if "residual" in t else y
    return {"out": y.to(DTYPES[case.dtype("out")])}


def top_k(case: Case, t: Tensors) -> Outputs:
    found = torch.topk(t["scores"], int(case.options["k"]), -1)
    return {"values": found.values, "indices": found.indices.to(DTYPES[case.dtype("indices")])}


def group_norm(case: Case, t: Tensors) -> Outputs:
    weight, bias = (t[name].float() if name in t else None for name in ("weight", "bias"))
    y = F.group_norm(t["x"].float(), int(case.options["groups"]), weight, bias, case.options["eps"])
    return {"out": _activation(str(case.options["activation"]), y).to(DTYPES[case.dtype("out")])}


def channel_rms_norm(case: Case, t: Tensors) -> Outputs:
    y = F.normalize(t["x"].float(), dim=1, eps=case.options["eps"]) * t["x"].shape[1] ** 0.5
    for name, use in (("weight", torch.mul), ("bias", torch.add)):
        y = use(y, t[name].float()[:, None]) if name in t else y
    return {"out": _activation(str(case.options["activation"]), y).to(DTYPES[case.dtype("out")])}


def amax(case: Case, t: Tensors) -> Outputs:
    return {"amax": torch.maximum(t["amax"], t["x"].abs().amax().float())}


def residual_add(case: Case, t: Tensors) -> Outputs:
    x = t["x"].float()
    y = (x + t["bias"].float() if "bias" in t else x) + t["residual"].float()
    return {"out": y.to(DTYPES[case.dtype("out")])}


def embedding(case: Case, t: Tensors) -> Outputs:
    rows = F.embedding(t["ids"], t["table"])
    if case.options["scale"] == 1 and case.dtype("out") == case.dtype("table"):
        return {"out": rows}
    return {"out": (rows.float() * case.options["scale"]).to(DTYPES[case.dtype("out")])}


def softmax(case: Case, t: Tensors) -> Outputs:
    dtype = DTYPES[case.dtype("out")]
    if case.options["scale"] == 1 and dtype == t["x"].dtype:
        return {"out": torch.softmax(t["x"], -1)}
    return {"out": torch.softmax(t["x"].float() * case.options["scale"], -1).to(dtype)}


def patch_im2col(case: Case, t: Tensors) -> Outputs:
    views, height, width, channels = t["image"].shape
    p = int(case.options["patch"])
    patches = t["image"].reshape(views, height // p, p, width // p, p, channels).permute(0, 1, 3, 2, 4, 5)
    y = patches.float() * case.options["scale"] + case.options["shift"]
    return {"out": y.to(DTYPES[case.dtype("out")]).reshape(t["out"].shape)}


def gemm(case: Case, t: Tensors) -> Outputs:
    y = F.linear(t["a"], t["b"], t.get("bias"))
    if case.options["activation"] != "none":
        y = _activation(case.options["activation"], y)
    return {"out": y + t["residual"] if "residual" in t else y}


def _frequencies(case: Case) -> dict[str, Tensor]:
    """By kind of device: what a model computes once. In fp32, from exact powers, as the op's definition says."""
    if case.op not in ("rope", "qkv_split_rope"):
        return {}
    field = case.tensors["x" if case.op == "rope" else "q"]
    dim = int(case.options["rotary_dim"]) or field.shape[-1]
    exact = float(case.options["base"]) ** (-torch.arange(0, dim, 2).double() / dim)
    kinds = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    return {kind: exact.float().to(kind) for kind in kinds}


def _turn(case: Case, x: Tensor, t: Tensors, start: int) -> Tensor:
    """Rotary embedding over the last axis of [..., tokens, heads, dim]."""
    o = case.options
    dim = int(o["rotary_dim"]) or x.shape[-1]
    ahead = torch.arange(start, start + x.shape[-3], device=x.device)
    position = t.get("positions", ahead)
    if "cos" in t:
        cos, sin = t["cos"][position].float(), t["sin"][position].float()
    else:
        angle = position[..., None].float() * t[f"frequencies {x.device.type}"]
        cos, sin = angle.cos(), angle.sin()
    cos, sin = cos[..., None, :], sin[..., None, :]
    part, rest = x[..., :dim].float(), x[..., dim:]
    if o["pairs"] == "half":
        a, b = part.chunk(2, -1)
        turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    else:
        a, b = part[..., ::2], part[..., 1::2]
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    return torch.cat([turned.to(x.dtype), rest], -1) if rest.shape[-1] else turned.to(x.dtype)


def rope(case: Case, t: Tensors) -> Outputs:
    return {"out": _turn(case, t["x"], t, int(case.options["start"]))}


def qkv_split_rope(case: Case, t: Tensors) -> Outputs:
    tokens, q_heads, dim = t["q"].shape
    kv_heads, first = t["k_cache"].shape[1], int(case.options["cache_offset"])
    q, k, v = t["qkv"].split([q_heads * dim, kv_heads * dim, kv_heads * dim], -1)
    q, k = q.reshape(tokens, q_heads, dim), k.reshape(tokens, kv_heads, dim)
    t["k_cache"][first : first + tokens] = _turn(case, k, t, first)
    t["v_cache"][first : first + tokens] = v.reshape(tokens, kv_heads, dim)
    return {"q": _turn(case, q, t, first)}


def attention(case: Case, t: Tensors) -> Outputs:
    return {"out": attend(case, t)}


def attend(case: Case, t: Tensors) -> Tensor:
    """PyTorch's scaled_dot_product_attention on weft's layout, whatever backend is selected."""
    q, k, v = (t[name].transpose(1, 2) for name in ("q", "k", "v"))
    causal, mask = bool(case.options["causal"]), None
    if causal and q.shape[2] != k.shape[2]:  # aligned bottom-right
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
        mask, causal = mask.tril(k.shape[2] - q.shape[2]), False
    if "key_mask" in t:
        keys = t["key_mask"][:, None, None, :] != 0
        mask = keys if mask is None else keys & mask
    scale = case.options["scale"] or None
    grouped = q.shape[1] != k.shape[1]
    out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=grouped)
    return out.transpose(1, 2)


def _always(case: Case) -> bool:
    return True


def _plain_norm(case: Case) -> bool:
    return str(case.options["rounding"]) == "fused"  # the other modes are bit-exact copies of eager chains


def _plain_product(case: Case) -> bool:
    """One product that PyTorch rounds once; a gate's two products it would round before they meet."""
    return (
        not case.dtype("a").startswith("fp8") and case.dtype("a") == case.dtype("out") and not case.has("up")
    )


# What of an op the formulas cover.
_COVERED: Mapping[str, tuple[Callable[[Case, Tensors], Outputs], Callable[[Case], bool]]] = {
    "rms_norm": (rms_norm, _plain_norm),
    "layer_norm": (layer_norm, _plain_norm),
    "gated_activation": (gated_activation, _always),
    "quantize": (quantize, _always),
    "dequantize": (dequantize, _always),
    "amax": (amax, _always),
    "reduce": (reduce, lambda case: case.dtype("x") != "int8"),
    "histogram": (histogram, _always),
    "copy": (copy, _always),
    "activation": (activation, _plain_norm),
    "euler_step": (euler_step, _plain_norm),
    "timestep_embedding": (timestep_embedding, _always),
    "merge_attention_states": (merge_attention_states, _always),
    "concat_pad": (concat_pad, _always),
    "upsample": (upsample, lambda case: case.options["shuffle"] == 1),
    "top_k": (top_k, lambda case: case.options["groups"] == 1 and not case.has("bias")),
    "group_norm": (group_norm, _always),
    "channel_rms_norm": (channel_rms_norm, _always),
    "residual_add": (residual_add, _always),
    "embedding": (embedding, _always),
    "softmax": (softmax, _always),
    "patch_im2col": (patch_im2col, _always),
    "gemm": (gemm, _plain_product),
    "rope": (rope, _always),
    "qkv_split_rope": (qkv_split_rope, lambda case: not case.has("cache_offset_add")),
    "attention": (
        attention,
        lambda case: (
            not case.has("lse", "kv_lengths") and not (case.has("key_mask") and case.options["causal"])
        ),
    ),
}


def formula(case: Case) -> Compute | None:
    """How plain PyTorch computes a case; None where these formulas do not cover it."""
    entry = _COVERED.get(case.op)
    if entry is None or not entry[1](case) or any("fp4" in t.dtype for t in case.tensors.values()):
        return None
    compute = entry[0]
    constants = {f"frequencies {kind}": table for kind, table in _frequencies(case).items()}

    def call(t: Tensors) -> Any:
        return compute(case, {**t, **constants})

    return call
