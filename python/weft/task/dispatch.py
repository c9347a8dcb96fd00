"""weft task dispatch: several candidates, the fastest of each bucket, as a table and as the code that picks.

task.toml names the buckets, in order, by conditions on the row's names; the first that holds counts:

    [[dispatch]]
    bucket = "small"
    when = "S <= 1024"
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from weft.report.compare import Comparison
from weft.report.rows import geometric_mean, overlap
from weft.task import bench, record
from weft.task.fingerprint import DISPATCHER
from weft.task.outcome import Outcome, Refusal, Usage
from weft.task.spec import Row, Side, Task, evaluate

PAGE = "docs/dispatch.md"
NAME = "dispatch"  # the candidate that picks


@dataclass(frozen=True)
class Choice:
    """A bucket's entry, and what it won by."""

    bucket: str
    when: str
    entry: str
    us: float  # geometric means over the bucket's rows
    baseline_us: float
    ratio: float
    worst: float
    reason: str
    rows: tuple[str, ...]


def buckets(task: Task) -> list[tuple[str, str]]:
    found = [(str(entry["bucket"]), str(entry["when"])) for entry in task.raw.get("dispatch", ())]
    if not found:
        raise Usage("task.toml has no [[dispatch]] with bucket and when")
    return found


def bucket_of(task: Task, row: Row) -> str:
    """The first whose condition holds."""
    for name, when in buckets(task):
        if evaluate(when, row.values):
            return name
    raise Refusal(
        f"row '{row.name}' is in no bucket: the last one's condition is to hold for all rows ('1 == 1')"
    )


def candidates(task: Task) -> list[Side]:
    """What is picked from besides the baseline. One is enough where it loses in a bucket."""
    found = [side for side in task.candidates.values() if side.name != NAME]
    if not found:
        raise Refusal("task.toml has no candidate besides the dispatcher")
    if len(found) == 1 and len(buckets(task)) == 1:
        raise Refusal("one candidate in one bucket leaves nothing to pick: weft task bench compares the two")
    return found


def choose(task: Task, rows: list[dict[str, Any]]) -> list[Choice]:
    """Of each bucket the candidate of the best geometric mean; the baseline where none wins."""
    cold = {c.workload: c for c in bench.pairs(rows) if (c.time, c.cache) == ("device", "cold")}
    made = []
    for bucket, when in buckets(task):
        members = [row for row in task.rows if bucket_of(task, row) == bucket]
        if not members:
            raise Refusal(f"bucket {bucket} has no workload row: what nobody measures is not dispatched")
        made.append(_best(task, bucket, when, [(row, cold[row.name]) for row in members]))
    return made


def _best(task: Task, bucket: str, when: str, measured: list[tuple[Row, Comparison]]) -> Choice:
    baseline = [c.best for _, c in measured]
    if any(row is None for row in baseline):
        raise Refusal(f"bucket {bucket}: the baseline has no time in every row")
    base = [row["us"]["median"] for row in baseline if row is not None]
    found: list[tuple[float, str, list[float], list[float]]] = []
    told = []
    for side in candidates(task):
        title = bench.title(task, side)
        timed = [next((r for r in c.all if r["name"] == title), None) for _, c in measured]
        if any(row is None for row in timed):
            told.append(f"{side.name} has no time in every row")
            continue
        us = [row["us"]["median"] for row in timed if row is not None]
        ratios = [b / u for b, u in zip(base, us, strict=True)]
        level = all(
            row is not None and b is not None and overlap(row, b)
            for row, b in zip(timed, baseline, strict=True)
        )
        told.append(f"{side.name} {geometric_mean(ratios):.3f}x{' (level)' if level else ''}")
        if not level:
            found.append((geometric_mean(ratios), side.name, us, ratios))
    names = tuple(row.name for row, _ in measured)
    best = max(found, default=(0.0, "", [], []))
    if best[0] <= 1:
        return Choice(bucket, when, "baseline", geometric_mean(base), geometric_mean(base), 1.0, 1.0,
                      f"no candidate is faster: {', '.join(told)}", names)  # fmt: skip
    return Choice(bucket, when, best[1], geometric_mean(best[2]), geometric_mean(base), best[0], min(best[3]),
                  f"the fastest of {', '.join(told)}", names)  # fmt: skip


