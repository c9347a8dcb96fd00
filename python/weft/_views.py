"""Views of arrays by the words of `names.csv`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any


def _last(array: Any) -> Any:
    """Channels, the second axis, moved behind all others."""
    for axis in range(1, array.ndim - 1):
        array = array.swapaxes(axis, axis + 1)
    return array


def _first(array: Any) -> Any:
    """What `_last` was made of."""
    for axis in reversed(range(1, array.ndim - 1)):
        array = array.swapaxes(axis, axis + 1)
    return array


def _over(array: Any, ranks: int) -> Any:
    """Heads shared out among ranks, which become an axis before the tokens."""
    heads = array.shape[-2]
    if ranks < 1 or heads % ranks:
        raise ValueError(f"expected a number of ranks that divides the {heads} heads, got {ranks}")
    return array.reshape(*array.shape[:-2], ranks, heads // ranks, array.shape[-1]).swapaxes(-3, -4)


# Views by word; frameworks that have none make copies. "2of3": the second third of the last axis.
_VIEWS: dict[str, Callable[[Any], Any]] = {
    "flat": lambda array: array.reshape(-1),
    "turned": lambda array: array.swapaxes(-1, -2),
    "joined": lambda array: array.reshape(*array.shape[:-2], -1),
    "spatial": lambda array: array.reshape(*array.shape[:2], -1),
    "last": _last,
    "first": _first,
    "even": lambda array: array[..., ::2],
    "odd": lambda array: array[..., 1::2],
    "heads": lambda array: array.swapaxes(-2, -3),
    "one_head": lambda array: array.reshape(*array.shape[:-1], 1, array.shape[-1]),
    "one_sequence": lambda array: array.reshape(1, -1, *array.shape[-2:]),
    "tokens": lambda array: array.reshape(array.shape[0] * array.shape[1], -1),
    "table": lambda array: array.reshape(-1, array.shape[-1]),
    "packed": lambda array: array.reshape(-1, *array.shape[-3:]),
    "q_heads": lambda array: array[..., 0, :, :],
    "k_heads": lambda array: array[..., 1, :, :],
    "v_heads": lambda array: array[..., 2, :, :],
    "ranks": lambda array: array.swapaxes(0, 2),
    "batched": lambda array: array.reshape(1, *array.shape),
    "unbatched": lambda array: array.reshape(array.shape[1:]),
    "framed": lambda array: array.reshape(array.shape[0], 1, *array.shape[1:]),
    "video": lambda array: array.reshape(array.shape[0], math.prod(array.shape[1:4]), *array.shape[-2:]),
    "fp32": lambda array: array.float() if hasattr(array, "float") else array.astype("float32"),
    "unframed": lambda array: array.reshape(array.shape[0], *array.shape[2:]),
}
BY_NUMBER: dict[str, Callable[[Any, int], Any]] = {"over": _over}
_PART = re.compile(r"(\d+)of(\d+)")


def viewed(array: Any, words: Sequence[str]) -> Any:
    """An array by each of the views in turn."""
    for word in words:
        if part := _PART.fullmatch(word):
            which, of = map(int, part.groups())
            size = array.shape[-1] // of
            array = array[..., (which - 1) * size : which * size]
        else:
            array = _VIEWS[word](array)
    return array
