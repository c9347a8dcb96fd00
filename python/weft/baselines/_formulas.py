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
