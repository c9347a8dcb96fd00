"""Transformers of diffusers: one step, which is one call of the transformer for one sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import diffusers
import torch

from weft.bench.models._sides import DIFFUSERS
from weft.bench.models._subject import Case, Subject, randomized

Inputs = dict[str, Any]
DTYPE = torch.bfloat16


@dataclass(frozen=True)
class Model:
    """A transformer by the arguments of its class, and what a step is given. Sizes of a latent, in its own cells."""

    cls: str
    real: dict[str, Any]
    tiny: dict[str, Any]
    layers: dict[str, tuple[int, int]]  # by argument: measured by default, of how many
    inputs: Callable[[Any, Size], Inputs]
    size: Size
    details: str


@dataclass(frozen=True)
class Size:
    """Cells of a latent: frames, height, width; and tokens of the text."""

    latent: tuple[int, int, int]
    text: int


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def _grid(size: Size) -> torch.Tensor:
    """The three coordinates of each token, one after the other."""
    return (
        torch.stack(torch.meshgrid(*map(torch.arange, size.latent), indexing="ij"), -1).flatten(0, 2).float()
    )


def _flux(config: Any, size: Size) -> Inputs:
    ids = _grid(size)
    return {
        "hidden_states": _random(1, len(ids), config.in_channels),
        "encoder_hidden_states": _random(1, size.text, config.joint_attention_dim),
        "pooled_projections": _random(1, config.pooled_projection_dim),
        "timestep": torch.tensor([0.7]),
        "guidance": torch.tensor([3.5]) if config.guidance_embeds else None,
        "img_ids": ids,
        "txt_ids": torch.zeros(size.text, 3),
    }


def _qwen(config: Any, size: Size) -> Inputs:
    return {
        "hidden_states": _random(1, len(_grid(size)), config.in_channels),
        "encoder_hidden_states": _random(1, size.text, config.joint_attention_dim),
        "timestep": torch.tensor([0.7]),
        "img_shapes": [[size.latent]],
    }


def _ltx(config: Any, size: Size) -> Inputs:
    frames, height, width = size.latent
    return {
        "hidden_states": _random(1, frames * height * width, config.in_channels),
        "encoder_hidden_states": _random(1, size.text, config.caption_channels),
        "timestep": torch.tensor([700.0]),
        "encoder_attention_mask": (torch.arange(size.text) < size.text * 3 // 4).long()[None],
        "num_frames": frames,
        "height": height,
        "width": width,
        "rope_interpolation_scale": (8 / 25, 32, 32),
    }


def _wan(config: Any, size: Size) -> Inputs:
    return {
        "hidden_states": _random(1, config.in_channels, *size.latent),
        "encoder_hidden_states": _random(1, size.text, config.text_dim),
        "timestep": torch.tensor([700]),
    }


MODELS = {
    "flux.1": Model(
        "FluxTransformer2DModel",
        {"guidance_embeds": True},
        {
            "patch_size": 1, "in_channels": 4, "attention_head_dim": 64, "num_attention_heads": 2,
            "joint_attention_dim": 32, "pooled_projection_dim": 32, "axes_dims_rope": [16, 24, 24],
        },
        {"num_layers": (3, 19), "num_single_layers": (6, 38)},
        _flux, Size((1, 64, 64), 512), "1024x1024",
    ),
    "wan-2.1-14b": Model(
        "WanTransformer3DModel",
        {"cross_attn_norm": True, "ffn_dim": 13824},
        {
            "patch_size": (1, 2, 2), "num_attention_heads": 2, "attention_head_dim": 64, "in_channels": 4,
            "out_channels": 4, "text_dim": 16, "freq_dim": 64, "ffn_dim": 64, "cross_attn_norm": True,
            "rope_max_seq_len": 32,
        },
        {"num_layers": (3, 40)},
        _wan, Size((21, 60, 104), 512), "832x480, 81 frames",
    ),
    "qwen-image": Model(
        "QwenImageTransformer2DModel",
        {},
        {
            "patch_size": 2, "in_channels": 16, "out_channels": 4, "num_attention_heads": 2,
            "attention_head_dim": 16, "joint_attention_dim": 16, "axes_dims_rope": (8, 4, 4),
        },
        {"num_layers": (6, 60)},
        _qwen, Size((1, 64, 64), 256), "1024x1024",
    ),
    "ltx-video": Model(
        "LTXVideoTransformer3DModel",
        {},
        {
            "in_channels": 4, "out_channels": 4, "num_attention_heads": 2, "attention_head_dim": 16,
            "cross_attention_dim": 32, "caption_channels": 16,
        },
        {"num_layers": (7, 28)},
        _ltx, Size((21, 15, 22), 128), "704x480, 161 frames",
    ),
}  # fmt: skip
TINY = Size((1, 4, 4), 6)


def _as_loaded(model: Any) -> Any:
    """Weights in bf16, but for those that the library keeps in fp32 when it loads a checkpoint."""
    kept = model._keep_in_fp32_modules or []
    for name, parameter in model.named_parameters():
        if not any(part in kept for part in name.split(".")):
            parameter.data = parameter.data.to(DTYPE)
    return model


def _placed(inputs: Inputs, device: str, dtype: torch.dtype) -> Inputs:
    def place(name: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        # Positions stay what they are.
        return value.to(device, dtype if value.is_floating_point() and not name.endswith("_ids") else None)

    return {name: place(name, value) for name, value in inputs.items()}


def _open(name: str, tiny: bool, layers: int, device: str) -> Subject:
    described = MODELS[name]
    first = next(iter(described.layers.values()))[0]
    # A model with several kinds of blocks keeps their proportion.
    counts = {key: max(1, default * layers // first) for key, (default, _) in described.layers.items()}
    torch.manual_seed(0)
    with torch.device(device):
        model = getattr(diffusers, described.cls)(**(described.tiny if tiny else described.real), **counts)
    model = randomized(_as_loaded(model))
    given = described.inputs(model.config, TINY if tiny else described.size)

    def step(dtype: torch.dtype) -> Callable[[Any], torch.Tensor]:
        inputs = _placed(given, device, dtype)
        return lambda model: model(**inputs, return_dict=False)[0]

    return Subject(model, step(DTYPE), step(torch.float32))


def cases(tiny: bool) -> list[Case]:
    """All of this file; the tiny ones have the same names."""
    found = []
    for name, described in MODELS.items():
        default, of = next(iter(described.layers.values()))
        layers = 1 if tiny else default
        details = "tiny" if tiny else described.details.replace(", ", " ").replace(" frames", "-frames")
        open_ = partial(_open, name, tiny)
        found.append(Case(f"{name} step", layers, of, "diffusers", open_, True, details, DIFFUSERS))
    return found
