"""torch._scaled_mm: fp8 products with scales of tensors (cuBLASLt's), of rows and columns, or of groups and blocks."""

from __future__ import annotations

import torch

from weft.baselines import Baseline, Case, Compute, Tensors
from weft.torch import DTYPES


def _blocks_fit(case: Case) -> bool:
    """PyTorch takes a's groups column by column, and b's blocks in rows of a multiple of four."""
    groups, blocks = case.tensors["a_group_scale"], case.tensors["b_block_scale"]
    by_columns = len(groups.shape) == 2 and groups.stride == (1, groups.shape[0])
    return by_columns and not blocks.stride and blocks.shape[1] % 4 == 0 and case.dtype("out") == "bf16"


class TorchScaledMm(Baseline):
    name = "torch._scaled_mm"
    about = "PyTorch's fp8 product, with scales of tensors (cuBLASLt), of rows and columns, or of groups and blocks"
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
        groups = ("a_group_scale", "b_block_scale")
        of_groups = (
            all(map(case.has, groups)) and case.only("a", "b", *groups, "bias", "out") and _blocks_fit(case)
        )
        if not (of_tensors or of_rows or of_groups):
            return None
        if not case.dtype("a").startswith("fp8") or case.dtype("out").startswith("fp8"):
            return None
        dtype, fast = DTYPES[case.dtype("out")], bool(case.options["fast_accumulation"])

        def scales(t: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
            if of_rows:
                return t["a_token_scale"].reshape(-1, 1), t["b_channel_scale"].reshape(1, -1)
            if of_groups:
                return t["a_group_scale"], t["b_block_scale"].t()
            one = torch.ones(1, device=t["a"].device)
            return t.get("a_scale", one), t.get("b_scale", one)

        def call(t: Tensors) -> dict[str, torch.Tensor]:
            a = t["a"].reshape(-1, t["a"].shape[-1])
            scale_a, scale_b = scales(t)
            y = torch._scaled_mm(
                a,
                t["b"].t(),
                scale_a,
                scale_b,
                bias=t.get("bias"),
                out_dtype=dtype,
                use_fast_accum=fast,
            )
            return {"out": y.reshape(t["out"].shape)}

        return call


BASELINES = [TorchScaledMm()]
