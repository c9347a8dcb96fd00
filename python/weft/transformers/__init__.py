"""Weft in transformers: `attn_implementation="weft"`, and `accelerate(model)` for decoder models.

    import weft.transformers

    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="weft")  # attention alone
    print(weft.transformers.accelerate(model))                                     # attention and the blocks
    weft.swap.undo(model)

`accelerate` serves Llama, Mistral, Qwen2, Qwen3 and Gemma 1 to 3: the residual's sum and the norm after it are one
call, so are the norm of queries and keys with their rotation and their way into a static cache, and gate, up and
activation; of few tokens queries, keys and values are one product. It works before and after accelerate's hooks and
PEFT's adapters, in eager mode, `generate`, static caches, `torch.compile(fullgraph=True)` and with `tp_plan="auto"`.
What it leaves alone is in the report, with the reason, and how often each module was called.

`rounding="fused"` rounds once where the library rounds at each step. `rounding="eager"` rounds as the library does,
where weft promises the bits of PyTorch's operators (on a GPU; each op's page says for what): norms, rotation and
gated activation are calls of their own then, beside the library's products.

Weft has no gradients: a call that wants some is the library's, and is counted as passed on.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from weft import swap
from weft.transformers import _attention, _blocks, _families, _joined

__all__ = ["accelerate", "attention_calls", "recipes"]

recipes = _families.recipes

AttentionInterface.register("weft", _attention.attention)
AttentionMaskInterface.register("weft", _attention.mask)


def attention_calls() -> Counter[str]:
    """Calls of `attn_implementation="weft"` in this process: "weft", or why PyTorch's attention took them.

    A call in a compiled graph counts once, when it is traced.
    """
    return Counter(_attention.CALLS)


def accelerate(
    model: nn.Module, *, rounding: _families.Rounding = "fused", attention: bool = True
) -> swap.Report:
    """Replaces what weft has of a model, in place; `weft.swap.undo(model)` gives it back.

    `attention=False` leaves the model's attention implementation as it is.
    """
    if rounding not in ("fused", "eager"):
        raise ValueError(f"rounding is 'fused' or 'eager', got {rounding!r}")
    report = swap.apply(model, recipes(rounding))
    if rounding == "fused":
        _join_projections(report)
    if attention and report.replaced:
        for part in model.modules():
            if isinstance(part, PreTrainedModel):  # the outermost: it answers for all inside
                _switch(part)
                break
    return report


def _join_projections(report: swap.Report) -> None:
    """Moves each attention's weights of queries, keys and values together, until undo."""
    for row in report.replaced:
        module: Any = report.model.get_submodule(row.path)
        if hasattr(module, "_weft_joined") and _joined.join(linears := _blocks.projections(module)):
            module._weft_joined = True
            swap.on_undo(report.model, functools.partial(_joined.part, linears))


def _switch(model: PreTrainedModel) -> None:
    """Gives a model weft's attention function."""
    before = _implementations(model)
    if any(implementation != "weft" for _, implementation in before):
        model.set_attn_implementation("weft")
        swap.on_undo(model, functools.partial(_restore, before))


def _implementations(model: PreTrainedModel) -> list[tuple[Any, Any]]:
    """Each config of a model, and the implementation that it names."""
    configs = {id(part.config): part.config for part in model.modules() if isinstance(part, PreTrainedModel)}
    return [(config, config._attn_implementation_internal) for config in configs.values()]


def _restore(before: list[tuple[Any, Any]]) -> None:
    for config, implementation in before:
        config._attn_implementation_internal = implementation
