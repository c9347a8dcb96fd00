"""What is known of each op: the ceiling of unreached branches, the score of its mutants, and which of either are
explained. Tables in tests/reach/, rendered into docs/testing.md."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from instrument.copy import ROOT
from instrument.measure import Mutant, Outcome

FOLDER = ROOT / "tests" / "reach"
PAGE = ROOT / "docs" / "testing.md"
BEGIN, END = "<!-- rendered by scripts/coverage --docs -->", "<!-- end -->"


@dataclass
class Row:
    """Of an op: outcomes of its branches, those that no test reaches, and those of them that have a reason; mutants
    that were tried, found, and equivalent for a reason."""

    op: str
    branches: int = 0
    unreached: int = 0
    explained: int = 0
    mutants: int = 0
    found: int = 0
    equivalent: int = 0

    def score(self) -> str:
        judged = self.mutants - self.equivalent
        return f"{100 * self.found / judged:.1f} %" if judged else ""


def read() -> dict[str, Row]:
    path = FOLDER / "scores.csv"
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {
            row["op"]: Row(row["op"], *(int(row[at.name]) for at in fields(Row)[1:]))
            for row in csv.DictReader(file)
        }


def write(row: Row) -> None:
    rows = read() | {row.op: row}
    with (FOLDER / "scores.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, [at.name for at in fields(Row)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(rows[op]) for op in sorted(rows))


class Reasons:
    """Lines that name something by its file, its rule and its line of source, which stays when lines move."""

    def __init__(self, name: str) -> None:
        self.path = FOLDER / name
        with self.path.open(newline="") as file:
            self.rows = {
                (row["file"], row["what"], row["line"]): row["reason"] for row in csv.DictReader(file)
            }
        self.used: set[tuple[str, str, str]] = set()

    def of(self, thing: Outcome | Mutant) -> str | None:
        what = thing.rule if isinstance(thing, Mutant) else {1: "entered", 2: "false", 4: "true"}[thing.bit]
        for kind in (what, "*"):
            key = (thing.place.file, kind, thing.place.site.text)
            if key in self.rows:
                self.used.add(key)
                return self.rows[key]
        return None

    def unused(self, folder: str) -> list[str]:
        """Reasons for what is not there any more, or is reached or found by now."""
        return [": ".join(key) for key in self.rows if key[0].startswith(folder) and key not in self.used]


def unreachable() -> Reasons:
    return Reasons("unreachable.csv")


def equivalent() -> Reasons:
    return Reasons("equivalent.csv")


def table(rows: Iterable[Row]) -> str:
    lines = [
        "| op | branches | unreached | of these explained | mutants tried | found | of these equivalent | score |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        numbers = (row.branches, row.unreached, row.explained, row.mutants, row.found, row.equivalent)
        lines.append(f"| `{row.op}` | " + " | ".join(map(str, numbers)) + f" | {row.score()} |")
    return "\n".join(lines)


def rendered(page: str) -> str:
    head, rest = page.split(BEGIN)
    _, foot = rest.split(END)
    return f"{head}{BEGIN}\n\n{table(read().values())}\n\n{END}{foot}"


def ops() -> list[str]:
    return sorted(Path(path).parent.name for path in (ROOT / "ops").glob("*/reference.cpp"))
