"""Liger's Triton kernels for training, forward only (package liger-kernel)."""

from __future__ import annotations

import torch

from weft.baselines import Baseline, Case, Compute, Tensors, imported, installed


class Liger(Baseline):
    name = "liger"
    about = "Liger's Triton kernels, forward only"
    needs_gpu = True

    def version(self) -> str:
        found = installed("liger-kernel")
        imported("liger_kernel.transformers.functional")
        return found

    def prepare(self, case: Case) -> Compute | None:
        half = case.dtype("out") in ("bf16", "fp16", "fp32")
        if not half or case.op not in ("rms_norm", "layer_norm", "gated_activation"):
            return None
        f, o = imported("liger_kernel.transformers.functional"), case.options
        if case.op == "rms_norm" and case.only("x", "weight", "out") and case.has("weight"):
            # Gemma's casting computes all of it in fp32, as weft's contract does.
            return lambda t: {
                "out": f.liger_rms_norm(t["x"], t["weight"], o["eps"], o["weight_offset"], "gemma", False)
            }
        affine = case.has("weight") and case.has("bias") and o.get("weight_offset") == 0
        if case.op == "layer_norm" and case.only("x", "weight", "bias", "out") and affine:
            return lambda t: {"out": f.liger_layer_norm(t["x"], t["weight"], t["bias"], o["eps"])}
        if case.op == "gated_activation" and case.only("x", "gate", "up", "out"):
            kernel = {"silu": f.liger_swiglu, "gelu_tanh": f.liger_geglu}.get(o["activation"])
            if kernel is not None:
                return lambda t: {"out": kernel(*_gate_up(t))}
        return None


def _gate_up(t: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    if "gate" in t:
        return t["gate"], t["up"]
    gate, up = t["x"].chunk(2, -1)
    return gate.contiguous(), up.contiguous()  # its kernels take rows without gaps


BASELINES = [Liger()]
