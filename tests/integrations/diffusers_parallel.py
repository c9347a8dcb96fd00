"""One rank of two, started by test_diffusers.py: weft's attention under context parallelism, over gloo.

Prints a line a case: model, kind of parallelism, largest difference from the model alone, calls of weft's attention.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
import torch.distributed
import weft.diffusers
from diffusers import ContextParallelConfig

from tests.integrations import diffusers_models

CASES = (
    ("flux", {"ulysses_degree": 2}),
    ("flux", {"ring_degree": 2}),
    ("wan", {"ring_degree": 2}),
    ("qwen", {"ulysses_degree": 2}),
    ("ltx", {"ulysses_degree": 2}),
)


def main() -> None:
    # diffusers asks for an accelerator's type and count; here the ranks are on the CPU.
    torch._C._get_accelerator = lambda *_: SimpleNamespace(type="cpu")
    torch.accelerator.device_count = lambda: 2
    torch.distributed.init_process_group("gloo")
    for name, degrees in CASES:
        alone, inputs = diffusers_models.made(name)
        expected = diffusers_models.run(alone, inputs)
        model, _ = diffusers_models.made(name)
        weft.diffusers.accelerate(model)
        model.enable_parallelism(config=ContextParallelConfig(**degrees))
        before = weft.diffusers.attention_calls()["weft"]
        got = diffusers_models.run(model, inputs)
        calls = weft.diffusers.attention_calls()["weft"] - before
        worst = float((got - expected).abs().max() / expected.abs().max())
        if torch.distributed.get_rank() == 0:
            print(name, *degrees, worst, calls, sep=",")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
