"""The task's own evidence: environments, measurements, states of the card, verifications; chained, never edited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.report.chain import chain_problems, head_problem, lines_of
from weft.report.pack import Row
from weft.report.rows import add_rows, read
from weft.task import lock
from weft.task.fingerprint import of_side
from weft.task.outcome import Refusal
from weft.task.spec import Side, Task


def add(task: Task, rows: Iterable[Row]) -> None:
    add_rows(task.evidence, rows, chained=True)


def rows(task: Task) -> list[Row]:
    """All rows. Raises Refusal where one was edited."""
    if not task.evidence.exists():
        return []
    broken = list(chain_problems(lines_of(task.evidence)))
    if broken:
        raise Refusal(f"{task.evidence.relative_to(task.folder)}:{broken[0][0]}: {broken[0][1]}")
    ending = head_problem(task.evidence)
    if ending:
        raise Refusal(f"{task.evidence.relative_to(task.folder)} {ending}")
    return read(task.evidence)


def stamp(task: Task, side: Side) -> dict[str, Any]:
    """What a row is of: the lock, and the sources of both sides."""
    return {
        "lock": lock.current(task),
        "candidate": side.name,
        "sources": {"baseline": of_side(task, task.baseline), side.name: of_side(task, side)},
    }


def of_kind(task: Task, kind: str) -> list[Row]:
    return [row for row in rows(task) if row.get("kind") == kind]


def measured(task: Task, side: Side, anywhere: bool = False) -> list[Row]:
    """Rows of times of a candidate: those of the current lock and sources, or all."""
    found = [r for r in rows(task) if "run" in r and "kind" not in r and r["candidate"] == side.name]
    if anywhere:
        return found
    now = stamp(task, side)
    return [row for row in found if row["lock"] == now["lock"] and row["sources"] == now["sources"]]


def latest(task: Task, side: Side) -> list[Row]:
    """The rows of the last run of the current lock and sources."""
    found = measured(task, side)
    return [row for row in found if row["run"] == found[-1]["run"]]


def verified(task: Task, side: Side, device: str = "") -> Row | None:
    """The last verification of what is there now, if it passed: on the task's own device, or on another."""
    now = stamp(task, side)
    for row in reversed(of_kind(task, "verified")):
        if row["candidate"] == side.name and row["device"] == (device or task.device):
            same = row["lock"] == now["lock"] and row["sources"] == now["sources"]
            return row if same and row["passed"] else None
    return None
