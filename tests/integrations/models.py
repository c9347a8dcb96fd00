"""Tiny models of the families that weft.transformers serves, with random weights, on a GPU where there is one."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf
from transformers import PreTrainedModel

from tests.integrations.device import DEVICE

SIZES: dict[str, Any] = dict(
    vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=None,
)  # fmt: skip
WINDOWED = dict(head_dim=16, sliding_window=8, query_pre_attn_scalar=16)
FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "llama": (hf.LlamaConfig, hf.LlamaForCausalLM, {}),
    "mistral": (hf.MistralConfig, hf.MistralForCausalLM, dict(sliding_window=8)),
    "qwen2": (hf.Qwen2Config, hf.Qwen2ForCausalLM, {}),
    "qwen3": (hf.Qwen3Config, hf.Qwen3ForCausalLM, dict(head_dim=16)),
    "gemma": (hf.GemmaConfig, hf.GemmaForCausalLM, dict(head_dim=16)),
    "gemma2": (hf.Gemma2Config, hf.Gemma2ForCausalLM, WINDOWED),
    "gemma3": (hf.Gemma3TextConfig, hf.Gemma3ForCausalLM, WINDOWED),
}
NORMS = {"qwen3": 4, "gemma2": 4, "gemma3": 6}  # of a layer; 2 elsewhere


def build(name: str, dtype: torch.dtype = torch.float32, **sizes: Any) -> PreTrainedModel:
    """A model whose norms and biases are random too, so that a weight that is left out shows."""
    config, cls, own = FAMILIES[name]
    torch.manual_seed(0)
    model: PreTrainedModel = cls(config(**{**SIZES, **own, **sizes})).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.normal_(0.4, 0.3)
    return model.to(DEVICE, dtype)


def tokens(batch: int = 2, length: int = 12) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randint(2, SIZES["vocab_size"], (batch, length), generator=generator).to(DEVICE)


@torch.no_grad()
def logits(model: Any, ids: torch.Tensor, mask: torch.Tensor | None = None, **options: Any) -> torch.Tensor:
    found: torch.Tensor = model(ids, attention_mask=mask, **options).logits
    return found


def replaced(name: str, layers: int = 2) -> int:
    """Modules that accelerate replaces: block, attention, feed-forward and norms of each layer, and the last norm."""
    return layers * (3 + NORMS.get(name, 2)) + 1


def changed(got: torch.Tensor, expected: torch.Tensor) -> float:
    """How far logits are from others."""
    return (got.float() - expected.float()).abs().max().item()


def rms(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The same in the mean: what rounds in another order is off by as much, but not in the same places."""
    return (got.float() - expected.float()).square().mean().sqrt().item()


IDS = tokens()
PADDED = torch.ones_like(IDS)
PADDED[0, :4] = 0
FP32 = 5e-6 if DEVICE.type == "cpu" else 5e-5  # of logits near 1: rounding in another order
