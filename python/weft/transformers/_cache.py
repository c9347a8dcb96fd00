"""Static caches of transformers, into which the kernel of the rotation writes keys and values by itself.

`StaticLayer.update` makes positions, copies keys, copies values and counts on: four kernels behind the rotation's.
The rotation's op takes a cache beside its heads; what is left of `update` is the count. Layers of other classes
(sliding, growing, quantised, somebody else's) and caches that offload are updated by the library.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, StaticCache, StaticLayer

from weft import swap
from weft.transformers._sources import CACHES

# What stands in for `update` below was written for these sources of it.
_KNOWN = all(swap.source_hash(cls) in CACHES[cls.__name__] for cls in (Cache, StaticLayer))


def static_layer(cache: Any, index: int, k: torch.Tensor, v: torch.Tensor) -> Any:
    """The layer that takes these keys and values as they are, [batch, tokens, heads, dim]; None without one."""
    if not _KNOWN or type(cache) not in (Cache, StaticCache) or cache.offloading:
        return None
    if cache.layer_class_to_replicate is not None or type(cache.layers[index]) is not StaticLayer:
        return None
    layer = cache.layers[index]
    if not layer.is_initialized:
        return None
    batch, tokens, heads, width = k.shape
    for kept, new in ((layer.keys, k), (layer.values, v)):
        if (kept.dtype, kept.device, new.dtype) != (new.dtype, new.device, k.dtype):
            return None
        if kept.shape != (batch, heads, layer.max_cache_len, width) or tokens > layer.max_cache_len:
            return None
    return layer


def places(layer: Any, batch: int, tokens: int) -> dict[str, Any]:
    """The options of `weft.qk_norm_rope` by which a static layer gets the next tokens of each sequence.

    A cache is [batch, heads, room, dim]; its transposed view is one of pages, a page for each sequence. A token behind
    the end of its page has no row, lest it take one of the next sequence. Of one sequence the rows are the positions,
    and the position of a single token is the layer's count: no kernel makes it.
    """
    last = layer.cumulative_length
    if batch == tokens == 1:
        slots = last.view(1, 1)
    else:
        positions = torch.arange(tokens, device=last.device) + last
        begins = torch.arange(batch, device=last.device)[:, None] * layer.max_cache_len
        slots = torch.where(positions < layer.max_cache_len, begins + positions, -1)
    return dict(slots=slots, k_cache=layer.keys.transpose(1, 2), v_cache=layer.values.transpose(1, 2))
