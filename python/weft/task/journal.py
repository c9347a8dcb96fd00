"""weft task log: ideas with what became of them, so that a later attempt reads what was tried."""

from __future__ import annotations

import datetime
import json
from typing import Any

from weft.task import record
from weft.task.outcome import Outcome, Refusal
from weft.task.spec import Task

FILE = "docs/log.jsonl"


def read(task: Task) -> list[dict[str, Any]]:
    path = task.folder / FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def log(task: Task, outcome: Outcome, idea: str, *, status: str, because: str, run: str) -> None:
    """Adds an entry, or tells all of them. What was kept or rejected has a reason, and rows that say so."""
    if not idea:
        for entry in read(task):
            rows = f" [run {entry['run']}]" if entry["run"] else ""
            outcome.note(
                f"{entry['date'][:10]} {entry['status']:8} {entry['idea']}: {entry['because']}{rows}"
            )
        outcome.check(f"{len(read(task))} ideas are on record")
        return
    if status != "open" and not because:
        raise Refusal(f"an idea that is {status} has a reason: --because WHY")
    known = [row["run"] for row in record.rows(task) if "run" in row]
    if run == "last":
        run = known[-1] if known else ""
    if run and run not in known:
        raise Refusal(f"the evidence has no run {run}")
    if status != "open" and not run:
        raise Refusal(f"an idea that is {status} names the rows that say so: --run ID (or --run last)")
    entry = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "idea": idea,
        "status": status,
        "because": because,
        "run": run,
    }
    path = task.folder / FILE
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(entry) + "\n")
    outcome.check(f"the idea is on record as {status}")
