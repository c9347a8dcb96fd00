"""What is told of a candidate's bound: roofs, counters and the page of both, word by word."""

from __future__ import annotations

from typing import Any

import pytest
from weft.report.pack import Row
from weft.task import profile
from weft.task.spec import Task

from tests.task.test_texts import row, task

__all__ = ["task"]  # a fixture


def roof_rows() -> list[Row]:
    card = [
        row("a", "baseline", "card copy", 3.0),
        row("a", "baseline", "card read", 2.0),
        row("a", "baseline", "card launch", 0.5),
    ]
    return [row("a", "weft", "one", 8.0, floor_us=2.0), row("a", "baseline", "theirs", 16.0), *card]


def test_roofs() -> None:
    (roof,) = profile.roofline(
        [*roof_rows(), row("a", "weft", "one", 1.0, cache="hot"), row("b", "weft", "one", None)]
    )
    assert roof == {
        "workload": "a", "bytes": 4e6, "flops": 8e6, "us": 8.0, "baseline_us": 16.0, "floor_us": 2.0, "share": 0.25,
        "tbps": 0.5, "tflops": 1.0, "card_us": 2.0, "card_tbps": 2.0, "bound": "memory",
    }  # fmt: skip
    (bare,) = profile.roofline([row("a", "weft", "one", 8.0, floor_us=0)])
    assert bare["share"] is bare["card_us"] is bare["card_tbps"] is bare["baseline_us"] is None
    assert profile.roof_text(roof) == (
        "a: 8.00 us, 0.50 TB/s, 25 % of the floor of 2.00 us, bound by memory; the card's own copy or read 2.00 TB/s"
    )
    assert profile.roof_text(bare) == "a: 8.00 us, 0.50 TB/s, no floor, bound by not known"


@pytest.mark.parametrize(
    ("floor", "moved", "launch", "bound"),
    [
        (0, 1, 1, "not known"), (-1, 1, 1, "not known"), (1.3, 1, 1, "launch"), (1.31, 1, 1, "memory"),
        (1.3, 1, 0, "memory"), (1.5, 1, 1, "memory"), (1.51, 1, 1, "arithmetic"), (9, 0, 1, "memory"),
        (0.1, 9, 1, "launch"),
    ],
)  # fmt: skip
def test_bounds(floor: float, moved: float, launch: float, bound: str) -> None:
    assert profile._bound(floor, moved, launch) == bound


COUNTED = """==PROF== noise
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","first<int, 2>|","gpu__time_duration.sum","us","3.5"
"0","first<int, 2>|","launch__registers_per_thread","","32"
"0","first<int, 2>|","somebody's","us","9"
"1","{long}","sm__warps_active.avg.pct_of_peak_sustained_active","%","50"
""".replace("{long}", "k" * 70)


def test_counters() -> None:
    kernels = profile.parse_counters(COUNTED)
    assert kernels == [
        {"kernel": "first<int, 2>|", "time": "3.5 us", "registers a thread": "32"},
        {"kernel": "k" * 60, "occupancy, %": "50 %"},
    ]
    assert profile.parse_counters("==ERROR== none") == []


def test_the_page_of_a_profile(task: Task) -> None:
    roofs = profile.roofline([*roof_rows(), row("b", "weft", "one", 8.0, floor_us=0)])
    entry: dict[str, Any] = {"roofline": roofs, "counters": {"workload": "a", "kernels": []}}
    head = """\
# What bounds one of mod

Rendered by `weft task profile`.

| row | us | floor us | share | TB/s | the card's TB/s | TFLOP/s | bound |
|---|---:|---:|---:|---:|---:|---:|---|
| a | 8.00 | 2.00 | 25 % | 0.50 | 2.00 | 1.00 | memory |
| b | 8.00 | 0.00 | - | 0.50 | - | 1.00 | not known |
"""
    assert profile.render(task, task.candidates["one"], entry) == head
    entry["counters"]["kernels"] = profile.parse_counters(COUNTED)
    assert profile.render(task, task.candidates["one"], entry) == head + (
        "\nNsight Compute, one warm call of row a:\n\n| kernel | time | occupancy, % | registers a thread |\n"
        f"|---|---:|---:|---:|\n| `first<int, 2> ` | 3.5 us | - | 32 |\n| `{'k' * 60}` | - | 50 % | - |\n"
    )
