"""torch._scaled_mm: fp8 products with one scale a tensor (cuBLASLt's), or one a row and a column."""

from __future__ import annotations

import torch

from weft.baselines import Baseline, Case, Compute, Tensors
from weft.torch import DTYPES


class TorchScaledMm(Baseline):
    name = "torch._scaled_mm"
    about = "PyTorch's fp8 product, with one scale a tensor (cuBLASLt) or one a row and a column"
    needs_gpu = True

    def version(self) -> str:
        return str(torch.__version__)

    def prepare(self, case: Case) -> Compute | None:
        if case.op != "gemm" or case.options["activation"] != "none":
            return None
        of_tensors = case.has("a_scale", "b_scale") and case.only(
            "a", "b", "a_scale", "b_scale", "bias", "out"
        )
        rows = ("a_token_scale", "b_channel_scale")
        of_rows = (
            all(map(case.has, rows))
            and case.only("a", "b", *rows, "bias", "out")
            and case.dtype("out") == "bf16"
        )
        if not (of_tensors or of_rows):
            return None
        if not case.dtype("a").startswith("fp8") or case.dtype("out").startswith("fp8"):
            return None
        dtype, fast = DTYPES[case.dtype("out")], bool(case.options["fast_accumulation"])

        def call(t: Tensors) -> dict[str, torch.Tensor]:
            a = t["a"].reshape(-1, t["a"].shape[-1])
            one = torch.ones(1, device=a.device)
            y = torch._scaled_mm(
                a,
                t["b"].t(),
                t["a_token_scale"].reshape(-1, 1) if of_rows else t.get("a_scale", one),
                t["b_channel_scale"].reshape(1, -1) if of_rows else t.get("b_scale", one),
                bias=t.get("bias"),
                out_dtype=dtype,
                use_fast_accum=fast,
            )
            return {"out": y.reshape(t["out"].shape)}

        return call


BASELINES = [TorchScaledMm()]
