"""Picks the entry of channel_norm_silu by its bucket. Rendered by `weft task dispatch`, with docs/dispatch.md."""

from pathlib import Path

from weft.task.entries import load_entry
from weft.task.spec import load
from weft.torch import NAMES as _NAMES  # noqa: F401 - for conditions on dtypes

_TASK = load(Path(__file__).resolve().parents[1])
_TRITON = load_entry(_TASK, _TASK.candidate('triton'))
_BASELINE = load_entry(_TASK, _TASK.baseline)


def entry_of(x, gain):
    C = x.shape[1]
    P = x.shape[2]
    if P < 40000:  # few
        return _TRITON
    if C == 192:  # 192 channels
        return _BASELINE
    return _TRITON  # many


def run(x, gain, eps, out):
    entry_of(x, gain)(x, gain, eps, out)
