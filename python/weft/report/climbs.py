"""The ladder's times: docs/learn/climbs.md, and a picture for each topic.

A topic's rungs are those that ladder/ has; their times are the rows of a GPU's evidence in the suite `ladder`. What was
not measured yet is said to be so.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weft.report.chain import heads
from weft.report.compare import Comparison, comparisons, refusal
from weft.report.pack import Row
from weft.report.rows import CARD, overlap, read
from weft.report.svg import COLORS, FAINT, WIDTH, Picture

SUITE = "ladder"
RUNG, OURS, OTHERS = COLORS[0], COLORS[1], COLORS[2]

HEAD = """# The climbs, measured

This page and its pictures are rendered from rows of evidence by `./weft report --learn`; a test renders them again and
compares. Each time is the median device time of a checked result with cold caches (operands rotate over three times the
L2 cache), in microseconds; [measuring](../measuring.md) says how it is taken.

A cell has the time, what it gains over the nearest rung above it in the table that was timed on the same case (`1.50x`:
in two thirds of the time; `level` where the intervals from the 10th to the 90th percentile have times in common), and
the share that it reaches of the floor: the least time that is possible, each operand moved once at the card's measured
bandwidth, or the arithmetic at its measured rate. An empty cell is a case that the rung does not take. A rung that is
wrong on purpose has a time only where the data do not show what is wrong with it.
"""


@dataclass(frozen=True)
class Topic:
    """Of the ladder: its rungs from the first up, and the cases that are measured."""

    name: str
    rungs: tuple[str, ...]
    cases: tuple[str, ...]


def topics(root: Path) -> list[Topic]:
    """As ladder/ has them."""
    with (root / "ladder" / "shapes.csv").open(newline="", encoding="utf-8") as file:
        shapes = [(row["topic"], row["case"]) for row in csv.DictReader(file)]
    return [
        Topic(
            folder.name,
            tuple(sorted(path.stem for path in folder.glob("[0-9]*.cu"))),
            tuple(case for topic, case in shapes if topic == folder.name),
        )
        for folder in sorted((root / "ladder").iterdir())
        if folder.is_dir()
    ]


def measured(file: Path) -> dict[str, Comparison]:
    """By case: what ran beside each other, cold. Empty where there is no evidence."""
    rows = read(file) if file.exists() else []
    return {c.case: c for c in comparisons(rows) if (c.time, c.cache) == ("device", "cold")}


def _rung_rows(topic: Topic, found: Comparison) -> dict[str, Row]:
    """Of each rung the row, with times or with what was wrong."""
    begin = f"ladder/{topic.name}/"
    rows = (row for row in [*found.all, *found.wrong] if row["side"] == "baseline")
    return {row["name"][len(begin) :]: row for row in rows if row["name"].startswith(begin)}


def _others(found: Comparison) -> list[tuple[str, Row]]:
    """What else was timed: weft's own, vendors' libraries, the card's copy and read."""
    ours = [("weft " + found.timed["name"], found.timed)] if found.timed else []
    rivals = [
        (row["name"], row)
        for row in found.all
        if row["side"] == "baseline" and not row["name"].startswith("ladder/") and row["name"] != CARD[2]
    ]
    return ours + sorted(rivals, key=lambda entry: float(entry[1]["us"]["median"]))


def _number(us: float) -> str:
    return f"{us:.0f}" if us >= 1000 else f"{us:.1f}" if us >= 100 else f"{us:.2f}"


def _share(row: Row) -> str:
    return f", {100 * row['floor_us'] / row['us']['median']:.0f} %" if row["floor_us"] else ""


def gain(below: Row, row: Row) -> str:
    """What a rung gains over another."""
    return "level" if overlap(below, row) else f"{below['us']['median'] / row['us']['median']:.2f}x"


def _cells(topic: Topic, case: str, found: dict[str, Comparison]) -> Iterator[str]:
    rows = _rung_rows(topic, found[case]) if case in found else {}
    below: Row | None = None
    for rung in topic.rungs:
        row = rows.get(rung)
        if row is None:
            yield ""
        elif row["us"] is None:
            yield refusal(row).replace("|", "\\|")
        else:
            gained = f", {gain(below, row)}" if below else ""
            yield f"{_number(row['us']['median'])}{gained}{_share(row)}"
            below = row


def _table(topic: Topic, found: dict[str, Comparison]) -> Iterator[str]:
    cases = [case for case in topic.cases if case in found]
    yield from (f"{number}. `{case}`" for number, case in enumerate(cases, 1))
    yield "\n| rung |" + "".join(f" case {number} |" for number in range(1, len(cases) + 1))
    yield "|---|" + "---:|" * len(cases)
    columns = [list(_cells(topic, case, found)) for case in cases]
    for at, rung in enumerate(topic.rungs):
        link = f"[{rung}](../../ladder/{topic.name}/{rung}.cu)"
        yield f"| {link} |" + "".join(f" {column[at]} |" for column in columns)
    others: dict[str, dict[str, Row]] = {}
    for case in cases:
        for name, row in _others(found[case]):
            others.setdefault("weft itself" if name.startswith("weft ") else name, {})[case] = row
    for name, rows in others.items():
        texts = [_number(rows[c]["us"]["median"]) + _share(rows[c]) if c in rows else "" for c in cases]
        yield f"| {name} |" + "".join(f" {text} |" for text in texts)


