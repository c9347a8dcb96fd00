"""What a call costs on the host, before a kernel does anything: python -m weft.host_cost

Measured with calls whose outputs are empty: they are bound, checked against the contract, and nothing is launched.
With a GPU the tensors are there; the limits hold for such a machine (2 µs through tvm-ffi, 6 µs through
torch.ops.weft), and CPU tensors elsewhere take the same way.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

import weft
import weft.torch
from weft._op import OPS

CALLS = 2000
ROUNDS = 25


@dataclass(frozen=True)
class Cost:
    """One way to call, in µs: the median and the 10th and 90th percentiles of rounds, and what is allowed."""

    way: str
    median: float
    low: float
    high: float
    limit: float | None


def measure(way: str, call: Callable[[], object], limit: float | None = None) -> Cost:
    """The mean of CALLS calls, ROUNDS times, in the thread's own time: what else runs does not count."""
    rounds = []
    for _ in range(ROUNDS + 3):
        start = time.thread_time()
        for _ in range(CALLS):
            call()
        rounds.append((time.thread_time() - start) / CALLS * 1e6)
    tenths = statistics.quantiles(rounds[3:], n=10)  # the first three warm up
    return Cost(way, statistics.median(rounds[3:]), tenths[0], tenths[-1], limit)


def costs() -> list[Cost]:
    """Every way to call rms_norm with a weight on zero rows."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, out = (torch.empty(0, 2048, dtype=torch.bfloat16, device=device) for _ in range(2))
    weight = torch.ones(2048, dtype=torch.bfloat16, device=device)
    op = OPS["rms_norm"]
    tensors = {"x": x, "weight": weight, "out": out}
    fields = op.arguments(op.defaults | tensors)[: len(op.contract.fields)]
    direct, destination, functional = op.function, torch.ops.weft.rms_norm_out, torch.ops.weft.rms_norm
    rms_norm = weft.rms_norm
    return [
        measure("nothing: an empty Python function", lambda: None),
        measure("tvm-ffi, destination", lambda: direct(*fields), 2),
        measure("torch.ops.weft.rms_norm_out", lambda: destination(*fields), 6),
        measure("torch.ops.weft.rms_norm", lambda: functional(x, weight)),
        measure("weft.rms_norm(x, weight, out=out)", lambda: rms_norm(x, weight, out=out)),
        measure("weft.rms_norm(x, weight)", lambda: rms_norm(x, weight)),
        measure("torch.empty_like(x), to compare", lambda: torch.empty_like(x)),
    ]


def main() -> None:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    rows = costs()
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print(f"{'way':36}  {'median µs':>9}  {'p10':>6}  {'p90':>6}  limit")
    for row in rows:
        limit = "" if row.limit is None else f"{row.limit:g}"
        print(f"{row.way:36}  {row.median:9.2f}  {row.low:6.2f}  {row.high:6.2f}  {limit}")


if __name__ == "__main__":
    main()
