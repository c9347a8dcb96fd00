"""Pairs of rows that may be compared: of one run, one case, one time and one state of the caches."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from weft.report.pack import Row
from weft.report.rows import geometric_mean, is_rival, overlap


def refusal(row: Row) -> str:
    """Why a row has no times, in a line or two: what was wrong, or what it failed with."""
    why: str = row.get("why", "")
    text = why if why.startswith("failed: ") else f"wrong: {why}"
    return textwrap.shorten(text, 160, placeholder=" ...")


def title_of(row: Row) -> str:
    """What ran, and whether it rounds between its steps."""
    return str(row["name"]) + (" (rounds in between)" if row.get("rounds_between") else "")


@dataclass
class Comparison:
    """weft and its rivals on a case."""

    run: str
    case: str
    workload: str | None
    time: str
    cache: str
    env: str
    weft: Row | None = None
    rivals: list[Row] = field(default_factory=list)  # timed, fastest first
    noise: Row | None = None
    all: list[Row] = field(default_factory=list)  # timed, of every side
    wrong: list[Row] = field(default_factory=list)
    variant: str = ""  # of a workload row that stands for several cases: which this is

    @property
    def title(self) -> str:
        """The workload's row where it is one, else the case."""
        return f"{self.workload} {self.variant}".strip() if self.workload else self.case

    @property
    def op(self) -> str:
        """The case's op, or the pipeline."""
        return self.case.split(" ", 1)[0]

    @property
    def best(self) -> Row | None:
        """The fastest rival."""
        return self.rivals[0] if self.rivals else None

    @property
    def card(self) -> list[Row]:
        """The card's own copy and read of the case's bytes, where they were timed."""
        return [row for row in self.all if row["name"] in ("card copy", "card read")]

    @property
    def timed(self) -> Row | None:
        """weft's row, if it has a time."""
        return self.weft if self.weft and self.weft["us"] else None

    def ratio(self, rival: Row | None) -> float | None:
        """How many times faster than the rival weft is."""
        if rival is None or self.timed is None:
            return None
        return float(rival["us"]["median"] / self.timed["us"]["median"])

    @property
    def share(self) -> float | None:
        """Of the floor that is reached: 1 is the least time that is possible."""
        if self.timed is None or not self.timed["floor_us"]:
            return None
        return float(self.timed["floor_us"] / self.timed["us"]["median"])

    def verdict(self, rival: Row | None) -> str:
        """wins, loses or level; empty where there is nothing to compare."""
        ratio = self.ratio(rival)
        if ratio is None or rival is None or self.timed is None:
            return ""
        if overlap(self.timed, rival):
            return "level"
        return "wins" if ratio > 1 else "loses"


def comparisons(rows: Iterable[Row]) -> list[Comparison]:
    """In the order of the rows; of a case that was measured again in a later run, the later one."""
    found: dict[tuple[str, ...], Comparison] = {}
    for row in rows:
        if "run" not in row:
            continue
        key = (row["case"], row["workload"] or "", row["time"], row["cache"])
        at = found.get(key)
        if at is None or at.run != row["run"]:
            at = found[key] = Comparison(
                row["run"], row["case"], row["workload"], row["time"], row["cache"], row["env"]
            )
        if row["us"] is not None:
            at.all.append(row)
        if row["us"] is None and row["side"] != "weft":
            at.wrong.append(row)
        elif row["side"] == "weft" and at.weft is None:
            at.weft = row
        elif row["side"] == "noise":
            at.noise = row
        elif is_rival(row):
            at.rivals.append(row)
    cases: dict[str | None, set[str]] = {}
    for comparison in found.values():
        comparison.rivals.sort(key=lambda row: float(row["us"]["median"]))
        cases.setdefault(comparison.workload, set()).add(comparison.case)
    for comparison in found.values():
        comparison.variant = _variant(comparison.case, cases[comparison.workload])
    return list(found.values())


def _variant(case: str, siblings: set[str]) -> str:
    """What tells a case from its siblings: its first tensor's dtype, and the tensors and options that not all have."""
    if len(siblings) < 2:
        return ""

    def parts(line: str) -> list[str]:
        return [word.split("=")[0] if "[" in word else word for word in line.split()[1:]]

    shared = set[str].intersection(*(set(parts(line)) for line in siblings))
    own = [part for part in parts(case) if part not in shared and not part.endswith("scale")]
    return " ".join([case.split("=", 1)[1].split("[", maxsplit=1)[0], *own])


def badness(c: Comparison) -> tuple[int, float, float]:
    """Sorts: without a result, then slower than the best rival, then by the share of the floor."""
    ratio = c.ratio(c.best)
    return (0 if c.timed is None else 1, ratio if ratio is not None else 1e9, c.share or 1e9)


def worst_first(found: Iterable[Comparison]) -> list[Comparison]:
    return sorted(found, key=badness)


def summary(found: Sequence[Comparison]) -> str:
    """One sentence over the cases of one time and cache state."""
    wrong = sum(c.timed is None for c in found)
    compared = [(ratio, c) for c in found if (ratio := c.ratio(c.best)) is not None]
    text = f"{len(found)} cases, {wrong} of weft's results wrong"
    if not compared:
        return text + "; no baseline to compare with"
    worst, at = min(compared, key=lambda pair: pair[0])
    verdicts = [c.verdict(c.best) for _, c in compared]
    counts = ", ".join(f"{verdicts.count(word)} {said}" for word, said in _SAID.items())
    assert at.best is not None
    return (
        f"{text}; against the best baseline of each of {len(compared)}: geometric mean "
        f"{geometric_mean([ratio for ratio, _ in compared]):.2f}x, worst {worst:.2f}x ({at.title}, against "
        f"{title_of(at.best)}); {counts}"
    )


_SAID = {"wins": "won", "loses": "lost", "level": "level"}


def summary_text(rows: Iterable[Row]) -> str:
    """Of device times with cold caches."""
    return summary([c for c in comparisons(rows) if (c.time, c.cache) == ("device", "cold")])
