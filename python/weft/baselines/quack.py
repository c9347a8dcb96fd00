"""quack's CuTe kernels (package quack-kernels)."""

from __future__ import annotations

import torch

from weft.baselines import Baseline, Case, Compute, Tensors, imported, installed


class Quack(Baseline):
    name = "quack"
    about = "quack's CuTe kernels: norms, softmax, products"
    needs_gpu = True

    def version(self) -> str:
        found = installed("quack-kernels")
        for module in ("quack.rmsnorm", "quack.softmax"):
            imported(module)
        return found

    def prepare(self, case: Case) -> Compute | None:
        o, flat = case.options, all(len(t.shape) <= 2 for t in case.tensors.values())
        plain = flat and case.dtype("out") in ("bf16", "fp16", "fp32")
        if case.op == "softmax" and plain and o["scale"] == 1 and case.dtype("x") == case.dtype("out"):
            softmax_fwd = imported("quack.softmax").softmax_fwd
            return lambda t: {"out": softmax_fwd(t["x"])}
        if case.op == "rms_norm" and plain and o["weight_offset"] == 0 and case.has("weight"):
            return _rms_norm(case)
        pure = case.only("a", "b", "out") and o.get("activation") == "none"
        if case.op == "gemm" and plain and pure and case.dtype("a") in ("bf16", "fp16"):
            gemm = imported("quack.gemm_interface").gemm
            return lambda t: {"out": gemm(t["a"], t["b"].t(), tuned=True)}
        return None


def _rms_norm(case: Case) -> Compute | None:
    if not case.only("x", "weight", "bias", "residual", "residual_out", "out"):
        return None
    rmsnorm_fwd, both = imported("quack.rmsnorm").rmsnorm_fwd, case.has("residual_out")
    dtypes = {field.dtype for name, field in case.tensors.items() if name in ("x", "out")}
    if len(dtypes) > 1:
        return None

    def call(t: Tensors) -> dict[str, torch.Tensor]:
        out, residual_out, _ = rmsnorm_fwd(
            t["x"], t["weight"], bias=t.get("bias"), residual=t.get("residual"), eps=case.options["eps"]
        )
        return {"out": out, "residual_out": residual_out} if both else {"out": out}

    return call


BASELINES = [Quack()]
