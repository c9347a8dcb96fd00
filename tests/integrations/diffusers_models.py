"""Tiny models of diffusers with random weights, and a call of each, on a GPU where there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from diffusers import (
    Flux2Transformer2DModel,
    FluxTransformer2DModel,
    LTXVideoTransformer3DModel,
    QwenImageTransformer2DModel,
    WanTransformer3DModel,
)

from tests.integrations.device import DEVICE


def _flux() -> Any:
    return FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=2,
        num_single_layers=2,
        attention_head_dim=64,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=[16, 24, 24],
    )


def _flux_inputs(dtype: torch.dtype) -> dict[str, Any]:
    return {
        "hidden_states": torch.randn(2, 12, 4, dtype=dtype),
        "encoder_hidden_states": torch.randn(2, 6, 32, dtype=dtype),
        "pooled_projections": torch.randn(2, 32, dtype=dtype),
        "timestep": torch.tensor([0.7, 0.3], dtype=dtype),
        "img_ids": torch.randint(0, 9, (12, 3)).float(),
        "txt_ids": torch.zeros(6, 3),
    }


def _flux2() -> Any:
    return Flux2Transformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=2,
        num_single_layers=2,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        timestep_guidance_channels=256,
        axes_dims_rope=[4, 4, 4, 4],
    )


def _flux2_inputs(dtype: torch.dtype) -> dict[str, Any]:
    return {
        "hidden_states": torch.randn(2, 12, 4, dtype=dtype),
        "encoder_hidden_states": torch.randn(2, 6, 32, dtype=dtype),
        "timestep": torch.tensor([0.7, 0.3], dtype=dtype),
        "guidance": torch.tensor([1.0, 1.0], dtype=dtype),
        "img_ids": torch.randint(0, 9, (12, 4)).float(),
        "txt_ids": torch.zeros(6, 4),
    }


def _ltx() -> Any:
    # Rotations of 32 numbers in groups of 6 leave a rest of 2, as the real model's do.
    return LTXVideoTransformer3DModel(
        in_channels=4,
        out_channels=4,
        num_attention_heads=2,
        attention_head_dim=16,
        cross_attention_dim=32,
        num_layers=2,
        caption_channels=16,
    )


def _ltx_inputs(dtype: torch.dtype) -> dict[str, Any]:
    mask = torch.ones(2, 6, dtype=torch.int64)
    mask[1, 4:] = 0
    return {
        "hidden_states": torch.randn(2, 12, 4, dtype=dtype),
        "encoder_hidden_states": torch.randn(2, 6, 16, dtype=dtype),
        "timestep": torch.tensor([700, 300]),
        "encoder_attention_mask": mask,
        "num_frames": 3,
        "height": 2,
        "width": 2,
        "rope_interpolation_scale": (1 / 20, 32, 32),
    }


def _wan(**changes: Any) -> Any:
    options = {
        "patch_size": (1, 2, 2),
        "num_attention_heads": 2,
        "attention_head_dim": 64,
        "in_channels": 4,
        "out_channels": 4,
        "text_dim": 16,
        "freq_dim": 64,
        "ffn_dim": 64,
        "num_layers": 2,
        "cross_attn_norm": True,
        "rope_max_seq_len": 32,
    }
    return WanTransformer3DModel(**(options | changes))


def _wan_inputs(dtype: torch.dtype) -> dict[str, Any]:
    return {
        "hidden_states": torch.randn(2, 4, 3, 4, 4, dtype=dtype),
        "encoder_hidden_states": torch.randn(2, 6, 16, dtype=dtype),
        "timestep": torch.tensor([700, 300]),
    }


def _wan_ti2v_inputs(dtype: torch.dtype) -> dict[str, Any]:
    return _wan_inputs(dtype) | {"timestep": torch.randint(0, 900, (2, 12))}


def _qwen(**changes: Any) -> Any:
    options = {
        "patch_size": 2,
        "in_channels": 16,
        "out_channels": 4,
        "num_layers": 2,
        "num_attention_heads": 2,
        "attention_head_dim": 16,
        "joint_attention_dim": 16,
        "axes_dims_rope": (8, 4, 4),
    }
    return QwenImageTransformer2DModel(**(options | changes))


def _qwen_inputs(dtype: torch.dtype) -> dict[str, Any]:
    mask = torch.ones(2, 6, dtype=torch.int64)
    mask[1, 3:] = 0
    return {
        "hidden_states": torch.randn(2, 12, 16, dtype=dtype),
        "encoder_hidden_states": torch.randn(2, 6, 16, dtype=dtype),
        "encoder_hidden_states_mask": mask,
        "timestep": torch.tensor([0.7, 0.3], dtype=dtype),
        "img_shapes": [[(1, 3, 4)], [(1, 3, 4)]],
    }


def _qwen_edit_inputs(dtype: torch.dtype) -> dict[str, Any]:
    return _qwen_inputs(dtype) | {"img_shapes": [[(1, 2, 4), (1, 2, 2)], [(1, 2, 4), (1, 2, 2)]]}


@dataclass(frozen=True)
class Model:
    """A model, its inputs, and how often weft takes calls of its modules in one forward, by op."""

    make: Callable[[], Any]
    inputs: Callable[[torch.dtype], dict[str, Any]]
    calls: dict[str, int]
    lora: tuple[str, ...] = ("to_q", "to_out.0", "net.0.proj")


BLOCKS = "norm + modulation + gated residual"
HEADS = "Q/K norm + rotary"
MASK = "mask of keys"

MODELS = {
    "flux": Model(
        _flux,
        _flux_inputs,
        {BLOCKS: 2, HEADS: 4, "gated residual + activation": 2, "norm + modulation": 7, "gemm + gelu": 4},
    ),
    "flux2": Model(
        _flux2,
        _flux2_inputs,
        {BLOCKS: 4, HEADS: 4, "norm + modulation": 1, "gemm + swiglu": 4},
        ("to_q", "to_out.0", "linear_in"),
    ),
    "ltx": Model(
        _ltx,
        _ltx_inputs,
        {MASK: 1, "rotary tables": 1, BLOCKS: 2, f"{HEADS}, {MASK}": 4, "gemm + gelu": 2},
    ),
    "wan": Model(_wan, _wan_inputs, {BLOCKS: 2, HEADS: 2, "gemm + gelu": 2}),
    "wan_ti2v": Model(
        lambda: _wan(cross_attn_norm=False), _wan_ti2v_inputs, {BLOCKS: 2, HEADS: 2, "gemm + gelu": 2}
    ),
    "qwen": Model(_qwen, _qwen_inputs, {BLOCKS: 2, HEADS: 2, "norm + modulation": 1, "gemm + gelu": 4}),
    "qwen_edit": Model(
        lambda: _qwen(zero_cond_t=True),
        _qwen_edit_inputs,
        {BLOCKS: 2, HEADS: 2, "norm + modulation": 1, "gemm + gelu": 4},
    ),
}


def made(name: str, dtype: torch.dtype = torch.float32) -> tuple[Any, dict[str, Any]]:
    """A model with numbers in its norms and biases that are not what they begin with, and its inputs."""
    torch.manual_seed(0)
    model = MODELS[name].make().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    torch.manual_seed(1)
    inputs = MODELS[name].inputs(dtype)
    placed = {
        key: value.to(DEVICE) if isinstance(value, torch.Tensor) else value for key, value in inputs.items()
    }
    return model.to(DEVICE, dtype), placed


@torch.no_grad()
def run(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
    """The model's output."""
    out: torch.Tensor = model(**inputs, return_dict=False)[0]
    return out


def differ(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, beside the largest number."""
    return float((got.double() - expected.double()).abs().max() / expected.double().abs().max())
