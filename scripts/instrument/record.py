"""What is known of each op: the ceiling of unreached branches, the score of its mutants, and which of either are
explained. Tables in tests/reach/, rendered with the sizes of the corpus into docs/testing.md."""

from __future__ import annotations

import csv
import hashlib
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from instrument.area import PARTS, PYTHON, ROOT, Area, PythonArea, either, ops
from instrument.measure import Mutant, Outcome

FOLDER = ROOT / "tests" / "reach"
CORPUS = ROOT / "tests" / "ops" / "corpus"
PAGE = ROOT / "docs" / "testing.md"
BEGIN, END = "<!-- rendered by scripts/coverage --docs -->", "<!-- end -->"


@dataclass
class Row:
    """Of an op: outcomes of its branches, those that no test reaches, and those of them that have a reason; mutants
    that there are, that were tried, found, and are equivalent for a reason; the processor time until an instrumented
    copy has been compiled and its tests have run once (0: not known); and the sources that the branches are of."""

    op: str
    branches: int = 0
    unreached: int = 0
    explained: int = 0
    mutants: int = 0
    tried: int = 0
    found: int = 0
    equivalent: int = 0
    seconds: int = 0
    sources: str = ""

    def score(self) -> str:
        judged = self.tried - self.equivalent
        return f"{100 * self.found / judged:.1f} %" if judged else ""

    def is_complete(self) -> bool:
        """Whether each of its mutants, or of the sample of them, is known to be found, equivalent or a survivor."""
        return 0 < min(self.mutants, either(self.op).sample or self.mutants) == self.tried


def read() -> dict[str, Row]:
    path = FOLDER / "scores.csv"
    if not path.exists():
        return {}
    found: dict[str, Row] = {}
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            values: dict[str, Any] = {
                at.name: int(line[at.name]) if at.type == "int" else line[at.name] for at in fields(Row)
            }
            found[line["op"]] = Row(**values)
    return found


def too_long(op: str, until: float) -> bool:
    """Whether the op's instrumented copy is not made and measured by then, as far as is known."""
    return time.monotonic() + read().get(op, Row(op)).seconds > until


def write(row: Row) -> None:
    rows = read() | {row.op: row}
    with (FOLDER / "scores.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, [at.name for at in fields(Row)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(rows[op]) for op in sorted(rows))


def sources(of: Area | PythonArea, included: set[Path]) -> str:
    """A digest of what decides which branches the area has, and which its own cases reach."""
    paths = of.files(included)
    paths += [
        *sorted(path for pattern in of.test_files for path in ROOT.glob(pattern)),
        CORPUS / f"{of.name}.txt",
    ]
    state = hashlib.sha256()
    for path in paths:
        state.update(f"{path.relative_to(ROOT)} ".encode())
        state.update(hashlib.sha256(path.read_bytes() if path.exists() else b"").digest())
    return state.hexdigest()[:16]


Key = tuple[str, str, str]


def key_of(thing: Outcome | Mutant, what: str = "") -> Key:
    """Names something by its file, its rule and its line of source, which stays when lines move."""
    if not what:
        what = thing.rule if isinstance(thing, Mutant) else {1: "entered", 2: "false", 4: "true"}[thing.bit]
    return thing.place.file, what, thing.place.site.text


class Listed:
    """Mutants, each by its key."""

    def __init__(self, name: str) -> None:
        self.path = FOLDER / name
        with self.path.open(newline="") as file:
            self.keys = {(row["file"], row["what"], row["line"]) for row in csv.DictReader(file)}

    def knows(self, mutant: Mutant) -> bool:
        return key_of(mutant) in self.keys

    def write(self, op: str, mutants: Iterable[Mutant]) -> None:
        kept = {key for key in self.keys if not either(op).owns(key[0])}
        with self.path.open("w", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(("file", "what", "line"))
            table.writerows(sorted(kept | {key_of(mutant) for mutant in mutants}))


class Reasons:
    """Lines with a reason each."""

    def __init__(self, name: str) -> None:
        self.path = FOLDER / name
        with self.path.open(newline="") as file:
            self.rows = {
                (row["file"], row["what"], row["line"]): row["reason"] for row in csv.DictReader(file)
            }
        self.used: set[Key] = set()

    def of(self, thing: Outcome | Mutant) -> str | None:
        for key in (key_of(thing), key_of(thing, "*")):
            if key in self.rows:
                self.used.add(key)
                return self.rows[key]
        return None

    def unused(self, folder: str) -> list[str]:
        """Reasons for what is not there any more, or is reached or found by now."""
        return [": ".join(key) for key in self.rows if key[0].startswith(folder) and key not in self.used]


def survivors() -> Listed:
    """Mutants of the completely tried ops, and of the samples of other areas, that no test finds yet."""
    return Listed("survivors.csv")


def sanitized() -> Listed:
    """Mutants that only the builds with a sanitizer find: races, and accesses beside what a kernel may touch."""
    return Listed("sanitized.csv")


def unreachable() -> Reasons:
    return Reasons("unreachable.csv")


def equivalent() -> Reasons:
    return Reasons("equivalent.csv")


def corpus(op: str) -> int:
    """How many cases its corpus has."""
    path = CORPUS / f"{op}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return sum(not line.startswith("#") for line in lines)


def table(rows: Iterable[Row]) -> str:
    lines = [
        "| op | branches | unreached | of these explained | cases of the corpus | mutants | tried | found "
        "| equivalent | score |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        reach = (row.branches, row.unreached, row.explained, corpus(row.op)) if row.branches else ("",) * 4
        score = (row.mutants, row.tried, row.found, row.equivalent) if row.mutants else ("",) * 4
        lines.append(f"| `{row.op}` | " + " | ".join(map(str, reach + score)) + f" | {row.score()} |")
    return "\n".join(lines)


def parts_table(rows: Iterable[Row]) -> str:
    lines = ["| sources | mutants | tried | found | equivalent | score |", "|---|---:|---:|---:|---:|---:|"]
    for row in rows:
        score = (row.mutants, row.tried, row.found, row.equivalent) if row.mutants else ("",) * 4
        lines.append(f"| `{either(row.op).folder}` | " + " | ".join(map(str, score)) + f" | {row.score()} |")
    return "\n".join(lines)


def rendered(page: str) -> str:
    """The page with its tables: by op, and by part of the library."""
    rows = read()
    parts = [rows.get(at, Row(at)) for at in (*PARTS, *PYTHON)]
    shown = [table(rows.get(op, Row(op)) for op in ops()), parts_table(parts)]
    pieces = page.split(BEGIN)
    for i, text in enumerate(shown, 1):
        pieces[i] = f"\n\n{text}\n\n{END}{pieces[i].split(END)[1]}"
    return BEGIN.join(pieces)
