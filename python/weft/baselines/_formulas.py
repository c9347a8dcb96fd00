"""The ops in plain PyTorch, in two forms.

`ONCE` is how a careful user writes them: fp32 arithmetic and one rounding, as weft's contracts say. `AS_WRITTEN` is how
model libraries do: in the tensors' own dtypes, so that each operator's result is rounded as it is stored. PyTorch's own
operators are taken where they compute that; torch.compile fuses the rest.

The second form, over weft.baselines._bounded, also says which results such roundings may lead to (`bounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.baselines import Case, Compute, Tensors
from weft.baselines import _one_pass as one_pass
from weft.baselines import _products as products
from weft.baselines._bounded import Bounded
from weft.baselines._form import AS_WRITTEN, ONCE, Form, Outputs, activate, gelu_tanh, store, to_fp8
from weft.baselines._norms import beside, layer_norm, rms_norm
from weft.torch import DTYPES


def gated_activation(case: Case, t: Tensors, form: Form) -> Outputs:
    gate, up = t["x"].chunk(2, -1) if "x" in t else (t["gate"], t["up"])
    name, gate = case.options["activation"], form.read(gate)
    act = gelu_tanh(gate) if name == "gelu_tanh" and not form.as_written else activate(name, gate)
    return store(case, act * form.read(up), t)


def quantize(case: Case, t: Tensors, _: Form) -> Outputs:
    x, dtype = t["x"].float(), DTYPES[case.dtype("out")]
    if case.has("tensor_scale"):
        amax = x.abs().amax().reshape(1)
        scale = torch.where(amax == 0, torch.ones_like(amax), amax / torch.finfo(dtype).max)
        return {"out": to_fp8(x * (1 / scale), dtype), "tensor_scale": scale}
    return store(case, x, t)


def dequantize(case: Case, t: Tensors, _: Form) -> Outputs:
    y = t["x"].float()
    if "scale" in t:
        y = y * t["scale"]
    if "token_scale" in t:
        y = y * t["token_scale"][..., None]
    return {"out": y.to(DTYPES[case.dtype("out")])}


def amax(case: Case, t: Tensors, _: Form) -> Outputs:
    return {"amax": torch.maximum(t["amax"], t["x"].abs().amax().float())}


def residual_add(case: Case, t: Tensors, form: Form) -> Outputs:
    x = form.read(t["x"])
    y = x + form.read(t["bias"]) if "bias" in t else x
    y = y * beside(form.read(t["gate"]), y) if "gate" in t else y
    return {"out": (y + form.read(t["residual"])).to(DTYPES[case.dtype("out")])}


def embedding(case: Case, t: Tensors, _: Form) -> Outputs:
    rows = F.embedding(t["ids"], t["table"])
    if case.options["scale"] == 1 and case.dtype("out") == case.dtype("table"):
        return {"out": rows}
    return {"out": (rows.float() * case.options["scale"]).to(DTYPES[case.dtype("out")])}


def softmax(case: Case, t: Tensors, form: Form) -> Outputs:
    dtype, scale = DTYPES[case.dtype("out")], case.options["scale"]
    if scale == 1 and dtype == t["x"].dtype:
        return {"out": torch.softmax(t["x"], -1)}
    return {"out": torch.softmax(form.read(t["x"]) * scale, -1).to(dtype)}


def patch_im2col(case: Case, t: Tensors, _: Form) -> Outputs:
    views, height, width, channels = t["image"].shape
    p = int(case.options["patch"])
    patches = t["image"].reshape(views, height // p, p, width // p, p, channels).permute(0, 1, 3, 2, 4, 5)
    y = patches.float() * case.options["scale"] + case.options["shift"]
    return {"out": y.to(DTYPES[case.dtype("out")]).reshape(t["out"].shape)}


def _frequencies(case: Case) -> dict[str, Tensor]:
    """By kind of device: what a model computes once. In fp32, from exact powers, as the op's definition says."""
    if case.op not in ("rope", "qkv_split_rope", "qk_norm_rope"):
        return {}
    field = case.tensors["x" if case.op == "rope" else "q"]
    dim = int(case.options["rotary_dim"]) or field.shape[-1]
    exact = float(case.options["base"]) ** (-torch.arange(0, dim, 2).double() / dim)
    kinds = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    return {kind: exact.float().to(kind) for kind in kinds}


