"""What the blocks of several models have in common: norms with modulation and gated residuals, heads that turn.

Each takes weights, eps and kind from the modules of the model. `prepare` looks at them once and says why not; hooks and
dtypes may change at any time and are asked about on each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from diffusers.models.attention_dispatch import dispatch_attention_fn
from torch import nn

import weft
from weft import swap
from weft.diffusers._backend import NAME
from weft.diffusers._sources import why_unknown

Rope = Mapping[str, Any]  # how the heads of a sequence turn: arguments of weft.qk_norm_rope


def why_no_norm(
    module: nn.Module, names: Iterable[str], kinds: Sequence[str] = ("rms", "layer")
) -> str | None:
    """Why these submodules are not norms of those kinds that weft's ops take."""
    for name in names:
        norm = getattr(module, name, None)
        if not isinstance(norm, nn.Module):
            return f"{name}: there is none"
        found = swap.read_norm(norm)
        if isinstance(found, str):
            return f"{name}: {found}"
        if found.kind not in kinds or found.kind != _kind(norm):
            return f"{name}: a {found.kind} norm"
        if getattr(norm, "eps", None) != found.eps or found.weight_offset:
            return f"{name}: its eps or its weight has another form than the norms of this model"
    return None


def why_not_norms(module: nn.Module, names: Iterable[str]) -> str | None:
    """Why the weights of these submodules may not be read in this call."""
    for name in names:
        reason = swap.why_not_read(getattr(module, name))
        if reason is not None:
            return f"{name}: {reason}"
    return None


def _kind(norm: nn.Module) -> str:
    return "layer" if isinstance(norm, nn.LayerNorm) else "rms"