def code(task: Task, choices: list[Choice]) -> str:
    """solution/dispatch.py: conditions on the operands' sizes, in the table's order."""
    inputs = [f.name for f in task.inputs]
    arguments = ", ".join([*inputs, *task.options, *(f.name for f in task.outputs)])
    sizes: dict[str, str] = {}
    for f in task.inputs:
        for i, part in enumerate(f.shape):
            if part.isidentifier():
                sizes.setdefault(part, f"{f.name}.shape[{i}]")
        if f.dtype.isidentifier() and any(f.dtype in row.values for row in task.rows):
            sizes.setdefault(f.dtype, f"_NAMES[{f.name}.dtype]")
    lines = [
        f'"""Picks the entry of {task.name} by its bucket. Rendered by `weft task dispatch`, with {PAGE}."""',
        "",
        "from pathlib import Path",
        "",
        "from weft.task.entries import load_entry",
        "from weft.task.spec import load",
        "from weft.torch import NAMES as _NAMES  # noqa: F401 - for conditions on dtypes",
        "",
        "_TASK = load(Path(__file__).resolve().parents[1])",
    ]
    for entry in dict.fromkeys(choice.entry for choice in choices):
        side = "_TASK.baseline" if entry == "baseline" else f"_TASK.candidate({entry!r})"
        lines.append(f"_{entry.upper()} = load_entry(_TASK, {side})")
    lines += ["", "", f"def entry_of({', '.join(inputs)}):"]
    used = {name: where for name, where in sizes.items() if any(name in c.when for c in choices)}
    lines += [f"    {name} = {where}" for name, where in used.items()]
    for choice in choices[:-1]:
        lines += [f"    if {choice.when}:  # {choice.bucket}", f"        return _{choice.entry.upper()}"]
    lines += [f"    return _{choices[-1].entry.upper()}  # {choices[-1].bucket}"]
    lines += ["", "", f"def run({arguments}):", f"    entry_of({', '.join(inputs)})({arguments})"]
    return "\n".join(lines) + "\n"


def render(task: Task, choices: list[Choice], run: str) -> str:
    lines = [
        f"# Dispatch of {task.name}",
        "",
        f"Rendered by `weft task dispatch` from run `{run}`; `solution/{DISPATCHER}` picks by the same conditions, the "
        "first that holds. No entry approximates another: all passed `weft task verify`.",
        "",
        "| bucket | condition | entry | us | baseline us | speedup | worst row | rows | reason |",
        "|---|---|---|---:|---:|---:|---:|---|---|",
    ]
    lines += [
        f"| {c.bucket} | `{c.when}` | {c.entry} | {c.us:.2f} | {c.baseline_us:.2f} | {c.ratio:.3f} | {c.worst:.3f} | "
        f"{', '.join(c.rows)} | {c.reason} |"
        for c in choices
    ]
    return "\n".join(lines) + "\n"


def dispatch(task: Task, outcome: Outcome, **how: Any) -> None:
    """Measures all candidates beside the baseline, writes the table and the code."""
    sides = candidates(task)
    for row in task.rows:
        bucket_of(task, row)
    stamps = [bench.ready(task, side, outcome) for side in sides]
    stamp = {"lock": stamps[0]["lock"], "candidate": "*", "sources": {}}
    for one in stamps:
        stamp["sources"] |= one["sources"]
    rows = bench.run(task, [task.baseline, *sides], stamp, outcome, command="dispatch", **how)
    bench.judge_rows(rows, outcome)
    choices = choose(task, rows)
    (task.folder / "solution" / DISPATCHER).write_text(code(task, choices))
    (task.folder / PAGE).write_text(render(task, choices, outcome.data["run"]))
    record.add(task, [{
        "kind": "dispatch", **stamp, "id": uuid.uuid4().hex[:12], "of_run": outcome.data["run"],
        "choices": [c.__dict__ for c in choices],
    }])  # fmt: skip
    for c in choices:
        outcome.note(f"  {c.bucket:12} {c.when:24} {c.entry:12} {c.ratio:.3f}x ({c.reason})")
    outcome.check(f"{PAGE} and solution/{DISPATCHER} say the same: {len(choices)} buckets")
    if NAME not in task.candidates:
        outcome.note(
            f'Now add to task.toml: [candidates.{NAME}] language = "python", entry = "solution/{DISPATCHER}:run"; '
            "then verify and bench it as any candidate."
        )
