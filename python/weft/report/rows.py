"""Rows of evidence: one JSON object a line, append only.

A file holds rows of environments and of measurements. Each row that is added to evidence/ ends in `chain`: the first 16
digits of the SHA-256 of all bytes of the file before that field, so that a row that is edited, removed or slipped in
later shows. Rows from before the first chained one are covered by it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]

NUMBER, TEXT = (int, float), (str,)
STATISTICS = ("min", "p10", "median", "p90", "mean", "std")
# Field: the types that it may have.
MEASUREMENT: dict[str, tuple[type, ...]] = {
    "run": TEXT,
    "case": TEXT,
    "workload": (str, type(None)),
    "side": TEXT,
    "name": TEXT,
    "time": TEXT,
    "cache": TEXT,
    "us": (dict, type(None)),
    "samples": (int,),
    "floor_us": NUMBER,
    "bytes": NUMBER,
    "flops": NUMBER,
    "checked": (bool,),
    "env": TEXT,
}
OPTIONAL: dict[str, tuple[type, ...]] = {
    "why": TEXT,  # a row without times
    "checked_on": TEXT,  # the parts that were compared with the reference, where it was not every element
    "weft_speedup": (dict,),  # of a baseline's row: ratio, low, high
    "dropped": (int,),  # samples left out because the card throttled
    "power_capped": (int,),  # samples while the power limit held the clock
    "sm_mhz": NUMBER,
    "chain": TEXT,
}
ENVIRONMENT = {
    "env",
    "gpu",
    "driver",
    "cuda",
    "libraries",
    "commit",
    "dirty",
    "flags",
    "command",
    "clocks",
    "date",
}
WORDS = {"side": {"weft", "baseline", "noise"}, "time": {"device", "eager"}, "cache": {"cold", "hot"}}
CARD = ("card copy", "card read", "card launch")  # what the card reaches; no rivals
_CHAIN = re.compile(rb'^(.*), "chain": "([0-9a-f]{16})"\}$')


def read(path: Path) -> list[Row]:
    """All rows of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def read_all(folder: Path) -> Iterator[tuple[Path, list[Row]]]:
    """The files of an evidence folder, one for each GPU and suite."""
    for path in sorted(folder.glob("*/*.jsonl")):
        yield path, read(path)


def add_rows(path: Path, rows: Iterable[Row], chained: bool) -> None:
    """Appends rows; `chained` for a file of evidence."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(path.read_bytes() if path.exists() else b"")
    with path.open("ab") as file:
        for row in rows:
            line = json.dumps({key: value for key, value in row.items() if key != "chain"}).encode()
            if chained:
                digest.update(line[:-1])
                end = f', "chain": "{digest.hexdigest()[:16]}"}}'.encode()
                digest.update(end + b"\n")
                line = line[:-1] + end
            file.write(line + b"\n")


def _field_problems(row: Row) -> Iterator[str]:
    for name, types in (MEASUREMENT | {k: v for k, v in OPTIONAL.items() if k in row}).items():
        value = row.get(name, NotImplemented)
        if value is NotImplemented:
            yield f"lacks {name}"
        elif not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            yield f"{name} is {value!r}"
    for name in row.keys() - MEASUREMENT.keys() - OPTIONAL.keys():
        yield f"has a field {name} that the schema lacks"
    for name, words in WORDS.items():
        if row.get(name) not in words:
            yield f"{name} is {row.get(name)!r}, expected one of {', '.join(sorted(words))}"


def _time_problems(row: Row) -> Iterator[str]:
    us = row.get("us")
    if us is None:
        if row.get("checked") is not False or not row.get("why"):
            yield "has no times, but is not said to be wrong with a reason"
        return
    if row.get("checked") is not True:
        yield "has times, but was not checked"
    if not isinstance(us, dict) or set(us) != set(STATISTICS):
        yield f"us holds {', '.join(sorted(us))}"
        return
    if not all(isinstance(v, NUMBER) and math.isfinite(v) and v >= 0 for v in us.values()):
        yield "a time is no number"
    elif not us["min"] <= us["p10"] <= us["median"] <= us["p90"]:
        yield "min, p10, median and p90 are out of order"
    if not row.get("samples"):
        yield "has times of no samples"


def _row_problems(row: Row, environments: dict[str, Row], runs: dict[str, str], gpu: str) -> Iterator[str]:
    if "run" not in row:
        missing = ENVIRONMENT - row.keys()
        if missing:
            yield f"an environment without {', '.join(sorted(missing))}"
        elif gpu.lower() not in str(row["gpu"]).lower():
            yield f"is of a {row['gpu']}, in the folder of {gpu}"
        environments[row.get("env", "")] = row
        return
    yield from _field_problems(row)
    yield from _time_problems(row)
    if row.get("env") not in environments:
        yield f"its environment {row.get('env')!r} is not in the file before it"
    if runs.setdefault(row.get("run", ""), row.get("env", "")) != row.get("env"):
        yield "its run was in another environment"


def _chain_problems(lines: Sequence[bytes]) -> Iterator[tuple[int, str]]:
    digest, chained = hashlib.sha256(), False
    for number, line in enumerate(lines, 1):
        match = _CHAIN.match(line)
        if match is None:
            if chained:
                yield number, "is not chained to the rows before it: rows come in by weft report --add"
            digest.update(line + b"\n")
            continue
        chained = True
        digest.update(match[1])
        if digest.hexdigest()[:16] != match[2].decode():
            yield (
                number,
                "the chain breaks here: this row, or one before it, was edited, removed or slipped in",
            )
            return  # all that follow break as well
        digest.update(line[len(match[1]) :] + b"\n")


def problems(path: Path, case_problem: Callable[[str], str]) -> list[str]:
    """What is wrong with a file of evidence. `case_problem` says what is wrong with a case line, or nothing."""
    found: list[tuple[int, str]] = []
    lines = path.read_bytes().split(b"\n")
    if lines.pop() != b"":
        found.append((len(lines) + 1, "the last line does not end"))
    environments: dict[str, Row] = {}
    runs: dict[str, str] = {}
    asked: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            found.append((number, f"is no JSON: {error}"))
            continue
        found += [(number, what) for what in _row_problems(row, environments, runs, path.parent.name)]
        case = row.get("case")
        if isinstance(case, str) and path.stem != "pipelines":
            if case not in asked:
                asked[case] = case_problem(case)
            found += [(number, asked[case])] if asked[case] else []
    found += _chain_problems(lines)
    return [f"{path}:{number}: {what}" for number, what in sorted(found)]


def is_rival(row: Row) -> bool:
    """A baseline that computes the case."""
    return row.get("side") == "baseline" and row["name"] not in CARD


def overlap(a: Row, b: Row) -> bool:
    """Do the p10-p90 intervals of two timed rows have a time in common? Then neither wins."""
    return bool(a["us"]["p10"] <= b["us"]["p90"] and b["us"]["p10"] <= a["us"]["p90"])


def geometric_mean(values: Sequence[float]) -> float:
    """1 where there are none."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 1.0
