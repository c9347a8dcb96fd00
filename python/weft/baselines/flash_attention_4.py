"""FlashAttention 4: the CuTe kernels of flash-attn-4, a pre-release."""

from __future__ import annotations

import torch

from weft.baselines import Baseline, Case, Compute, Tensors, imported, installed
from weft.baselines._formulas import without_windows


class FlashAttention4(Baseline):
    name = "flash-attn-4"
    about = "FlashAttention 4 (CuTe)"
    needs_gpu = True

    def version(self) -> str:
        found = installed("flash-attn-4")
        imported("flash_attn.cute")
        return found

    def prepare(self, case: Case) -> Compute | None:
        if (
            case.op != "attention"
            or not case.only("q", "k", "v", "out")
            or case.dtype("k") not in ("bf16", "fp16")
        ):
            return None
        if not without_windows(case):
            return None  # it has its own, which nobody has compared yet
        if not all(case.tensors[field].rows_at(8) for field in ("q", "k", "v")):
            return None  # reads 16 bytes wherever a row begins, and faults
        attend = imported("flash_attn.cute").flash_attn_func
        scale, causal = case.options["scale"] or None, bool(case.options["causal"])

        def call(t: Tensors) -> dict[str, torch.Tensor]:
            result = attend(t["q"], t["k"], t["v"], softmax_scale=scale, causal=causal)
            return {"out": result[0] if isinstance(result, tuple) else result}

        return call


BASELINES = [FlashAttention4()]