def _rows(values: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor | None:
    """Values of each sequence, [batch, dim], as they stand beside its rows; others as they are."""
    return values[:, None] if values is not None and values.dim() < x.dim() else values


def normed(
    norm: nn.Module,
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    shift: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    index: torch.Tensor | None = None,
) -> Any:
    """norm(x) · (1 + scale) + shift; with a residual, of residual + gate · x, and that sum beside it.

    With an index, scale and shift are tables, and it has each row's row of them.
    """
    values: dict[str, Any] = {"eps": norm.eps, "weight": norm.weight, "bias": getattr(norm, "bias", None)}
    if scale is not None:
        if index is None:
            scale, shift = _rows(scale, x), _rows(shift, x)
        values |= {"mod_scale": scale, "mod_shift": shift, "mod_offset": 1.0, "mod_index": index}
    if residual is not None:
        values |= {"residual": residual, "gate": _rows(gate, x), "residual_out": True}
    op = weft.layer_norm if _kind(norm) == "layer" else weft.rms_norm
    return op(x, out_dtype=(x if residual is None else residual).dtype, **values)


def added(x: torch.Tensor, residual: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """residual + gate · x."""
    out: torch.Tensor = weft.residual_add(x, residual, gate=_rows(gate, x), out_dtype=residual.dtype)
    return out


def second_half(
    norm: nn.Module,
    feed_forward: nn.Module,
    hidden: torch.Tensor,
    update: torch.Tensor,
    gate: torch.Tensor,
    shift: torch.Tensor,
    scale: torch.Tensor,
    gate_mlp: torch.Tensor,
) -> torch.Tensor:
    """What a block with AdaLN zero does to a stream after attention, whose result is `update`."""
    x, hidden = normed(norm, update, scale, shift, residual=hidden, gate=gate)
    return added(feed_forward(x), hidden, gate_mlp)


def clipped(x: torch.Tensor) -> torch.Tensor:
    """Within fp16's numbers, as the blocks of some models keep their streams."""
    return x.clip(-65504, 65504) if x.dtype == torch.float16 else x


# --- attention ---


def why_no_heads(attn: nn.Module, processor: str, norms: Sequence[str]) -> str | None:
    """Why an attention's Q/K norms are not weft's to compute; `processor` is the one whose computation this is."""
    return (
        why_not_processor(attn, processor)
        or why_unknown(type(attn.processor))
        or why_no_norm(attn, norms, ("rms",))
        or _why_not_equal(attn, norms)
    )


def _why_not_equal(attn: nn.Module, norms: Sequence[str]) -> str | None:
    for q, k in zip(norms[::2], norms[1::2], strict=True):
        if getattr(attn, q).eps != getattr(attn, k).eps:
            return f"{q} and {k} have different eps"
        if any(getattr(getattr(attn, name), "bias", None) is not None for name in (q, k)):
            return f"{q} or {k} has a bias"
    return None


def why_not_processor(attn: Any, processor: str) -> str | None:
    """Why the computation that an attention asks for is not that of this processor."""
    found = type(attn.processor).__name__
    return None if found == processor else f"its processor is a {found}"


def why_not_heads(attn: nn.Module, processor: str, norms: Sequence[str], x: torch.Tensor) -> str | None:
    """Why this call of an attention is its own class's."""
    reason = why_not_processor(attn, processor) or why_not_norms(attn, norms)
    if reason is not None:
        return reason
    for name in norms:
        weight = getattr(attn, name).weight
        if weight is not None and weight.dtype != x.dtype:
            return f"{name}: its weight is {weight.dtype} beside {x.dtype}"
    return None


def projected(
    attn: Any, x: torch.Tensor, names: Sequence[str], fused: str, head_dim: int
) -> list[torch.Tensor]:
    """Q, K and V as [batch, tokens, heads, head_dim], of projections that diffusers may have fused."""
    if getattr(attn, "fused_projections", False) and hasattr(attn, fused):
        parts = getattr(attn, fused)(x).chunk(3, dim=-1)
    else:
        parts = [getattr(attn, name)(x) for name in names]
    return [part.unflatten(-1, (-1, head_dim)) for part in parts]


def table(tables: Sequence[torch.Tensor], start: int = 0) -> Rope:
    """Of cosines and sines, [tokens, head_dim], that have each number twice, for pairs of neighbours."""
    cos, sin = tables
    return {"cos": cos[:, ::2], "sin": sin[:, ::2], "start": start}


def turned(
    norms: Sequence[Any],
    q: torch.Tensor,
    k: torch.Tensor,
    rope: Rope,
    over: Literal["head", "row"],
    **into: Any,
) -> Any:
    """One call for the norms of Q and K (`over` a head, or a row of heads) and their rotation."""
    norm_q, norm_k = norms
    values: dict[str, Any] = {"k_out": True} | dict(rope) | into
    return weft.qk_norm_rope(
        q,
        k,
        q_weight=norm_q.weight,
        k_weight=norm_k.weight,
        pairs="interleaved",
        norm=over,
        eps=norm_q.eps,
        **values,
    )


def joined(
    attn: Any, sequences: Sequence[tuple[str, str, Sequence[torch.Tensor], Rope]]
) -> list[torch.Tensor]:
    """Q, K and V of several sequences, one after the other: each is normed, turned and written where it belongs.

    A sequence has the names of its norms of Q and K, its Q, K and V, and its rotation.
    """
    firsts = sequences[0][2]
    tokens = sum(parts[0].shape[1] for _, _, parts, _ in sequences)
    joint = [part.new_empty(part.shape[0], tokens, *part.shape[2:]) for part in firsts]
    at = 0
    for norm_q, norm_k, (q, k, v), rope in sequences:
        until = at + q.shape[1]
        q_out, k_out, v_out = (whole[:, at:until] for whole in joint)
        norms = getattr(attn, norm_q), getattr(attn, norm_k)
        turned(norms, q, k, rope, "head", v=v, q_out=q_out, k_out=k_out, v_out=v_out)
        at = until
    return joint


def attended(
    attn: Any,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: Any = None,
    into: torch.Tensor | None = None,
) -> torch.Tensor:
    """The attention that the user chose, [batch, tokens, heads · head_dim]; in `into`, if that is given."""
    processor = attn.processor
    told = into is not None and processor._attention_backend == NAME and processor._parallel_config is None
    out: torch.Tensor = dispatch_attention_fn(
        q,
        k,
        v,
        attn_mask=mask,
        attention_kwargs={"out": into.unflatten(-1, q.shape[-2:])} if into is not None and told else None,
        backend=processor._attention_backend,
        parallel_config=processor._parallel_config,
    )
    if into is None:
        return out.flatten(2, 3).to(q.dtype)
    return into if told else into.copy_(out.flatten(2, 3))


def after(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Tokens [batch, tokens, features] of one sequence behind those of another; a view, where they lie so already."""
    batch, tokens, features = first.shape
    whole = (batch, tokens + second.shape[1], features)
    if (
        not torch.compiler.is_compiling()  # what a graph is given may lie anywhere the next time
        and first.dtype == second.dtype
        and first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
        and first.stride() == second.stride() == (whole[1] * features, features, 1)
        and second.storage_offset() == first.storage_offset() + tokens * features
    ):
        return first.as_strided(whole, first.stride())
    return torch.cat([first, second], dim=1)
