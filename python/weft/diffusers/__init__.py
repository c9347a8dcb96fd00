"""Weft in diffusers: `set_attention_backend("weft")`, and `accelerate(pipe_or_model)` for diffusion transformers.

    import weft.diffusers

    pipe.transformer.set_attention_backend("weft")   # attention alone
    print(weft.diffusers.accelerate(pipe))           # attention and the blocks
    weft.diffusers.undo(pipe)

`accelerate` serves the transformers of LTX-Video, FLUX.1, FLUX.2, Wan and Qwen-Image: the norm of queries and keys with
their rotation is one call (FLUX and Qwen-Image: it also writes where text and image attend together), so are the gated
residual, the norm after it and its modulation, and a feed-forward's product with its activation. The feed-forwards and
adaptive norms that other models share with these (GEGLU of Stable Diffusion 1, 2 and XL) are served too.

It works before and after LoRA, accelerate's and diffusers' offloading, and `compile_repeated_blocks(fullgraph=True)`.
What it left alone is in the report, with the reason, and so is how often each module was called. Weft has no
gradients: a call that wants some is diffusers' own, and is counted as passed on.
"""

from __future__ import annotations

import warnings
from collections import Counter
from functools import partial
from typing import Any

from diffusers import ModelMixin
from torch import nn

from weft import swap
from weft.diffusers import _backend, _flux, _leaves, _qwen, _video

__all__ = ["RECIPES", "accelerate", "attention_calls", "plan", "undo"]

RECIPES = (*_flux.RECIPES, *_video.RECIPES, *_qwen.RECIPES, *_leaves.RECIPES)

WEFT = _backend.register()


def _whole(pipe_or_model: Any) -> nn.Module:
    """A model, or the models of a pipeline under their names."""
    if isinstance(pipe_or_model, nn.Module):
        return pipe_or_model
    parts = {name: part for name, part in pipe_or_model.components.items() if isinstance(part, nn.Module)}
    return nn.ModuleDict(parts)


def attention_calls() -> Counter[str]:
    """Calls of the attention backend "weft" in this process: "weft", or why PyTorch's attention took them.

    A call in a compiled graph counts once, when it is traced.
    """
    return Counter(_backend.CALLS)


def plan(pipe_or_model: Any) -> swap.Plan:
    """What accelerate would do to the modules, and why not."""
    return swap.plan(_whole(pipe_or_model), RECIPES)


def accelerate(pipe_or_model: Any, *, attention: bool = True) -> swap.Report:
    """Replaces what weft has of a pipeline's models or of one model, in place; `undo` gives it back.

    Attention goes to weft where no other backend was set; `attention=False` leaves it as it is.
    """
    whole = _whole(pipe_or_model)
    report = swap.apply(whole, RECIPES)
    if not report.replaced:
        warnings.warn("weft.diffusers replaced nothing: no module is of a class that it knows", stacklevel=2)
    elif attention:
        for row in report.replaced:
            module = whole.get_submodule(row.path)
            if not isinstance(module, ModelMixin):  # its attentions are replaced one by one, or not at all
                _attend(module)
    return report


def _attend(module: nn.Module) -> None:
    """Has the processors of a module that was replaced attend by weft, unless somebody chose a backend."""
    for part in module.modules():
        processor: Any = getattr(part, "processor", None)
        if processor is not None and getattr(processor, "_attention_backend", WEFT) is None:
            processor._attention_backend = WEFT
            swap.on_undo(part, partial(_leave, processor))


def _leave(processor: Any) -> None:
    """Undoes `_attend`, unless somebody chose another backend since."""
    if processor._attention_backend is WEFT:
        processor._attention_backend = None


def undo(pipe_or_model: Any) -> int:
    """Gives the modules their classes and attention back; returns how many were replaced."""
    return swap.undo(_whole(pipe_or_model))
