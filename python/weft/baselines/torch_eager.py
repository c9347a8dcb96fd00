"""PyTorch without a compiler: one kernel for each operation of the formula."""

from __future__ import annotations

import torch

from weft.baselines import Baseline, Case, Compute
from weft.baselines._formulas import formula


class TorchEager(Baseline):
    name = "torch eager"
    about = "the formula in plain PyTorch"

    def version(self) -> str:
        return str(torch.__version__)

    def prepare(self, case: Case) -> Compute | None:
        return formula(case)


BASELINES = [TorchEager()]
