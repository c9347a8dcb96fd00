"""Steps that write a file of evidence anew, recorded in it and checked: packing, and dropping what is superseded.

A row is never edited. A step ends in a line that names the file as it was (how many lines, and their SHA-256), so that
the old file, out of the history, proves it: every row of the old one is in the new one, or is named as dropped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from weft.report.chain import append, chain_problems, lines_of
from weft.report.pack import Row, pack, unpack

Key = tuple[str, str, str | None]  # run, case, workload


def _key(row: Row) -> Key:
    return row["run"], row["case"], row["workload"]


def _rows(lines: Iterable[bytes]) -> Iterator[Row]:
    for line in lines:
        yield from unpack(json.loads(line))


def digest(file: bytes) -> str:
    """What a step names a file by."""
    return hashlib.sha256(file).hexdigest()


def _rewrite(path: Path, rows: list[Row], step: dict[str, Any]) -> None:
    """Replaces a file whose chain holds; what was written is read back and compared first."""
    old = path.read_bytes()
    lines = lines_of(path)
    first = next((i for i, line in enumerate(lines) if b'"chain"' in line), 0)  # it covers those before it
    broken = [problem for problem in chain_problems(lines) if problem[0] > first]
    if broken:
        raise ValueError(f"{path}:{broken[0][0]}: {broken[0][1]}")
    step["before"] = {"lines": old.count(b"\n"), "sha256": digest(old)}
    path.unlink()
    try:
        append(path, [*pack(rows), step])
        wrong = proof_problems(old, path)
        if wrong:
            raise ValueError(f"{path}: {wrong}")
    except BaseException:
        path.write_bytes(old)
        raise


def repack(path: Path) -> None:
    """Packs a file of evidence."""
    _rewrite(path, list(_rows(lines_of(path))), {"step": "packed"})


def _timed(rows: Iterable[Row]) -> dict[tuple[str, str | None], str]:
    """The last run that has a time of weft's, by case and workload."""
    return {_key(row)[1:]: row["run"] for row in rows if row.get("side") == "weft" and row["us"]}


def drop_superseded(path: Path) -> int:
    """Drops what a later run measured again, case by case; how many cases of runs that were.

    A case whose later run has no time of weft's is not superseded by it.
    """
    rows = list(_rows(lines_of(path)))
    latest, order = _timed(rows), list(dict.fromkeys(_key(row) for row in rows if "run" in row))
    place = {key: i for i, key in enumerate(order)}
    dropped = [key for key in order if key[1:] in latest and place[key] < place[(latest[key[1:]], *key[1:])]]
    if dropped:
        gone = set(dropped)
        kept = [row for row in rows if "run" not in row or _key(row) not in gone]
        _rewrite(path, kept, {"step": "superseded", "dropped": [list(key) for key in dropped]})
    return len(dropped)


def step_problems(lines: list[Row]) -> Iterator[tuple[int, str]]:
    """What is wrong with the steps of a file, by line number: what was dropped must be there from another run."""
    steps = [(number, line) for number, line in enumerate(lines, 1) if "step" in line]
    timed = _timed(row for line in lines if "run" in line for row in unpack(line)) if steps else {}
    for number, line in steps:
        if line["step"] not in ("packed", "superseded") or not isinstance(line.get("before"), dict):
            yield number, "is no step that weft report makes"
            continue
        for run, *case in line.get("dropped", []):
            if timed.get(tuple(case), run) == run:
                yield number, f"dropped run {run} of {case[0]!r}, which no other run has measured"


def proof_problems(old: bytes, path: Path) -> str:
    """Why a file does not hold all rows of what it once was, in their order; empty where it does."""
    name, before = digest(old), list(_rows(old.splitlines()))
    now: list[Row] = []
    for row in _rows(lines_of(path)):
        if row.get("before", {}).get("sha256") == name:
            dropped = {tuple(key) for key in row.get("dropped", [])}
            before = [one for one in before if "run" not in one or _key(one) not in dropped]
            return "" if now == before else "its rows are not those of the file that it was made of"
        now.append(row)
    return "no step of it names that file"
