"""`attn_implementation="weft"`: the attention function that transformers calls, and the masks that it is given.

Of a mask, weft's attention takes what hides keys from all queries, beside causality and a sliding window. The mask
function makes such masks where it can tell that nothing else is asked, and PyTorch's own elsewhere; calls with those,
and with whatever else weft's attention does not have, go to PyTorch's attention and are counted.

Such a mask is a uint8 of [batch, window, 1, keys], 0 hides a key. The window is its size along an axis that is not
stored (stride 0), so that a layer reads it without waiting for the device: 1 stands for none. One key in place of all
says that none of the queries' keys is hidden.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import masking_utils
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

import weft
from weft import swap

CALLS: Counter[str] = Counter()  # "weft", or the reason why a call was PyTorch's; traced calls once a graph


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _count_traced(reason: str) -> int:
    CALLS[reason] += 1
    return 0


def _count(module: nn.Module, reason: str | None) -> None:
    if torch.compiler.is_compiling():
        _count_traced(reason or "weft")
    else:
        CALLS[reason or "weft"] += 1
    if reason is not None and hasattr(type(module), "_weft_label"):
        swap.handed_on(module, f"attention: {reason}")


def _why_not_these(q: torch.Tensor, v: torch.Tensor, dropout: float, extra: dict[str, Any]) -> str | None:
    """What weft's attention lacks for a call, but for its mask."""
    if dropout:
        return "dropout"
    for name in ("position_bias", "cache", "output_attentions"):
        if extra.get(name) is not None and extra[name] is not False:
            return f"{name}: weft's attention has none"
    if (reason := swap.why_no_attention(q)) is not None:
        return reason
    if q.shape[-1] != v.shape[-1]:
        return "values of another size than the keys"
    sinks = extra.get("s_aux")
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (q, v, sinks)):
        return "a gradient is wanted, and weft has none"
    return None


def _window_of(mask: torch.Tensor | None) -> int:
    """Keys that a query sees of those up to its own; 0 where all."""
    return mask.shape[1] if mask is not None and mask.dtype == torch.uint8 and mask.shape[1] > 1 else 0