def _parts(case: Case, pairs: int) -> list[int]:
    """Which of three positions turns each pair."""
    second, third = int(case.options["section2"]), int(case.options["section3"])
    if case.options["sections"] == "blocks":
        return [0] * (pairs - second - third) + [1] * second + [2] * third
    limits = (0, 3 * second, 3 * third)
    return [i % 3 if i < limits[i % 3] else 0 for i in range(pairs)]


def _turns(case: Case, t: Tensors, x: Tensor, start: int, form: Form) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every token's pairs, beside the heads of x."""
    if "head_cos" in t:
        return form.read(t["head_cos"]), form.read(t["head_sin"])
    pairs = (int(case.options["rotary_dim"]) or x.shape[-1]) // 2
    ahead = torch.arange(start, start + x.shape[-3], device=x.device)
    position = t.get("positions", ahead)
    if "positions2" in t:
        three = [position, t["positions2"], t.get("positions3", position)]
        position = torch.stack([three[part] for part in _parts(case, pairs)], -1)
    if "cos" in t:
        at = (position, torch.arange(pairs, device=x.device)) if "positions2" in t else (position,)
        cos, sin = form.read(t["cos"][at]), form.read(t["sin"][at])
    else:
        position = position if "positions2" in t else position[..., None]
        angle = position.float() * t.get("frequencies", t[f"frequencies {x.device.type}"])
        cos, sin = form.keep(angle.cos(), x.dtype), form.keep(angle.sin(), x.dtype)
    return cos[..., None, :], sin[..., None, :]


def _turn(case: Case, x: Tensor, turns: tuple[Tensor, Tensor], dtype: torch.dtype, form: Form) -> Tensor:
    """Rotary embedding over the last axis of [..., tokens, heads, dim], stored in this dtype."""
    cos, sin = turns
    dim = int(case.options["rotary_dim"]) or x.shape[-1]
    part, rest = form.read(x[..., :dim]), x[..., dim:].to(dtype)
    if case.options["pairs"] == "half":
        a, b = part.chunk(2, -1)
        turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    else:
        a, b = part[..., ::2], part[..., 1::2]
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    return torch.cat([turned.to(dtype), rest], -1) if rest.shape[-1] else turned.to(dtype)


def rope(case: Case, t: Tensors, form: Form) -> Outputs:
    x = t["x"]
    return {"out": _turn(case, x, _turns(case, t, x, int(case.options["start"]), form), x.dtype, form)}


def qk_norm_rope(case: Case, t: Tensors, form: Form) -> Outputs:
    turns = _turns(case, t, t["q"], int(case.options["start"]), form)
    over = {"head": (-1,), "row": (-2, -1)}.get(str(case.options["norm"]))

    def heads(name: str) -> Tensor:
        x, weight = t[name], t.get(f"{name}_weight")
        y = x.float()
        if over:
            y = y * torch.rsqrt(y.square().mean(over, keepdim=True) + case.options["eps"])
        if weight is not None:
            y = y * (weight.float().reshape(-1, x.shape[-1]) + case.options["weight_offset"])
        return _turn(case, y, turns, x.dtype, form)

    outputs = {"q_out": heads("q")}
    if "k" in t:
        outputs["k_out"] = heads("k")
    if "v" in t:
        outputs["v_out"] = t["v"].clone()
    return outputs


