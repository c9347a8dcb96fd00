"""The lock: what must not move once tuning has begun."""

from __future__ import annotations

import datetime
import json
from typing import Any

from weft.task.fingerprint import of_bytes, of_json
from weft.task.outcome import Outcome, Refusal
from weft.task.spec import Task

FILE = "lock.json"


def sections(task: Task) -> dict[str, str]:
    """Hashes of what is frozen, by name."""
    reference = str(task.spec.get("reference", "")).partition(":")[0]
    path = task.folder / reference
    flags = {side: task.raw.get(side, {}).get("flags", []) for side in ("build", "baseline")}
    flags |= {name: list(side.flags) for name, side in task.candidates.items() if side.flags}
    return {
        "spec": of_json(task.raw["spec"]),
        "reference": of_bytes(path.read_bytes())[:16] if path.is_file() else "",
        "workloads": of_json(task.raw["workloads"]),
        "grid": of_json(task.raw.get("grid", {})),
        "tolerance": of_json([task.raw.get(name, {}) for name in ("tolerance", "verify", "chain")]),
        "timing": of_json([task.timing, task.raw.get("card", {}), task.device]),
        "flags": of_json(flags),
    }


def read(task: Task) -> dict[str, Any]:
    path = task.folder / FILE
    return json.loads(path.read_text()) if path.exists() else {}


def current(task: Task) -> str:
    """The lock's id. Raises Refusal where there is none, or where something moved since."""
    lock, now = read(task), sections(task)
    if not lock:
        raise Refusal("nothing is locked yet: run `weft task lock` before anything is measured")
    moved = [name for name, found in now.items() if found != lock["sections"].get(name)]
    if moved:
        raise Refusal(
            f"{', '.join(moved)} changed since the lock {lock['lock']} of {lock['date']}: put it back, or "
            "`weft task lock --reason WHY` and measure both sides again"
        )
    return str(lock["lock"])


def lock(task: Task, outcome: Outcome, reason: str) -> None:
    """Writes the lock; a new one keeps those before it, with why they were left."""
    before, now = read(task), sections(task)
    if before and before["sections"] == now:
        outcome.check(f"nothing moved since the lock {before['lock']}")
        return
    if before and not reason:
        moved = [name for name, found in now.items() if found != before["sections"].get(name)]
        raise Refusal(
            f"{', '.join(moved)} changed since the lock {before['lock']}: a new lock needs --reason WHY, since every "
            "row so far is then of another lock"
        )
    history = before.get("history", [])
    if before:
        history = [*history, {"lock": before["lock"], "date": before["date"], "left": reason}]
    made = {
        "lock": of_json(now)[:12],
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "sections": now,
        "history": history,
    }
    (task.folder / FILE).write_text(json.dumps(made, indent=1) + "\n")
    for name, found in now.items():
        outcome.check(f"{name} is frozen ({found})")
    outcome.data["lock"] = made["lock"]
    if before:
        outcome.note(f"Rows of {before['lock']} are of another lock now: measure both sides again.")
