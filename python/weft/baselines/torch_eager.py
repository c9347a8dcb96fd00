"""PyTorch without a compiler: one kernel for each operation of the formula."""

from __future__ import annotations

import torch

from weft.baselines import Baseline, Case, Compute
from weft.baselines._form import AS_WRITTEN, ONCE, Form
from weft.baselines._formulas import formula


class TorchEager(Baseline):
    about = "the formula in plain PyTorch"

    def __init__(self, form: Form) -> None:
        self.name = "torch eager" + (", as written" if form.as_written else "")
        self.form = form

    def version(self) -> str:
        return str(torch.__version__)

    def prepare(self, case: Case) -> Compute | None:
        return formula(case, self.form)


BASELINES = [TorchEager(ONCE), TorchEager(AS_WRITTEN)]
