"""Picks the entry of rms_scale_shift by its bucket. Rendered by `weft task dispatch`, with docs/dispatch.md."""

from pathlib import Path

from weft.task.entries import load_entry
from weft.task.spec import load
from weft.torch import NAMES as _NAMES  # noqa: F401 - for conditions on dtypes

_TASK = load(Path(__file__).resolve().parents[1])
_BASELINE = load_entry(_TASK, _TASK.baseline)
_WEFT = load_entry(_TASK, _TASK.candidate('weft'))


def entry_of(x, weight, scale, shift):
    S = x.shape[0]
    if 1000 < S < 3000:  # some thousand tokens
        return _BASELINE
    return _WEFT  # all others


def run(x, weight, scale, shift, eps, out):
    entry_of(x, weight, scale, shift)(x, weight, scale, shift, eps, out)
