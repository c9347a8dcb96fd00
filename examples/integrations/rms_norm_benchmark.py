"""RMSNorm by PyTorch, by torch.compile and by weft: python rms_norm_benchmark.py

Times are taken by weft's harness (docs/measuring.md): every result is checked before it gets a time, inputs are cold
unless it says hot, and the sides take turns. On a GPU the sizes are those of models; without one the run is tiny and
says nothing of speed, because it times the host and weft's reference: it shows that everything works.
"""

from __future__ import annotations

import argparse
import sys

import torch
from weft.bench.__main__ import main as bench

# Rows and columns: one token of Llama-3.1-8B, its prefill, a step of FLUX.1 and of Wan 14B.
REAL = ((1, 4096), (2048, 4096), (4608, 3072), (32760, 5120))
TINY = ((4, 64),)
BASELINES = {"eager": "torch eager", "compile": "torch.compile default"}


def case(rows: int, columns: int, dtype: str, residual: bool) -> str:
    """A case line; `weft show rms_norm` says what else one may ask."""
    line = f"rms_norm x={dtype}[{rows},{columns}] weight={dtype}[{columns}] eps=1e-6"
    if residual:
        line += f" residual={dtype}[{rows},{columns}] residual_out={dtype}[{rows},{columns}]"
    return line


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "fp16", "fp32"))
    parser.add_argument("--against", nargs="+", default=list(BASELINES), choices=BASELINES)
    parser.add_argument(
        "--residual", action="store_true", help="the sum with a residual before it, in one call"
    )
    parser.add_argument("--rounds", type=int, default=15, help="samples of each time")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        print("No GPU is here: a tiny run on the CPU, whose times say nothing.\n")
    against = ",".join(BASELINES[name] for name in given.against)
    status = 0
    for rows, columns in REAL if device == "cuda" else TINY:
        line = case(rows, columns, given.dtype, given.residual)
        status |= bench([line, "--device", device, "--against", against, "--rounds", str(given.rounds)])
    return status


if __name__ == "__main__":
    sys.exit(main())
