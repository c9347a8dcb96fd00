"""Hashes of what a task is made of: files of a side, and sections of the spec."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from weft.task.spec import Side, Task

DISPATCHER = "dispatch.py"  # what `weft task dispatch` writes into solution/


def of_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def of_json(value: Any) -> str:
    return of_bytes(json.dumps(value, sort_keys=True).encode())[:16]


def sources(task: Task, folder: str) -> list[Path]:
    """The files of baseline/ or solution/, without what Python and editors leave there."""
    found = (path for path in (task.folder / folder).rglob("*") if path.is_file())
    return sorted(path for path in found if "__pycache__" not in path.parts and not path.name.startswith("."))


def of_files(task: Task, files: Iterable[Path]) -> str:
    """One hash of names and contents."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(task.folder)}\0".encode())
        digest.update(of_bytes(path.read_bytes()).encode())
    return digest.hexdigest()[:16]


def copies(task: Task) -> list[dict[str, Any]]:
    """What was copied for the baseline, with hashes: it counts by these, for copies need not be committed."""
    path = task.folder / "baseline" / "source.json"
    return list(json.loads(path.read_text())["files"]) if path.exists() else []


def of_side(task: Task, side: Side) -> str:
    """A side's sources and flags. All of solution/ counts for a candidate, but the dispatcher only for itself."""
    copied = copies(task) if side.name == "baseline" else []
    paths = {task.folder / "baseline" / entry["path"] for entry in copied}
    folder = "baseline" if side.name == "baseline" else "solution"
    files = [
        path
        for path in sources(task, folder)
        if path not in paths
        and path.name != "source.json"
        and (side.name == "dispatch" or path.name != DISPATCHER)
    ]
    flags = [*task.flags, *side.flags]
    return of_json([of_files(task, files), copied, side.language, side.function, flags, side.compiled])
