"""Decoder models of transformers: a prefill, and steps of decoding with a static cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers as hf

from weft.bench.models._sides import TRANSFORMERS
from weft.bench.models._subject import Case, Subject, randomized

PREFILL, CONTEXT, ROOM = (
    2048,
    1024,
    64,
)  # tokens: of a prefill, before a step of decoding, and left in its cache
BATCHES = (1, 16, 64)
LAYERS = 8

CONFIGS: dict[str, Callable[..., Any]] = {
    "qwen3-8b": partial(
        hf.Qwen3Config, hidden_size=4096, intermediate_size=12288, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, vocab_size=151936,
        rope_parameters=dict(rope_theta=1e6, rope_type="default"),
    ),
    "llama-3.1-8b": partial(
        hf.LlamaConfig, hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=128256,
        rope_parameters=dict(rope_theta=5e5, rope_type="default"),
    ),
}  # fmt: skip
OF = {"qwen3-8b": 36, "llama-3.1-8b": 32}
TINY = dict(
    hidden_size=64,
    intermediate_size=96,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    vocab_size=96,
)


def _model(name: str, tiny: bool, layers: int, device: str) -> Any:
    """The blocks and the last norm, without the product with the vocabulary."""
    config = CONFIGS[name](**(TINY if tiny else {}), num_hidden_layers=layers, max_position_embeddings=8192)
    torch.manual_seed(0)
    with torch.device(device):
        return randomized(hf.AutoModel.from_config(config, dtype=torch.bfloat16))


def _ids(model: Any, batch: int, tokens: int, device: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randint(model.config.vocab_size, (batch, tokens), generator=generator).to(device)


def _prefill(name: str, tiny: bool, tokens: int, layers: int, device: str) -> Subject:
    model = _model(name, tiny, layers, device)
    ids = _ids(model, 1, tokens, device)

    def step(model: Any) -> torch.Tensor:
        out: torch.Tensor = model(input_ids=ids, use_cache=False).last_hidden_state
        return out

    return Subject(model, step, step, lookup=("embed_tokens",))


def _cache(model: Any, ids: torch.Tensor, room: int) -> Any:
    """A static cache as a first step makes it: of the model's shapes, on its device."""
    cache = hf.StaticCache(config=model.config, max_cache_len=room)
    with torch.no_grad():
        model(input_ids=ids, past_key_values=cache, use_cache=True)
    return cache


def _rewound(cache: Any, context: int) -> None:
    for layer in cache.layers:
        layer.cumulative_length.fill_(context)


def _decode(name: str, tiny: bool, size: tuple[int, int], layers: int, device: str) -> Subject:
    batch, context = size
    model = _model(name, tiny, layers, device)
    ids = _ids(model, batch, 1, device)
    cache = _cache(model, ids, context + ROOM)
    generator = torch.Generator(device).manual_seed(3)
    for layer in cache.layers:
        layer.keys.normal_(generator=generator)
        layer.values.normal_(generator=generator)

    def step(model: Any, cache: Any = cache) -> torch.Tensor:
        out: torch.Tensor = model(input_ids=ids, past_key_values=cache, use_cache=True).last_hidden_state
        return out

    def exact(model: Any) -> torch.Tensor:
        own = _cache(model, ids, context + ROOM)
        for layer, given in zip(own.layers, cache.layers, strict=True):
            layer.keys.copy_(given.keys)
            layer.values.copy_(given.values)
        _rewound(own, context)
        return step(model, own)

    state = sum(2 * layer.keys[:, :, :context].numel() * layer.keys.element_size() for layer in cache.layers)
    return Subject(model, step, exact, partial(_rewound, cache, context), state, ("embed_tokens",))


def cases(tiny: bool) -> list[Case]:
    """All of this file; the tiny ones have the same names."""
    found = []
    prefill, context = (12, 10) if tiny else (PREFILL, CONTEXT)
    for name in CONFIGS:
        shared: Any = dict(layers=2 if tiny else LAYERS, of=OF[name], library="transformers")
        open_: Any = partial(_prefill, name, tiny, prefill)
        sides = TRANSFORMERS["prefill"]
        found.append(
            Case(f"{name} prefill={prefill}", **shared, open=open_, captured=False, details="", sides=sides)
        )
        shared |= dict(captured=True, details=f"context={context}", sides=TRANSFORMERS["decode"])
        for batch in BATCHES:
            open_ = partial(_decode, name, tiny, (batch, context))
            found.append(Case(f"{name} decode batch={batch}", **shared, open=open_))
    return found
