"""The sources that weft's forwards were written for: the sha256 of classes of diffusers, by name.

A class of another source is left alone. `python -m weft.diffusers._sources` prints the table for the diffusers that is
installed; before a row changes, somebody has to compare what the class computes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import nn

from weft import swap

SOURCES: dict[str, str] = {
    "GELU": "f38b42eb8f772f67140bea06374dfdc19441b30e605be1b141db3b523d70fba2",
    "GEGLU": "80a022b5ba40ed92afa0c31e8bb00030e93ea5f418d14a12500c55fefbe603f5",
    "SwiGLU": "ee0a4326e6545cb78f1b835e4ca116650e0d915188a416d110cf20d0f50dbd65",
    "AdaLayerNormZero": "d083146fe3f0e4cebd1784d6ed921af76fae5137a28f9abc93624e97f784ac2f",
    "AdaLayerNormZeroSingle": "b4f56a44d030d03baa2626467c3409168e715d4a0c34cb4b61e85c5e915e3aa1",
    "AdaLayerNormContinuous": "92c4a9462460e26ee68ad9e8f98be9b7e93d8d0b92c69866fd1e114b13623f1e",
    "FluxAttnProcessor": "c992dd19a71c9b8870e94dd668420d00103d8083dd3637b6eb20efcb66b2af0d",
    "FluxAttention": "f1f28b0612315bd79fea7e600fcb175a8e7591df7a1bdbba92ba14be2d58dbd0",
    "FluxTransformerBlock": "f7848c6b4d7cedfeb9f2d5dbbb5335d71b680c6a648dc85c60457d24ee32ba83",
    "FluxSingleTransformerBlock": "b6afdf4e62d33d53deac2ff61b7ed27002105562c76300e3b419361201bd9601",
    "Flux2AttnProcessor": "f6011e4be7456b0f4dc29d2231ed73c57bb622bcbddcf958c37aaa51556af54e",
    "Flux2Attention": "216cc4e56ebc2fc7adf3ec0b7061d2b52d432bd3bc425b9a05e89ac9761ee814",
    "Flux2ParallelSelfAttnProcessor": "5303426633cc11e33f26799262aa6d8ef6d68d00008da1448de779743b9749cf",
    "Flux2ParallelSelfAttention": "d5ece797ad05a059061b79f306153c76864166bc982f786812414bb8320b629e",
    "Flux2TransformerBlock": "7b59492010bb325e19af9916d2e3503c1b1aab87a1c40c407229fbce22072f15",
    "Flux2SingleTransformerBlock": "0c1b757ba2fd1b3a34e5ccdf0a2c91a6749269efe826e0d18a9a965acdf3a6f5",
    "Flux2SwiGLU": "65417ed0614ce1b380bfc738d87ef6576dd7db2bc5be9591d19a2c907b2d4f5a",
    "Flux2FeedForward": "946cd8e2f3b468bdcdd54b0d80ee9fd2ba6f8c9b9c801e7d6805139bcd66a4b4",
    "LTXVideoAttnProcessor": "4b16affa490ac845ad353b67b894968ef54854029b4b6acf68a4005ef2763916",
    "LTXAttention": "876ed535679e188244c64b388bed5c3c02181909193c1fcec294f3cfb9e84223",
    "LTXVideoTransformerBlock": "85106739b17c7ab087deb258d5bcef1e8b74df5049d92bc40af7fffd5c5787e2",
    "LTXVideoRotaryPosEmbed": "6006453d897f211f619a94c8551974b1aa9b89155c1ed3997f41480490a18309",
    "LTXVideoTransformer3DModel": "75b757dd9462278fdc3d64f77e780736521dfd00cf3869ba705d1bfed8d8cd21",
    "WanAttnProcessor": "86f9b66312ca9842a2ca6ed71741f14bdd0ba486b14cc573cd4556c36d773214",
    "WanAttention": "5b4f104ee648405d55a476d97a3eb83a918c75000505c986f3c24ffdd968e09b",
    "WanTransformerBlock": "74c452ce5fb4fa4b67ae16feb7d0c9e2e9ecf2891be51ce605c1c352599b3566",
    "QwenDoubleStreamAttnProcessor2_0": "3532892977f85cc5e88d7ca3a34aab6724cf034914ea8ec16b651153e8ab1b96",
    "QwenImageTransformerBlock": "f34021c0d605b707aa28adc667cf4cec3dcd259c72f8e7c1e020856b68dbb9f7",
}

_MODULES = {
    "activations": ("GELU", "GEGLU", "SwiGLU"),
    "normalization": ("AdaLayerNormZero", "AdaLayerNormZeroSingle", "AdaLayerNormContinuous"),
    "transformers.transformer_flux": (
        "FluxAttnProcessor",
        "FluxAttention",
        "FluxTransformerBlock",
        "FluxSingleTransformerBlock",
    ),
    "transformers.transformer_flux2": (
        "Flux2AttnProcessor",
        "Flux2Attention",
        "Flux2ParallelSelfAttnProcessor",
        "Flux2ParallelSelfAttention",
        "Flux2TransformerBlock",
        "Flux2SingleTransformerBlock",
        "Flux2SwiGLU",
        "Flux2FeedForward",
    ),
    "transformers.transformer_ltx": (
        "LTXVideoAttnProcessor",
        "LTXAttention",
        "LTXVideoTransformerBlock",
        "LTXVideoRotaryPosEmbed",
        "LTXVideoTransformer3DModel",
    ),
    "transformers.transformer_wan": ("WanAttnProcessor", "WanAttention", "WanTransformerBlock"),
    "transformers.transformer_qwenimage": ("QwenDoubleStreamAttnProcessor2_0", "QwenImageTransformerBlock"),
}


def recipe(op: str, target: str, prepare: Callable[[Any], swap.Swap | str]) -> swap.Recipe:
    """A recipe for a class of the table; for one that is not in it, `prepare` decides alone."""
    known = SOURCES.get(target.rpartition(".")[2])

    def checked(module: nn.Module) -> swap.Swap | str:
        return _why_not_dtype(module) or prepare(module)

    return swap.Recipe(op, target, checked, frozenset([known] if known else []))


def _why_not_dtype(module: nn.Module) -> str | None:
    double = any(parameter.dtype == torch.float64 for parameter in module.parameters())
    return "its parameters are float64, which weft's ops have not" if double else None


def why_unknown(cls: type) -> str | None:
    """Why a class that a forward of weft stands in for, such as a processor, is not one of the table."""
    if swap.source_hash(cls) == SOURCES.get(cls.__name__):
        return None
    return f"unknown source of {cls.__name__} (sha256 {swap.source_hash(cls)})"


def current() -> dict[str, str | None]:
    """The table for the diffusers that is installed."""
    return {
        name: swap.source_hash(getattr(import_module(f"diffusers.models.{module}"), name))
        for module, names in _MODULES.items()
        for name in names
    }


if __name__ == "__main__":
    for name, found in current().items():
        print(f'    "{name}": "{found}",')
