"""Drawings of layouts, from the rows that `weft ladder --layout` prints: what the kernels' own code does."""

from __future__ import annotations

import csv
import subprocess
from collections import Counter
from pathlib import Path

from weft.report.svg import COLORS, FAINT, PAPER, Picture

Row = dict[str, str]
PALE, EDGE = "#eef1f4", "#d5dae0"


def rows_of(tool: Path, layout: str) -> list[Row]:
    done = subprocess.run([tool, "ladder", "--layout", layout], capture_output=True, text=True, check=True)
    return list(csv.DictReader(done.stdout.splitlines()))


def turns(rows: list[Row]) -> int:
    """How often the banks are asked when a column of chunks is read at once: once, where no two share a bank."""
    return max(
        max(Counter(row["bank"] for row in rows if row["chunk"] == chunk).values())
        for chunk in {row["chunk"] for row in rows}
    )


def swizzle(rows: list[Row]) -> str:
    """Memory as the banks see it, a line of 32 banks under another; of one column of a tile, where its chunks are."""
    chosen, cell, gap = "2", 19, 14
    picture = Picture("Where the chunks of a column lie in shared memory: plain, padded, swizzled")
    kinds = list(dict.fromkeys(row["tile"] for row in rows))
    for number, kind in enumerate(kinds):
        left, top = 8 + number * (8 * cell + gap), 44
        of_kind = [row for row in rows if row["tile"] == kind]
        picture.text((left, 18), kind, 13, bold=True)
        picture.text((left, 36), "banks 0 to 31", 10, color=FAINT)
        lines = max(int(row["byte"]) for row in of_kind) // 128 + 1
        for line in range(lines):
            for place in range(8):
                picture.box((left + place * cell, top + line * cell), (cell, cell), PAPER, EDGE)
        for row in of_kind:
            x, y = left + int(row["byte"]) % 128 // 16 * cell, top + int(row["byte"]) // 128 * cell
            mine = row["chunk"] == chosen
            picture.box((x, y), (cell, cell), COLORS[1] if mine else PALE, EDGE)
            if mine:
                picture.text((x + cell / 2, y + 13), row["row"], 11, anchor="middle")
        needed = turns(of_kind)
        bottom = top + 9 * cell + 18
        picture.text((left, bottom), f"8 chunks in {needed} turn{'s' if needed > 1 else ''}", 12)
        held = 16 + max(int(row["byte"]) for row in of_kind)
        picture.text((left, bottom + 16), f"{held} bytes", 11, color=FAINT)
    words = (
        f"A square is a chunk of 16 bytes, four banks wide. Orange: chunk {chosen} of",
        "each of the 8 rows, with the row's number, which ldmatrix reads at once.",
    )
    for number, line_of_words in enumerate(words):
        picture.text((8, 44 + 9 * cell + 54 + 14 * number), line_of_words, 11)
    return picture.render()


def fragments(rows: list[Row]) -> str:
    """A at the left, B above, C where they meet: each element with its lane, in the colour of the lane's register."""
    cell, left, top, gap = 19, 8, 30, 22
    size = {"A": (16, 16), "B": (16, 8), "C": (16, 8)}
    right, below = left + 16 * cell + gap, top + 16 * cell + gap
    corner = {"A": (left, below), "B": (right, top), "C": (right, below)}
    picture = Picture("Which lane of a warp has which element of mma.sync m16n8k16")
    for name, (x, y) in corner.items():
        height, width = size[name]
        picture.text((x, y - 6), f"{name}, {height} by {width}", 12, bold=True)
    for row in rows:
        x, y = corner[row["matrix"]]
        x, y = x + int(row["column"]) * cell, y + int(row["row"]) * cell
        # Two halves share a register; a sum in fp32 has one of its own.
        register = int(row["value"]) // (1 if row["matrix"] == "C" else 2)
        picture.box((x, y), (cell, cell), COLORS[register])
        picture.text((x + cell / 2, y + 13), row["lane"], 10, anchor="middle")
    for number, words in enumerate(
        (
            "A number is a lane, a colour",
            "one of its registers. A lane",
            "holds four registers of A, two",
            "of B, four sums of C.",
        )
    ):
        picture.text((left, top + 14 + 18 * number), words, 13)
    for register in range(4):
        y = top + 100 + 22 * register
        picture.box((left, y), (cell, cell), COLORS[register])
        picture.text((left + cell + 8, y + 14), f"register {register}", 12)
    return picture.render()


def ring(rows: list[Row]) -> str:
    """Stages against time: from when a copy begins to the step that multiplies it."""
    left, top, height, cell = 62, 44, 30, 41
    picture = Picture("A ring of four stages: what is under way and what is multiplied at each step")
    steps = sum(row["what"] == "use" for row in rows)
    stages = 1 + max(int(row["stage"]) for row in rows)
    for step in range(steps):
        picture.text((left + (step + 1.5) * cell, top - 10), str(step), 11, color=FAINT, anchor="middle")
    picture.text((left, top - 10), "start", 11, color=FAINT)
    picture.text((8, 16), "Step that is multiplied, from left to right", 12, bold=True)
    for stage in range(stages):
        picture.text((8, top + stage * height + 20), f"stage {stage}", 12)
    used, began = 0, dict[str, float]()
    for row in rows:
        y = top + int(row["stage"]) * height
        if row["what"] == "bring":
            # The first of them before any step; then one a step, ahead of its products.
            began[row["step"]] = left + (used + 1) * cell if len(began) >= stages - 1 else left
            continue
        x = began[row["step"]]
        now = left + (used + 1) * cell
        if now > x:
            picture.box((x, y + 3), (now - x, height - 6), COLORS[7])
            picture.text(((x + now) / 2, y + 20), row["step"], 11, anchor="middle")
        picture.box((now, y + 3), (cell, height - 6), COLORS[1])
        picture.text((now + cell / 2, y + 20), row["step"], 11, anchor="middle")
        used += 1
    bottom = top + stages * height + 18
    picture.box((left, bottom - 11), (14, 14), COLORS[7])
    picture.text((left + 20, bottom), "its copy is under way", 12)
    picture.box((left + 180, bottom - 11), (14, 14), COLORS[1])
    picture.text((left + 200, bottom), "it is multiplied", 12)
    return picture.render()


DRAWN = {"swizzle": ("banks", swizzle), "fragments": ("fragments", fragments), "ring": ("ring", ring)}


def files(root: Path, tool: Path) -> dict[Path, str]:
    """All drawings, by where they belong."""
    folder = root / "docs" / "learn" / "pictures"
    return {folder / f"{name}.svg": draw(rows_of(tool, layout)) for name, (layout, draw) in DRAWN.items()}