def qkv_split_rope(case: Case, t: Tensors, form: Form) -> Outputs:
    tokens, q_heads, dim = t["q"].shape
    kv_heads, first = t["k_cache"].shape[1], int(case.options["cache_offset"])
    q, k, v = t["qkv"].split([q_heads * dim, kv_heads * dim, kv_heads * dim], -1)
    q, k = q.reshape(tokens, q_heads, dim), k.reshape(tokens, kv_heads, dim)
    turns = _turns(case, t, t["q"], first, form)
    t["k_cache"][first : first + tokens] = _turn(case, k, turns, k.dtype, form)
    t["v_cache"][first : first + tokens] = v.reshape(tokens, kv_heads, dim)
    return {"q": _turn(case, q, turns, q.dtype, form)}


def attention(case: Case, t: Tensors, _: Form) -> Outputs:
    return {"out": attend(case, t)}


def widened(case: Case, t: Tensors, name: str) -> Tensor:
    """Queries, keys or values in 16 bits: fp8 times its heads' scales, as one who has no kernel for it makes it."""
    if not case.dtype(name).startswith("fp8"):
        return t[name]
    stored = t[name].to(DTYPES[case.dtype("out")])
    if f"{name}_scale" not in t:
        return stored
    heads = t[f"{name}_scale"].repeat_interleave(stored.shape[2] // t["k"].shape[2])
    return stored * heads[:, None].to(stored.dtype)


def attend(case: Case, t: Tensors) -> Tensor:
    """PyTorch's scaled_dot_product_attention on weft's layout, whatever backend is selected."""
    q, k, v = (widened(case, t, name).transpose(1, 2) for name in ("q", "k", "v"))
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


def _never(case: Case) -> bool:
    return False


def _written_norm(case: Case) -> bool:
    return case.has("weight", "bias", "residual", "mod_scale", "mod_shift")


def _rounds_twice(case: Case) -> bool:
    return case.has("bias", "gate")


def _scaled(case: Case) -> bool:
    return bool(case.options["scale"] != 1)


@dataclass(frozen=True)
class _Entry:
    """An op's formula, the cases that it computes with one rounding, and those that are written otherwise too."""

    compute: Callable[[Case, Tensors, Form], Outputs]
    fields: str  # those that it knows
    once: Callable[[Case], bool] = _always
    as_written: Callable[[Case], bool] = _never

    def covers(self, case: Case, form: Form) -> bool:
        if not case.only(*self.fields.split()) or any("fp4" in t.dtype for t in case.tensors.values()):
            return False
        if (
            case.options.get("rounding", "fused") != "fused"
        ):  # the other modes are bit-exact copies of eager chains
            return False
        return self.as_written(case) if form.as_written else self.once(case)


def without_windows(case: Case) -> bool:
    """No option of weft's attention that PyTorch's does not have."""
    windows = (case.options["window_left"], case.options["window_right"])
    return windows == (-1, -1) and not case.options["softcap"]


def _plain_attention(case: Case) -> bool:
    return not (case.has("key_mask") and case.options["causal"]) and without_windows(case)


_NORM = (
    "x weight bias residual gate residual_out mod_index mod_scale mod_shift mod_scale2 mod_shift2 out scale "
    "token_scale out2"
)
_ENTRIES: Mapping[str, _Entry] = {
    "rms_norm": _Entry(rms_norm, _NORM, as_written=_written_norm),
    "layer_norm": _Entry(layer_norm, _NORM, as_written=_written_norm),
    "gated_activation": _Entry(gated_activation, "x gate up out scale token_scale", as_written=_always),
    "quantize": _Entry(quantize, "x out scale tensor_scale token_scale"),
    "dequantize": _Entry(dequantize, "x out scale token_scale"),
    "amax": _Entry(amax, "x amax"),
    "reduce": _Entry(one_pass.reduce, "x factor out", lambda case: case.dtype("x") != "int8"),
    "histogram": _Entry(one_pass.histogram, "x counts"),
    "copy": _Entry(one_pass.copy, "x out"),
    "activation": _Entry(one_pass.activation, "x add bias front out scale token_scale"),
    "euler_step": _Entry(one_pass.euler_step, "velocity conditional sample out"),
    "timestep_embedding": _Entry(one_pass.timestep_embedding, "t out"),
    "merge_attention_states": _Entry(one_pass.merge_attention_states, "a b lse_a lse_b out lse"),
    "concat_pad": _Entry(one_pass.concat_pad, "x cache out"),
    "upsample": _Entry(one_pass.upsample, "x residual out", lambda case: case.options["shuffle"] == 1),
    "top_k": _Entry(one_pass.top_k, "scores values indices", lambda case: case.options["groups"] == 1),
    "group_norm": _Entry(one_pass.group_norm, "x weight bias out"),
    "channel_rms_norm": _Entry(one_pass.channel_rms_norm, "x weight bias out"),
    "residual_add": _Entry(residual_add, "x residual bias gate out", as_written=_rounds_twice),
    "embedding": _Entry(embedding, "ids table out"),
    "softmax": _Entry(softmax, "x out", as_written=_scaled),
    "patch_im2col": _Entry(patch_im2col, "image out"),
    "gemm": _Entry(
        products.gemm,
        "a b a_scale b_scale a_token_scale b_channel_scale bias up up_scale up_channel_scale up_bias gate residual "
        "out_scale out",
        products.rounds_once,
        products.rounds_in_between,
    ),
    "rope": _Entry(rope, "x out positions cos sin", as_written=_always),
    "qkv_split_rope": _Entry(qkv_split_rope, "qkv q k_cache v_cache positions cos sin", as_written=_always),
    # PyTorch has no write to rows of a cache that skips some.
    "qk_norm_rope": _Entry(
        qk_norm_rope,
        "q k v q_weight k_weight positions positions2 positions3 cos sin frequencies head_cos head_sin "
        "q_out k_out v_out",
        lambda case: case.options["prefix"] == 0,
    ),
    "attention": _Entry(attention, "q k v key_mask q_scale k_scale v_scale out", _plain_attention),
}


def formula(case: Case, form: Form = ONCE) -> Compute | None:
    """How plain PyTorch computes a case in this form; None where these formulas do not."""
    entry = _ENTRIES.get(case.op)
    if entry is None or not entry.covers(case, form):
        return None
    compute = entry.compute
    constants = {f"frequencies {kind}": table for kind, table in _frequencies(case).items()}

    def call(t: Tensors) -> Any:
        return compute(case, {**t, **constants}, form)

    return call


Bounds = dict[str, tuple[Tensor, Tensor]]  # by output: the least and the largest value of each element


def chained(case: Case) -> bool:
    """Is it computed by a chain of operators that round between them?"""
    entry = _ENTRIES.get(case.op)
    return entry is not None and (
        entry.covers(case, AS_WRITTEN) or (case.op == "gemm" and entry.covers(case, ONCE))
    )


def bounds(case: Case, t: Tensors) -> Bounds | None:
    """What a result may be that rounds between the steps that model libraries write, or after any of them not.

    None where the op has no such chain: then it has the contract's one rounding, and nothing else is right.
    """
    if not chained(case):
        return None
    values: dict[str, Any] = {
        name: Bounded.exact(x) if x.is_floating_point() else x
        for name, x in t.items()
        if name not in ("out", "residual_out", "out2")
    }
    constants: dict[str, Any] = {
        f"frequencies {kind}": Bounded.exact(x) for kind, x in _frequencies(case).items()
    }
    results: dict[str, Any] = _ENTRIES[case.op].compute(case, {**values, **constants}, AS_WRITTEN)
    inout = {name: values[name] for name in t if name.endswith("_cache")}
    return {
        name: result.ends(t[name].dtype)
        for name, result in {**inout, **results}.items()
        if isinstance(result, Bounded)
    }
