"""The chain through a file of evidence, and its head.

Each line ends in `chain`: the first 16 digits of the SHA-256 of all bytes of the file before that field, so that a line
that is edited, removed or slipped in shows. Lines missing at the end would not: `heads.json` of the folder says how
many lines each file has and what its last one's chain is, and the tables that are rendered from a file say it too.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

HEADS = "heads.json"
_CHAIN = re.compile(rb'^(.*), ?"chain": ?"([0-9a-f]{16})"\}$')


def lines_of(path: Path) -> list[bytes]:
    """The lines of a file, without their ends. A last one that does not end is a line too."""
    lines = path.read_bytes().split(b"\n")
    return lines if lines[-1] else lines[:-1]


def heads(folder: Path) -> dict[str, dict[str, Any]]:
    """What `heads.json` of an evidence folder says of each file."""
    path = folder / HEADS
    found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def head_of(lines: Sequence[bytes]) -> dict[str, Any]:
    """Of a file of chained lines."""
    last = _CHAIN.match(lines[-1]) if lines else None
    return {"lines": len(lines), "chain": last[2].decode() if last else ""}


def append(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Appends chained lines, and moves the file's head."""
    before = path.read_bytes() if path.exists() else b""
    digest = hashlib.sha256(before)
    with path.open("ab") as file:
        for line in lines:
            text = json.dumps(line, separators=(",", ":")).encode()[:-1]
            digest.update(text)
            end = f',"chain":"{digest.hexdigest()[:16]}"}}\n'.encode()
            digest.update(end)
            file.write(text + end)
    folder = path.parent.parent
    moved = heads(folder) | {_name(path): head_of(lines_of(path))}
    (folder / HEADS).write_text(json.dumps(moved, indent=1, sort_keys=True) + "\n")


def chain_problems(lines: Sequence[bytes]) -> Iterator[tuple[int, str]]:
    """Where the chain through these lines is broken, by line number."""
    digest = hashlib.sha256()
    for number, line in enumerate(lines, 1):
        match = _CHAIN.match(line)
        if match is None:
            yield number, "is not chained to the rows before it: rows come in by weft report --add"
            digest.update(line + b"\n")
            continue
        digest.update(match[1])
        if digest.hexdigest()[:16] != match[2].decode():
            yield (
                number,
                "the chain breaks here: this row, or one before it, was edited, removed or slipped in",
            )
            return  # all that follow break as well
        digest.update(line[len(match[1]) :] + b"\n")


def head_problem(path: Path) -> str:
    """What is wrong with where a file ends, or nothing."""
    said, found = heads(path.parent.parent).get(_name(path)), head_of(lines_of(path))
    if said is None:
        return f"has no head in {HEADS}: rows come in by weft report --add"
    if said != found:
        return (
            f"the chain ends here, after {found['lines']} lines in {found['chain'] or 'nothing'}, but {HEADS} says "
            f"{said.get('lines')} and {said.get('chain')}: lines were cut off or added by hand"
        )
    return ""


def lost_files(folder: Path) -> list[str]:
    """Files that `heads.json` names and that are not there."""
    return [
        f"{folder / name}:1: is gone, but {HEADS} names it"
        for name in heads(folder)
        if not (folder / name).exists()
    ]
