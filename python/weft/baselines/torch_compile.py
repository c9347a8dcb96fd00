"""torch.compile of the formula in either form, as it is and with every tuning it has.

CUDA Graphs are the harness's business, so that of its modes the one without them is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from weft.baselines import Baseline, Case, Compute, Tensors
from weft.baselines._form import AS_WRITTEN, ONCE, Form
from weft.baselines._formulas import formula


class TorchCompile(Baseline):
    about = "the formula in plain PyTorch, compiled for this very shape"

    def __init__(self, word: str, mode: str | None, form: Form) -> None:
        self.name = f"torch.compile {word}" + (", as written" if form.as_written else "")
        self.mode, self.form = mode, form

    def version(self) -> str:
        return str(torch.__version__)

    def prepare(self, case: Case) -> Compute | None:
        plain = formula(case, self.form)
        if plain is None:
            return None
        torch._dynamo.reset()  # each case is a program of its own: no recompilation limit, no dynamic shapes
        # A sum that is stored in 16 bits and read again rounds, as it does unfused. Nothing else needs that setting,
        # which makes kernels slower.
        torch._inductor.config.emulate_precision_casts = case.has("residual") and not self.form.as_written
        compiled = torch.compile(plain, mode=self.mode, fullgraph=True, dynamic=False)

        def call(t: Tensors) -> Mapping[str, torch.Tensor] | None:
            return compiled(dict(t))

        return call


BASELINES = [
    TorchCompile(word, mode, form)
    for word, mode in (("default", None), ("max-autotune", "max-autotune-no-cudagraphs"))
    for form in (ONCE, AS_WRITTEN)
]
