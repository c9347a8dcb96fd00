"""PyTorch's attention with one backend selected: cuDNN's, or FlashAttention 2 as PyTorch builds it."""

from __future__ import annotations

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from weft.baselines import Absent, Baseline, Case, Compute, Tensors
from weft.baselines._formulas import attend, without_windows


class TorchAttention(Baseline):
    needs_gpu = True

    def __init__(self, word: str, backend: SDPBackend, about: str) -> None:
        self.name = f"torch.sdpa {word}"
        self.backend = backend
        self.about = about

    def version(self) -> str:
        if self.backend == SDPBackend.CUDNN_ATTENTION:
            if not torch.backends.cudnn.is_available():
                raise Absent("this PyTorch has no cuDNN")
            return f"{torch.__version__} cuDNN {torch.backends.cudnn.version()}"
        return str(torch.__version__)

    def prepare(self, case: Case) -> Compute | None:
        if (
            case.op != "attention"
            or not case.only("q", "k", "v", "out")
            or case.dtype("k") not in ("bf16", "fp16")
        ):
            return None
        uneven = case.tensors["q"].shape[1] != case.tensors["k"].shape[1]
        if (uneven and case.options["causal"]) or not without_windows(case):
            return None  # aligned top-left there

        def call(t: Tensors) -> dict[str, torch.Tensor]:
            with sdpa_kernel(self.backend):
                return {"out": attend(case, t)}

        return call


BASELINES = [
    TorchAttention("cudnn", SDPBackend.CUDNN_ATTENTION, "cuDNN's attention through PyTorch"),
    TorchAttention("flash", SDPBackend.FLASH_ATTENTION, "FlashAttention 2 as PyTorch builds it"),
]
