"""LTX-Video with random weights, at its real size or a tiny one, or a checkpoint from a folder."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import torch
from diffusers import (
    AutoencoderKLLTXVideo,
    FlowMatchEulerDiscreteScheduler,
    LTXPipeline,
    LTXVideoTransformer3DModel,
)


@dataclass(frozen=True)
class Size:
    """What a model is made of, and the video that it is asked for."""

    transformer: dict[str, Any]
    vae: dict[str, Any]
    video: dict[str, int]
    text_tokens: int
    text_dim: int


SIZES = {
    "real": Size({}, {}, {"width": 704, "height": 480, "num_frames": 161}, 128, 4096),
    "tiny": Size(
        {
            "in_channels": 8,
            "out_channels": 8,
            "num_attention_heads": 2,
            "attention_head_dim": 32,
            "cross_attention_dim": 64,
            "num_layers": 2,
            "caption_channels": 32,
        },
        {
            "latent_channels": 8,
            "block_out_channels": (8, 8, 8, 8),
            "decoder_block_out_channels": (8, 8, 8, 8),
            "layers_per_block": (1, 1, 1, 1, 1),
            "decoder_layers_per_block": (1, 1, 1, 1, 1),
            "patch_size": 1,
            "encoder_causal": True,
            "decoder_causal": False,
            "spatio_temporal_scaling": (True, True, False, False),
            "decoder_spatio_temporal_scaling": (True, True, False, False),
        },
        {"width": 32, "height": 32, "num_frames": 9},
        16,
        32,
    ),
}


def pipeline(size: Size, device: str, dtype: torch.dtype, checkpoint: str | None = None) -> Any:
    """The pipeline; without a checkpoint its weights are random, and the same in each process."""
    if checkpoint:
        return LTXPipeline.from_pretrained(checkpoint, torch_dtype=dtype).to(device)
    torch.manual_seed(0)
    parts = LTXVideoTransformer3DModel(**size.transformer), AutoencoderKLLTXVideo(**size.vae)
    transformer, vae = (part.to(device, dtype).eval() for part in parts)
    return LTXPipeline(FlowMatchEulerDiscreteScheduler(), vae, None, None, transformer)


def prompt(size: Size, device: str, dtype: torch.dtype, text: str | None = None) -> dict[str, Any]:
    """The text for a checkpoint; else random embeddings, half of whose tokens are there."""
    if text:
        return {"prompt": text}
    generator = torch.Generator().manual_seed(1)
    mask = (torch.arange(size.text_tokens) < size.text_tokens // 2).long()[None].to(device)
    shape = 1, size.text_tokens, size.text_dim
    names = ("prompt", "negative_prompt")
    embeddings = {
        f"{name}_embeds": torch.randn(shape, generator=generator).to(device, dtype) for name in names
    }
    return embeddings | {f"{name}_attention_mask": mask for name in names}


def render(pipe: Any, size: Size, text: dict[str, Any], steps: int, **options: Any) -> Any:
    """Frames of a video, [frames, height, width, 3] between 0 and 1."""
    generator = torch.Generator().manual_seed(2)
    asked = size.video | {"num_inference_steps": steps, "generator": generator, "output_type": "np"}
    return pipe(**asked, **text, **options).frames[0]


def arguments(description: str) -> argparse.ArgumentParser:
    """What both scripts ask for."""
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--size", choices=SIZES, default="real" if on_gpu else "tiny")
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    parser.add_argument(
        "--dtype", choices=["bfloat16", "float32"], default="bfloat16" if on_gpu else "float32"
    )
    parser.add_argument("--steps", type=int, default=30 if on_gpu else 3)
    parser.add_argument("--checkpoint", help="a folder or name of LTX-Video; else random weights")
    parser.add_argument(
        "--prompt", default="Waves roll over a pebble beach at dusk.", help="for a checkpoint"
    )
    return parser


def prepared(chosen: argparse.Namespace) -> tuple[Any, Size, dict[str, Any]]:
    """The pipeline, its size and its prompt, as the arguments ask for them."""
    size, dtype = SIZES[chosen.size], getattr(torch, chosen.dtype)
    pipe = pipeline(size, chosen.device, dtype, chosen.checkpoint)
    pipe.set_progress_bar_config(disable=True)
    return pipe, size, prompt(size, chosen.device, dtype, chosen.prompt if chosen.checkpoint else None)
