"""Compiles what a run will measure ahead of it, in several processes: PyTorch keeps compiled code in a cache on disk.

A case's compilation takes seconds on one core, and its measurement a second or two of the GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

from weft._library import parse_case
from weft.baselines import Absent, every, state
from weft.bench._measure import Options, view_of
from weft.torch import DTYPES


def _like(t: dict[str, Any], device: str) -> torch.Tensor:
    """Memory of a field's dtype, shape, strides and alignment: what compiled code is specialised to."""
    shape, offset, dtype = t["shape"], t.get("offset", 0), DTYPES[t["dtype"]]
    plain = torch.empty(shape, device="meta").stride()
    stride = t.get("stride", plain)
    span = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) if all(shape) else 0
    return torch.zeros(offset + span, dtype=dtype, device=device).as_strided(shape, stride, offset)


def compile_case(line: str, options: Options) -> int:
    """Runs each compiled baseline of a case once; how many there were."""
    count = 0
    for baseline in every():
        if "compile" not in baseline.name or not options.wants(baseline.name):
            continue
        try:
            if state(baseline, options.device == "cuda"):
                continue
            compute = baseline.prepare(view_of(line))
            if compute is not None:
                fields = parse_case(line)["tensors"]
                compute({name: _like(t, options.device) for name, t in fields.items()})
                count += 1
        except (Absent, RuntimeError, ValueError):
            continue  # what can't be compiled here will say so when it is measured
    return count


def warm(lines: Sequence[str], options: Options, processes: int) -> float:
    """Compiles all cases, shared by so many processes; the seconds that it took."""
    begin, workers = time.monotonic(), []
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    command = [sys.executable, "-m", "weft.bench._warm", options.device, ",".join(options.against)]
    for worker in range(min(processes, len(lines))):
        started = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=environment)
        assert started.stdin is not None
        started.stdin.write("\n".join(lines[worker::processes]))
        started.stdin.close()
        workers.append(started)
    for started in workers:
        started.wait()
    return time.monotonic() - begin


def main(device: str, against: str) -> None:
    options = Options(device=device, against=tuple(filter(None, against.split(","))))
    with torch.inference_mode():
        for line in sys.stdin.read().splitlines():
            compile_case(line, options)


if __name__ == "__main__":
    main(*sys.argv[1:])