def page(root: Path, gpu: str) -> str:
    """docs/learn/climbs.md."""
    file = root / "evidence" / gpu / f"{SUITE}.jsonl"
    found = measured(file)
    parts = [HEAD]
    if found:
        head = heads(root / "evidence")[f"{gpu}/{file.name}"]
        parts.append(
            f"Measured on an {gpu.upper()}; the rows are `evidence/{gpu}/{file.name}` "
            f"({head['lines']} lines, chain `{head['chain']}`).\n"
        )
    for topic in topics(root):
        parts.append(f"## {topic.name}\n\n![{topic.name}]({picture_name(topic.name)})\n")
        missing = sum(case not in found for case in topic.cases)
        if missing < len(topic.cases):
            parts.append("\n".join(_table(topic, found)) + "\n")
        if missing:
            some = "" if missing == len(topic.cases) else f"{missing} of {len(topic.cases)} cases are "
            parts.append(f"{some or 'It is '}not measured yet.\n")
    return "\n".join(parts)


def picture_name(topic: str) -> str:
    return f"pictures/climb_{topic}.svg"


_LABELS, _VALUES, _ROW = (
    206,
    66,
    16,
)  # of a panel: the width of its names and of its numbers, the height of a line


def _short(case: str) -> str:
    """A case without what follows from its first tensors."""
    words = [word for word in case.split()[1:] if not word.startswith("out=")]
    text = " ".join(words)
    return text if len(text) <= 78 else text[:75] + "..."


def _ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [10.0**power for power in powers if low <= 10.0**power <= high]


def _lines(topic: Topic, found: Comparison) -> list[tuple[str, Row | None, str]]:
    """Of a panel: name, row (none where it was refused a time), colour."""
    rows = _rung_rows(topic, found)
    rungs = [(rung, rows[rung] if rows[rung]["us"] else None, RUNG) for rung in topic.rungs if rung in rows]
    others = [
        (name if name.startswith("card") else name.split()[0], row, OURS if row["side"] == "weft" else OTHERS)
        for name, row in _others(found)
    ]
    return [*rungs, *others]


def _panel(picture: Picture, top: float, topic: Topic, case: str, found: Comparison) -> float:
    """Draws a case from `top` on, and gives where the next may begin."""
    lines = _lines(topic, found)
    times = [row["us"]["median"] for _, row, _ in lines if row]
    floor = found.weft["floor_us"] if found.weft else 0
    low, high = 0.9 * min([*times, *([floor] if floor else [])]), 1.1 * max(times)
    left, right = _LABELS, WIDTH - _VALUES

    def at(us: float) -> float:
        return left + (right - left) * math.log(us / low) / math.log(high / low)

    picture.text((8, top + 12), _short(case), 11, bold=True)
    begin, end = top + 22, top + 22 + _ROW * len(lines)
    for tick in _ticks(low, high):
        picture.line((at(tick), begin), (at(tick), end))
        picture.text((at(tick), end + 12), f"{tick:g} us", 10, color=FAINT, anchor="middle")
    if floor:
        picture.line((at(floor), begin - 3), (at(floor), end), COLORS[6], dashed=True)
        picture.text((at(floor), end + 24), f"floor {_number(floor)}", 10, color=COLORS[6], anchor="middle")
    for number, (name, row, color) in enumerate(lines):
        y = begin + _ROW * (number + 0.5)
        picture.text((left - 8, y + 4), name, 11, anchor="end")
        if row is None:
            picture.text((left + 4, y + 4), "no time: the table says why", 10, color=FAINT)
            continue
        us = row["us"]["median"]
        picture.line((left, y), (at(us), y))
        picture.dot((at(us), y), color)
        picture.text((WIDTH - 4, y + 4), f"{_number(us)} us", 11, anchor="end")
    return end + 36


def picture(root: Path, gpu: str, topic: Topic) -> str:
    """Rungs from the first down to the top one, against time (logarithmic), with the floor; a panel a case."""
    found = measured(root / "evidence" / gpu / f"{SUITE}.jsonl")
    drawn = Picture(f"The times of the rungs of {topic.name}, on an {gpu.upper()}, beside the floor")
    top = 6.0
    for case in topic.cases:
        if case in found and found[case].all:
            top = _panel(drawn, top, topic, case, found[case])
    if top < 10:
        drawn.text((8, 24), f"{topic.name}: not measured yet", color=FAINT)
    return drawn.render()


def files(root: Path, gpu: str) -> dict[Path, str]:
    """All that is rendered, by where it belongs."""
    learn = root / "docs" / "learn"
    made = {learn / picture_name(topic.name): picture(root, gpu, topic) for topic in topics(root)}
    return made | {learn / "climbs.md": page(root, gpu)}