def _key_mask(mask: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor | str | None:
    """The mask as one of keys, or why it is none."""
    if mask is None or (mask.dtype == torch.uint8 and mask.shape[-1] == 1 < q.shape[2]):
        return None
    of_keys = mask.dim() == 4 and mask.shape[2] == 1
    if of_keys and (
        mask.dtype == torch.uint8 or (mask.dtype == torch.bool and mask.shape[1] == q.shape[2] == 1)
    ):
        keys = mask[:, 0, 0]
        if keys.dtype == torch.uint8 or keys.shape[-1] == k.shape[2]:
            return keys if keys.shape[0] == q.shape[0] else keys.expand(q.shape[0], -1).contiguous()
    return (
        "a mask that says more than which keys are hidden from all queries, and a window (packed sequences)"
    )


def attention(  # noqa: PLR0917 - transformers' order
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **extra: Any,
) -> tuple[Any, None]:
    """As transformers calls it: [batch, heads, tokens, dim] in, [batch, tokens, heads, dim] out."""
    wants_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    keys = _key_mask(attention_mask, query, key)
    reason = keys if isinstance(keys, str) else _why_not_these(query, value, dropout, extra)
    if reason is None:
        seen = key.shape[2] if keys is None else keys.shape[-1]  # type: ignore[union-attr]
        causal = bool(wants_causal and query.shape[2] > 1)
        if causal and keys is None:
            seen = query.shape[2]  # an empty static cache: what follows was not written yet
        q, k, v = (tensor.transpose(1, 2) for tensor in (query, key[:, :, :seen], value[:, :, :seen]))
        sinks = extra.get("s_aux")
        options: dict[str, Any] = dict(
            scale=scaling or 0.0, softcap=extra.get("softcap") or 0.0, causal=causal,
            window_left=_window_of(attention_mask) - 1, sinks=None if sinks is None else sinks.float(),
        )  # fmt: skip
        try:
            out = weft.attention(q, k, v, key_mask=keys, **options)
        except NotImplementedError as error:  # the dispatcher's reasons
            reason = str(error)
        else:
            _count(module, None)
            return out, None
    _count(module, reason)
    key, value, attention_mask = _spelled_out(query, key, value, attention_mask, wants_causal)
    options = extra | {"is_causal": wants_causal, "scaling": scaling, "dropout": dropout}
    fused = extra.get("softcap") is None and extra.get("s_aux") is None
    plain = sdpa_attention_forward if fused else _unfused
    return plain(module, query, key, value, attention_mask, **options)[0], None


Operands = tuple[torch.Tensor, torch.Tensor, "torch.Tensor | None"]


def _spelled_out(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, causal: bool
) -> Operands:
    """Keys, values and a mask as PyTorch takes it, of one that the mask function below made."""
    if mask is None or mask.dtype != torch.uint8:
        return key, value, mask
    queries, window = query.shape[2], _window_of(mask)
    seen = max(queries, mask.shape[-1])
    mask = mask[:, :1].bool()
    if causal and queries > 1:
        band = _lower_right(queries, seen, mask.device)
        mask = mask & (band.triu(seen - queries - window + 1) if window else band)
    return key[:, :, :seen], value[:, :, :seen], mask


def _unfused(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention whose scores have a soft cap or sinks, which PyTorch's fused attention does not have either."""
    cap, sinks, scaling = options.get("softcap"), options.get("s_aux"), options["scaling"]
    queries = query.shape[2]
    if mask is None and options["is_causal"] and queries > 1:
        key, value = key[:, :, :queries], value[:, :, :queries]
        mask = _lower_right(queries, queries, query.device)
    groups = query.shape[1] // key.shape[1]
    scores = query @ repeat_kv(key, groups).transpose(2, 3) * (scaling or query.shape[-1] ** -0.5)
    if cap is not None:
        scores = torch.tanh(scores / cap) * cap
    if mask is not None:
        lowest = max(torch.finfo(scores.dtype).min, torch.finfo(torch.float32).min)  # of the softmax too
        scores = scores.masked_fill(~mask, lowest) if mask.dtype == torch.bool else scores + mask
    if sinks is not None:
        scores = torch.cat((scores, sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)), -1)
    weights = torch.softmax(scores, -1, dtype=torch.float32).to(query.dtype)[..., : key.shape[2]]
    weights = nn.functional.dropout(weights, p=options["dropout"], training=module.training)
    return (weights @ repeat_kv(value, groups)).transpose(1, 2).contiguous(), None


def _lower_right(queries: int, keys: int, device: torch.device) -> torch.Tensor:
    last = torch.arange(queries, device=device)[:, None] + (keys - queries)
    return torch.arange(keys, device=device)[None, :] <= last


def _window(mask_function: Callable[..., Any]) -> int | None:
    """How many keys a sliding mask of the library lets a query see; None where it is another mask."""
    parts = inspect.getclosurevars(mask_function).nonlocals.get("mask_functions", ())
    others = [part for part in parts if part is not masking_utils.causal_mask_function]
    if len(parts) == 2 and len(others) == 1:
        made_by = f"{others[0].__module__}.{others[0].__qualname__}"
        if made_by == f"{masking_utils.__name__}.sliding_window_overlay.<locals>.inner_mask":
            return int(inspect.getclosurevars(others[0]).nonlocals["sliding_window"])
    return None


def _capturing() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def mask(  # noqa: PLR0917 - transformers' order
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | torch.Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = masking_utils.causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    **options: Any,
) -> torch.Tensor | None:
    """What `attention` is given as its mask.

    None where causality is all there is, as PyTorch's own mask function decides it. Of one query, any mask is one of
    keys. Of more, a causal one becomes a mask of keys, with the window where one cuts it.
    """
    given = dict(
        q_offset=q_offset, kv_offset=kv_offset, mask_function=mask_function, attention_mask=attention_mask
    )
    compiling = torch.compiler.is_compiling()  # then Python's introspection may decide nothing
    blind = compiling or _capturing()  # and no value of a tensor either
    wanted_whole = not options.get("allow_is_causal_skip", True)  # the model goes on with it itself
    if (
        q_length > 1
        and kv_offset == 0
        and not wanted_whole
        and not (blind and isinstance(q_offset, torch.Tensor))
    ):
        if mask_function is masking_utils.causal_mask_function:
            window: int | None = 0
        else:
            window = None if compiling else _window(mask_function)
        offset = int(q_offset)
        seen = offset + q_length
        if window is not None and window != 1 and seen <= kv_length:
            cut = window if 0 < window < seen else 1
            hidden = attention_mask is not None and (blind or not bool(attention_mask[:, :seen].all()))
            device = options.get("device", "cpu")
            if not hidden and not offset:
                if cut == 1:
                    return None
                return torch.ones(1, 1, 1, 1, dtype=torch.uint8, device=device).expand(-1, cut, -1, -1)
            keys = torch.ones(batch_size, seen, device=device) if attention_mask is None else attention_mask
            if keys.shape[-1] >= seen:
                return keys[:, None, None, :seen].to(torch.uint8).expand(-1, cut, -1, -1)
    made: torch.Tensor | None = masking_utils.sdpa_mask(batch_size, q_length, kv_length, **given, **options)
    if made is None or not compiling or q_length > 1:
        return made
    # One mask in memory for all layers: the compiler would work it out for each, between two of weft's kernels.
    stored = torch.empty(made.shape, dtype=made.dtype, device=made.device)
    weft.copy(made, out=stored)
    return stored
