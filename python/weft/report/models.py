"""Whole models of other libraries, with weft in them and without: the rows of `python -m weft.bench.models`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from weft.report.compare import Comparison, refusal
from weft.report.pack import Row
from weft.report.rows import geometric_mean, overlap

SUITE = "models"
_LAYERS = re.compile(r" layers=(\d+)/(\d+)")


def _median(row: Row) -> float:
    return float(row["us"]["median"])


def _by_case(found: Iterable[Comparison]) -> dict[str, list[Row]]:
    """Each case's rows, with times and without, calls from the host and graphs: fastest first."""
    cases: dict[str, list[Row]] = {}
    for c in found:
        wrong = [c.weft] if c.weft and c.weft["us"] is None else []
        cases.setdefault(c.case, []).extend([*c.all, *wrong, *c.wrong])
    for rows in cases.values():
        rows.sort(key=lambda row: _median(row) if row["us"] else float("inf"))
    return cases


def _best(rows: list[Row], side: str) -> Row | None:
    return next((row for row in rows if row["side"] == side and row["us"]), None)


def _blocks(case: str) -> str:
    found = _LAYERS.search(case)
    return f"{found[1]} of {found[2]}" if found else ""


def _ms(row: Row) -> str:
    return f"{_median(row) / 1000:.3f}"


def _verdict(ours: Row, theirs: Row) -> str:
    ratio = _median(theirs) / _median(ours)
    word = "level" if overlap(ours, theirs) else "wins" if ratio > 1 else "loses"
    return f"{ratio:.2f} {word}"


def _summary(cases: dict[str, list[Row]]) -> Iterator[str]:
    """The fastest of each side, of every step."""
    pairs = {case: (_best(rows, "weft"), _best(rows, "baseline")) for case, rows in cases.items()}
    both = {case: (ours, theirs) for case, (ours, theirs) in pairs.items() if ours and theirs}
    if both:
        ratios = [_median(theirs) / _median(ours) for ours, theirs in both.values()]
        yield (
            f"{len(cases)} steps; of each the fastest with weft in it against the fastest without: geometric mean "
            f"{geometric_mean(ratios):.2f}x, worst {min(ratios):.2f}x.\n"
        )
    yield "| step | blocks | with weft, ms | without, ms | speedup |"
    yield "|---|---|---:|---:|---|"
    for case, (ours, theirs) in pairs.items():
        times = f"{_ms(ours) if ours else '-'} | {_ms(theirs) if theirs else '-'}"
        speedup = _verdict(ours, theirs) if ours and theirs else "-"
        yield f"| `{_LAYERS.sub('', case)}` | {_blocks(case)} | {times} | {speedup} |"
    yield ""


def markdown(found: Iterable[Comparison]) -> Iterator[str]:
    """The section of docs/performance.md."""
    cases = _by_case(found)
    yield f"### {SUITE}\n"
    yield (
        "One step of models of random weights: the library's own, and with `accelerate` in it. Blocks are alike, so "
        "that a part of them is measured; with them what comes before and after. `error` is the size of the difference "
        "from the same step in fp32, beside that of its result. A time is that of a call right behind another, or of a "
        "CUDA Graph's replay.\n"
    )
    yield from _summary(cases)
    yield "| step | what ran | ms | p10-p90 | error |"
    yield "|---|---|---:|---|---:|"
    for case, rows in cases.items():
        for row in rows:
            if row["us"] is None:
                times = f"- | {refusal(row)} | -"
            else:
                us = row["us"]
                times = f"{_ms(row)} | {us['p10'] / 1000:.3f}-{us['p90'] / 1000:.3f} | {row['error']:.1e}"
            yield f"| `{_LAYERS.sub('', case)}` | {row['name'].replace('|', chr(92) + '|')} | {times} |"
    yield ""
