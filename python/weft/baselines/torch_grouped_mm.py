"""torch._grouped_mm, torch._scaled_grouped_mm (groups of rows whose ends are on the device), and torch.bmm."""

from __future__ import annotations

import torch

from weft.baselines import Baseline, Case, Compute, Tensors
from weft.torch import DTYPES


def _whole(case: Case) -> bool:
    """Dense operands, of which every row begins at a multiple of 16 bytes, and rows for every number of group_ends."""
    elements = 8 if case.dtype("a") == "bf16" else 16
    fields = [case.tensors[name] for name in ("a", "b")]
    return not any(t.stride for t in fields) and all(t.rows_at(elements) for t in fields)


class TorchGroupedMm(Baseline):
    name = "torch._grouped_mm"
    about = "PyTorch's product of groups of rows, of bf16, or of fp8 with a scale for each row and column"
    needs_gpu = True

    def version(self) -> str:
        return str(torch.__version__)

    def prepare(self, case: Case) -> Compute | None:
        if case.op != "grouped_gemm" or case.options["activation"] != "none" or case.dtype("out") != "bf16":
            return None
        if not case.has("group_ends") or not _whole(case):
            return None
        if case.dtype("a") == "bf16" and case.only("a", "b", "group_ends", "out"):
            return lambda t: {"out": torch._grouped_mm(t["a"], t["b"].transpose(1, 2), offs=t["group_ends"])}
        if case.dtype("a") != "fp8_e4m3" or not case.only(
            "a", "b", "group_ends", "a_scale", "b_scale", "out"
        ):
            return None

        def call(t: Tensors) -> dict[str, torch.Tensor]:
            one = torch.ones(1, device=t["a"].device)
            groups, n = t["b"].shape[:2]
            rows = t.get("a_scale", one).expand(len(t["a"])).contiguous()
            columns = t.get("b_scale", one)[:, None].expand(groups, n).contiguous()
            y = torch._scaled_grouped_mm(
                t["a"],
                t["b"].transpose(1, 2),
                rows,
                columns,
                offs=t["group_ends"],
                out_dtype=DTYPES["bf16"],
            )
            return {"out": y}

        return call


class TorchBmm(Baseline):
    name = "torch.bmm"
    about = "PyTorch's batch of products, of 16 bits"

    def version(self) -> str:
        return str(torch.__version__)

    def prepare(self, case: Case) -> Compute | None:
        if case.op != "grouped_gemm" or case.options["activation"] != "none":
            return None
        if not case.only("a", "b", "out") or len({case.dtype(name) for name in ("a", "b", "out")}) > 1:
            return None
        return lambda t: {"out": torch.bmm(t["a"], t["b"].transpose(1, 2))}


BASELINES = [TorchGroupedMm(), TorchBmm()]
