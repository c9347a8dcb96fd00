"""Evidence that nobody measured: rows of every kind, for the tests of what reads them."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

from weft.report.rows import add_rows

ROOT = Path(__file__).resolve().parents[2]
Row = dict[str, Any]

ENVIRONMENT: Row = {
    "env": "e1",
    "gpu": "NVIDIA H200",
    "driver": "580.1",
    "cuda": "13.0",
    "libraries": {"weft": "0.1.0", "torch": "2.11.0"},
    "commit": "0123456789abcdef",
    "dirty": False,
    "flags": "made up",
    "command": "made up",
    "clocks": "1980 MHz",
    "date": "2026-01-02T03:04:05Z",
}


def statistics(median: float, spread: float) -> Row:
    """Around a median."""
    return {
        "median": median,
        "mean": median * 1.01,
        "std": median * spread,
        "min": median * (1 - 2 * spread),
        "p10": median * (1 - spread),
        "p90": median * (1 + spread),
    }


def row(case: str, name: str, side: str, us: float | None, **changes: Any) -> Row:
    """One that is right, but for what is changed."""
    made: Row = {
        "run": "r1",
        "case": case,
        "workload": None,
        "side": side,
        "name": name,
        "time": "device",
        "cache": "cold",
        "us": None if us is None else statistics(us, 0.02),
        "samples": 15 if us is not None else 0,
        "floor_us": 1.0,
        "bytes": 4e6,
        "flops": 1e6,
        "checked": us is not None,
        "env": "e1",
    }
    if us is None:
        made["why"] = "out[0,0]: got nan, expected 1"
    return made | changes


def _of_case(case: str, workload: str, chance: random.Random) -> list[Row]:
    size = 10 ** chance.uniform(3.5, 9)
    floor = max(1.0, size / 4.2e6)
    common: Row = {"workload": workload, "bytes": size, "floor_us": floor}
    wrong = chance.random() < 0.03
    rows = []
    for time, cache, slower in (
        ("device", "cold", 1.0),
        ("device", "hot", 0.85),
        ("eager", "cold", 1.3),
        ("eager", "hot", 1.2),
    ):
        at = {"time": time, "cache": cache}
        ours = floor * chance.uniform(1.02, 1.9) * slower
        if not wrong or (time, cache) == ("device", "cold"):
            rows.append(row(case, "rows lanes=32", "weft", None if wrong else ours, **common, **at))
        for name, factor in (
            ("torch.compile 2.11.0 default", 1.3),
            ("quack 0.6.5", 1.1),
            ("torch 2.11.0 eager", 3.0),
        ):
            theirs = floor * chance.uniform(0.9, 1.6) * factor * slower
            ratio = theirs / ours
            speedup = {"weft_speedup": {"ratio": ratio, "low": ratio * 0.97, "high": ratio * 1.03}}
            rows.append(row(case, name, "baseline", theirs, **common, **at, **speedup))
        rows.append(row(case, "card copy", "baseline", floor * 1.05, **common, **at))
        rows.append(row(case, "torch.compile 2.11.0 default", "noise", floor * 1.31, **common, **at))
    return rows


DRAWN = 60  # cases of the sample


def listed() -> list[tuple[str, str, str]]:
    """The case lines of transformer.csv: suite, row and case."""
    with (ROOT / "workloads" / "transformer.csv").open(newline="") as file:
        return [
            ("norms" if entry["op"].endswith("norm") else "transformer", entry["row"], case.strip())
            for entry in csv.DictReader(file)
            for case in filter(None, entry["case"].split(";"))
        ]


def evidence(folder: Path, seed: int = 1) -> Path:
    """A folder of evidence with a row for each of transformer.csv's case lines, chained: norms apart from the
    rest, and a sample."""
    chance = random.Random(seed)
    suites = {"norms": [ENVIRONMENT], "transformer": [ENVIRONMENT]}
    for suite, name, case in listed():
        suites[suite] += _of_case(case, f"{suite}/{name}", chance)
    suites["sampled"] = [ENVIRONMENT]
    for number in range(DRAWN):
        dtype, dim = chance.choice(("bf16", "fp32")), chance.choice((256, 1000, 1001))
        case = f"softmax x={dtype}[{8 + number},{dim}] out=bf16[{8 + number},{dim}]"
        drawn = _of_case(case, "", chance)
        suites["sampled"] += [row | {"workload": None, "seed": 3 + number % 2} for row in drawn]
    for suite, rows in suites.items():
        add_rows(folder / "h200" / f"{suite}.jsonl", rows, chained=True)
    return folder
