"""Rows of evidence: what they hold, and what is wrong with them. Append only.

A row is an environment, or one time of one side. A file of evidence holds them packed (weft.report.pack) and chained
(weft.report.chain); what the harness writes elsewhere has a row a line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from weft.report.chain import append, chain_problems, head_problem, lines_of
from weft.report.pack import STATISTICS, Row, pack, unpack
from weft.report.steps import step_problems

NUMBER, TEXT = (int, float), (str,)
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
    "rounds_between": (bool,),  # a baseline that rounds between its steps, as the eager chain does
    "error": NUMBER,  # of a whole model's result against fp32: the size of the difference beside that of the result
    "seed": (int,),  # of the sample that the case was drawn in
    "weft_speedup": (dict,),  # of a baseline's row: ratio, low, high
    "dropped": (int,),  # samples left out because the card throttled
    "power_capped": (int,),  # samples while the power limit held the clock
    "sm_mhz": NUMBER,
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
WHOLE = ("pipelines", "models")  # suites whose cases are no case lines, and have several rows of weft's


def read(path: Path) -> list[Row]:
    """All rows of a file, in either form; of the steps that wrote it anew, none."""
    rows = (row for line in lines_of(path) for row in unpack(json.loads(line)))
    return [row for row in rows if "step" not in row]


def read_all(folder: Path) -> Iterator[tuple[Path, list[Row]]]:
    """The files of an evidence folder, one for each GPU and suite."""
    for path in sorted(folder.glob("*/*.jsonl")):
        yield path, read(path)


def add_rows(path: Path, rows: Iterable[Row], chained: bool) -> None:
    """Appends rows; `chained`, and packed, to a file of evidence."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if chained:
        append(path, pack(rows))
        return
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def _is_number(value: object) -> bool:
    """Finite, and not below 0: nothing that a row counts or measures is."""
    return isinstance(value, NUMBER) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _field_problems(row: Row) -> Iterator[str]:
    for name, types in (MEASUREMENT | {k: v for k, v in OPTIONAL.items() if k in row}).items():
        value = row.get(name, NotImplemented)
        if value is NotImplemented:
            yield f"lacks {name}"
        elif not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            yield f"{name} is {value!r}"
        elif isinstance(value, NUMBER) and bool not in types and not _is_number(value):
            yield f"{name} is {value!r}, expected a finite number from 0 on"
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
    if not isinstance(us, dict):
        return  # that is said of the field
    if set(us) != set(STATISTICS):
        yield f"us holds {', '.join(sorted(us))}"
        return
    if not all(map(_is_number, us.values())) or not us["min"] > 0:
        yield "a time is no finite number above 0"
    elif not us["min"] <= us["p10"] <= us["median"] <= us["p90"]:
        yield "min, p10, median and p90 are out of order"
    if not row.get("samples"):
        yield "has times of no samples"
    speedup = row.get("weft_speedup")
    if not isinstance(speedup, dict):
        return
    if set(speedup) != {"ratio", "low", "high"} or not all(map(_is_number, speedup.values())):
        yield f"weft_speedup is {speedup!r}"
    elif not 0 < speedup["low"] <= speedup["high"]:
        yield "weft_speedup's interval is none"


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


def problems(path: Path, case_problem: Callable[[str], str]) -> list[str]:
    """What is wrong with a file of evidence. `case_problem` says what is wrong with a case line, or nothing."""
    found: list[tuple[int, str]] = []
    lines = lines_of(path)
    if not path.read_bytes().endswith(b"\n"):
        found.append((len(lines), "the last line does not end"))
    environments: dict[str, Row] = {}
    runs: dict[str, str] = {}
    asked: dict[str, str] = {}
    read: list[Row] = []
    for number, text in enumerate(lines, 1):
        read.append({})
        try:
            line = json.loads(text)
            rows = list(unpack(line))
        except json.JSONDecodeError as error:
            found.append((number, f"is no JSON: {error}"))
            continue
        except ValueError as error:
            found.append((number, str(error)))
            continue
        read[-1] = line
        for row in [] if "step" in line else rows:
            found += [(number, what) for what in _row_problems(row, environments, runs, path.parent.name)]
        case = line.get("case")
        if isinstance(case, str) and path.stem not in WHOLE:
            if case not in asked:
                asked[case] = case_problem(case)
            found += [(number, asked[case])] if asked[case] else []
    found += [*step_problems(read), *chain_problems(lines)]
    ending = head_problem(path)
    found += [(len(lines), ending)] if ending else []
    return [f"{path}:{number}: {what}" for number, what in sorted(dict.fromkeys(found))]


def is_rival(row: Row) -> bool:
    """A baseline that computes the case."""
    return row.get("side") == "baseline" and row["name"] not in CARD


def overlap(a: Row, b: Row) -> bool:
    """Do the p10-p90 intervals of two timed rows have a time in common? Then neither wins."""
    return bool(a["us"]["p10"] <= b["us"]["p90"] and b["us"]["p10"] <= a["us"]["p90"])


def geometric_mean(values: Sequence[float]) -> float:
    """1 where there are none."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 1.0
