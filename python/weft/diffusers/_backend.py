"""`set_attention_backend("weft")`: diffusers' attention by weft, with masks of keys and under context parallelism.

diffusers keeps its backends in an enumeration that nobody else may extend. weft adds a member to it from outside, which
works for as long as the enumeration is what it is today: `register` looks first, and raises where it finds another.

What weft's attention lacks goes to PyTorch's, and is counted in `CALLS`.
"""

from __future__ import annotations

from collections import Counter
from enum import EnumMeta
from typing import Any

import torch
from diffusers.models import attention_dispatch as library

import weft
from weft import swap

NAME = "weft"
CALLS: Counter[str] = Counter()  # "weft", or the reason why a call was PyTorch's; traced calls once a graph
HIDES = (
    -9e3
)  # an additive mask hides a key from here down: pipelines use -10000, which bf16 rounds, or much less


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _count_traced(reason: str) -> int:
    CALLS[reason] += 1
    return 0


def _count(reason: str) -> None:
    if torch.compiler.is_compiling():
        _count_traced(reason)
    else:
        CALLS[reason] += 1


def _why_not_masked(mask: torch.Tensor) -> str | None:
    """Why an additive mask [batch, heads, 1, keys] does not say of each key whether all queries see it."""
    if torch.compiler.is_compiling():
        return "an additive mask, whose values nobody sees while a graph is traced"
    if mask.is_cuda and torch.cuda.is_current_stream_capturing():
        return "an additive mask, whose values nobody sees while a graph is captured"
    seen = mask == 0
    plain = (seen | (mask <= HIDES)).all() & seen.any(-1).all() & (mask == mask[:, :1]).all()
    if bool(plain):
        return None
    return "an additive mask with values between seen and hidden, that hides all keys, or that differs among heads"


def key_mask(mask: torch.Tensor | None, batch: int, keys: int) -> torch.Tensor | str | None:
    """A mask as [batch, keys], True where a key is seen; or why it is more than that."""
    if mask is None:
        return None
    if mask.dim() == 2 and mask.shape == (batch, keys):
        mask = mask[:, None, None]
    if mask.dim() != 4 or mask.shape[2] != 1 or mask.shape[-1] != keys or mask.shape[0] not in (1, batch):
        return "a mask that is not one of keys"
    if mask.dtype == torch.bool:
        if mask.shape[1] != 1:
            return "a mask for each head"
    else:
        reason = _why_not_masked(mask)
        if reason is not None:
            return reason
        mask = mask == 0
    return mask[:, 0, 0].expand(batch, keys)


def _why_not(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float, causal: bool) -> str | None:
    """What weft's attention lacks for a call, but for its mask."""
    if dropout:
        return "dropout"
    if causal and q.shape[1] != k.shape[1]:
        return "causal with fewer queries than keys: PyTorch aligns them at the first"
    if len({q.dtype, k.dtype, v.dtype}) > 1:
        return f"dtypes {q.dtype}, {k.dtype}, {v.dtype}"
    if q.shape[-1] != v.shape[-1]:
        return "values of another size than the keys"
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return "a gradient is wanted, and weft has none"
    return None


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    return_lse: bool,
    out: torch.Tensor | None = None,
) -> Any:
    """Attention over [batch, tokens, heads, dim]; with return_lse also the logarithms, [batch, tokens, heads].

    Without them the result is in `out`, where there is one.
    """
    reason = _why_not(query, key, value, dropout_p, is_causal)
    seen = None
    if reason is None:
        seen = key_mask(attn_mask, query.shape[0], key.shape[1])
        reason = seen if isinstance(seen, str) else swap.why_no_attention(query)
    if reason is None:
        try:
            written = weft.attention(
                query,
                key,
                value,
                key_mask=seen,
                scale=scale or 0.0,
                causal=is_causal,
                out=None if return_lse else out,
                lse=return_lse or None,
            )
        except NotImplementedError as error:  # the dispatcher's reasons
            reason = str(error)
        else:
            _count(NAME)
            return (written.out, written.lse.transpose(1, 2)) if return_lse else written
    if return_lse:
        raise NotImplementedError(
            f"weft's attention does not take this call, and no other has its sums: {reason}"
        )
    _count(reason)
    native = library._AttentionBackendRegistry._backends[library.AttentionBackendName.NATIVE]
    made = native(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return made if out is None else out.copy_(made)


def _forward(
    ctx: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    _save_ctx: bool = True,
    _parallel_config: Any = None,
) -> Any:
    """A rank's part, as diffusers' templates of context parallelism call it."""
    parallel = _parallel_config.context_parallel_config
    if parallel.ring_degree > 1 and attn_mask is not None:
        raise NotImplementedError(
            "a mask in ring attention: diffusers passes each rank's own mask along with the keys of others; "
            "use ulysses_degree"
        )
    return _attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, return_lse)


def _backward(*_: Any) -> Any:
    raise NotImplementedError("weft has no gradients")


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    out: torch.Tensor | None = None,
    _parallel_config: Any = None,
) -> Any:
    """The backend: what diffusers' dispatch_attention_fn calls. `out`: where weft's own adapters want the result."""
    options = (attn_mask, dropout_p, is_causal, scale, enable_gqa, return_lse)
    if _parallel_config is None:
        return _attend(query, key, value, *options, out)
    return library._templated_context_parallel_attention(
        query,
        key,
        value,
        *options,
        forward_op=_forward,
        backward_op=_backward,
        _parallel_config=_parallel_config,
    )


def register() -> Any:
    """Adds the backend, once; returns its member of AttentionBackendName."""
    names = library.AttentionBackendName
    known = names._value2member_map_.get(NAME)
    if known is not None:
        if library._AttentionBackendRegistry._backends.get(known) is not attention:
            raise RuntimeError(f"diffusers has a backend {NAME!r} that is not weft's")
        return known
    if type(names) is not EnumMeta or not issubclass(names, str) or "_missing_" in vars(names):
        raise RuntimeError(
            "diffusers' AttentionBackendName is no longer a plain enumeration of strings, which weft adds its name to"
        )
    closed: Any = names
    member: Any = str.__new__(names, NAME)
    member._name_, member._value_ = NAME.upper(), NAME
    member.__objclass__ = names
    member._sort_order_ = len(closed._member_names_)
    closed._member_names_.append(member._name_)
    closed._member_map_[member._name_] = member
    closed._value2member_map_[NAME] = member
    type.__setattr__(names, member._name_, member)
    library._AttentionBackendRegistry.register(member, supports_context_parallel=True)(attention)
    return member
