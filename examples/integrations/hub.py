"""weft as a kernel of the Hub: python hub.py [--repository FOLDER_OR_NAME]

Writes the repository (or takes one that is there), loads it with the `kernels` package, and puts its layers into a
model of transformers with `kernelize`. Nothing is asked of the network.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from kernels import LocalLayerRepository, Mode, get_local_kernel, kernelize, use_kernel_mapping
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForCausalLM, LlamaConfig

LAYERS = ("RMSNorm", "rotary_pos_emb", "SiLU")
TINY = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, vocab_size=128)


class Counts(TorchDispatchMode):
    """Calls of weft's operators. A mapping that does not fit is a warning of `kernels`: counting shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "weft":
            self.calls[func.name()] += 1
        return func(*args, **(kwargs or {}))


def written(folder: Path) -> Path:
    """A repository for this machine; what is to be published is written from the wheel, without --here-only."""
    command = [sys.executable, "-m", "weft.hub", str(folder), "--here-only"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repository", type=Path, help="a folder that weft.hub wrote (default: write one)")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.repository or written(Path(scratch) / "weft")
        kernel = get_local_kernel(folder)
        x = torch.randn(3, 64, device=device)
        error = (kernel.rms_norm(x, eps=1e-6) - torch.nn.functional.rms_norm(x, (64,), eps=1e-6)).abs().max()
        print(f"{kernel.__name__}: an op of it lies {error:.1e} from PyTorch's")

        torch.manual_seed(0)
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(LlamaConfig(**TINY)).eval()
        ids = torch.arange(12, device=device)[None]
        mode = Mode.INFERENCE | Mode.TORCH_COMPILE
        mapping = {name: {device: {mode: LocalLayerRepository(folder, layer_name=name)}} for name in LAYERS}
        with torch.inference_mode():
            before = model(ids).logits
            with use_kernel_mapping(mapping, inherit_mapping=False):
                kernelize(model, mode=mode, device=device, use_fallback=False)
            with Counts() as counts:
                after = model(ids).logits
        for name, calls in sorted(counts.calls.items()):
            print(f"{calls:3} calls of {name}")
        apart = ((after - before).abs().max() / before.abs().max()).item()
        print(f"logits lie {apart:.2e} of the largest apart")
    return 0 if len(counts.calls) == len(LAYERS) and apart < 1e-2 else 1


if __name__ == "__main__":
    sys.exit(main())
