"""docs/results.md of a task, whole: rendered from rows that nobody measured."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from plotly.offline import get_plotlyjs
from weft.report.pack import Row
from weft.task import report
from weft.task.outcome import Outcome, Refusal
from weft.task.spec import Task

from tests.task.test_texts import BASELINE, row, task

__all__ = ["task"]  # a fixture
EXPECTED = Path(__file__).with_name("expected")
STAMP = {"lock": "l1", "candidate": "one", "sources": {"baseline": "b1", "one": "s1"}}
ENVIRONMENT = {
    "env": "e1", "gpu": "NVIDIA H200", "driver": "580.1", "cuda": "13.0", "libraries": {"weft": "0.1", "torch": "2.11"},
    "date": "2026-01-02T03:04:05Z", "flags": "baseline: -O3; one: -O2", "command": "weft task bench mod",
}  # fmt: skip


def of_run(run: str, us: dict[str, float | None], **stamp: Any) -> list[Row]:
    rows = []
    for workload, ours in us.items():
        given = {**STAMP, **stamp, "run": run}
        rows += [
            row(workload, "baseline", BASELINE, 8.0, **given),
            row(workload, "weft", "one (python)", ours, **given),
            row(workload, "weft", "one (python)", 3.0, cache="hot", **given),
            row(workload, "baseline", BASELINE, 6.0, cache="hot", **given),
        ]
    return rows


@pytest.fixture
def recorded(task: Task, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the task's evidence holds, for a test to change."""
    now = of_run("r3", {"a": 4.0, "b": 8.1, "c": None})
    now += [
        row("a", "noise", BASELINE, 8.4, **STAMP, run="r3"),
        row("b", "weft", "one (python)", 16.0, time="eager", cache="hot", **STAMP, run="r3"),
        row("b", "baseline", BASELINE, 8.0, time="eager", cache="hot", floor_us=0, **STAMP, run="r3"),
    ]
    held: dict[str, Any] = {
        "rows": [
            *of_run("r1", {"a": 10.0}, lock="l0"),
            *of_run("r2", {"a": 5.0}, sources={"baseline": "b1", "one": "s0"}),
            *now,
        ],
        "latest": now,
        "verified": {"rows": {"baseline": 6, "one": 6}},
        "kinds": {
            "state": [
                {"kind": "state", "of_run": "r3", "lock": "l1", "when": "before", "load": 0.5},
                {"kind": "state", "of_run": "r2", "lock": "l1", "when": "before", "load": 9.5},
            ],
            "dispatch": [{"choices": [1]}, {"choices": [2]}],
        },
        "ideas": [
            {
                "date": "2026-01-01T",
                "idea": "wider loads",
                "status": "kept",
                "because": "faster",
                "run": "r2",
            },
            {"date": "2026-01-02T", "idea": "a ring", "status": "open", "because": "", "run": ""},
        ],
        "chain": [],
    }
    made: Any = report.record  # type: ignore[attr-defined]
    monkeypatch.setattr(made, "stamp", lambda task, side: STAMP)
    monkeypatch.setattr(made, "rows", lambda task: [ENVIRONMENT, ENVIRONMENT | {"env": "e0"}, *held["rows"]])
    monkeypatch.setattr(
        made, "measured", lambda task, side, anywhere=False: held["rows" if anywhere else "latest"]
    )
    monkeypatch.setattr(made, "latest", lambda task, side: held["latest"])
    monkeypatch.setattr(made, "verified", lambda task, side: held["verified"])
    monkeypatch.setattr(made, "of_kind", lambda task, kind: held["kinds"].get(kind, []))
    monkeypatch.setattr("weft.task.report.journal.read", lambda task: held["ideas"])
    monkeypatch.setattr("weft.task.report.source.read", lambda task: {})
    monkeypatch.setattr("weft.task.report.source.title", lambda found: "ops.py of upstream")
    monkeypatch.setattr(report, "latest", lambda task, side: held["chain"])
    return held


def test_the_page_of_results(task: Task, recorded: dict[str, Any]) -> None:
    expected = EXPECTED / "results.md"
    text = report.render(task, task.candidates["one"])
    if os.environ.get("WEFT_RECORD_PAGES"):
        expected.write_text(text)
    assert text == expected.read_text()


def test_what_a_page_has_where_there_is_more_or_less(task: Task, recorded: dict[str, Any]) -> None:
    side = task.candidates["one"]
    task.raw["task"]["about"] = "What it is about."
    recorded["verified"] = None
    recorded["ideas"] = []
    recorded["chain"] = [row("a", "weft", "eager, candidate", 2.0)]
    text = report.render(task, side)
    assert "\n\nWhat it is about.\n\n- candidate: one (python)" in text
    assert "- verified: not now, two poisons each" in text and "## Ideas" not in text
    assert (
        "\n## In a chain\n\n-  a                            eager    candidate 2.00 us\n\n## Attempts" in text
    )
    (task.folder / "docs").mkdir()
    (task.folder / "docs" / "no_go.md").touch()
    assert "\n**No go**: geometric mean 1.405x over 2 rows" in report.render(task, side)
    recorded["latest"] = [at for at in recorded["latest"] if at["side"] != "noise"]
    assert "- the baseline against itself: not measured\n" in report.render(task, side)
    recorded["latest"] = []
    with pytest.raises(
        Refusal, match=r"^there are no times of one under this lock: `weft task bench` first$"
    ):
        report.render(task, side)


def test_an_attempt_without_a_right_result(task: Task, recorded: dict[str, Any]) -> None:
    recorded["rows"] += of_run("r4", {"a": None})
    (*_, last) = report.attempts(task, task.candidates["one"])
    assert (last["mean"], last["worst"], last["rows"]) == (None, None, 0)
    text = report.render(task, task.candidates["one"])
    assert "| `r4` | 2026-01-02T03:04 | current | 0 | - | - | out[0]: got 1 |" in text


def test_attempts(task: Task, recorded: dict[str, Any]) -> None:
    found = report.attempts(task, task.candidates["one"])
    assert [(a["run"], a["of"], a["rows"], a["lock"], a["sources"]) for a in found] == [
        ("r1", "another lock", 1, "l0", "s1"),
        ("r2", "other sources", 1, "l1", "s0"),
        ("r3", "current", 2, "l1", "s1"),
    ]
    assert [(a["mean"], a["worst"]) for a in found[:2]] == [
        (pytest.approx(0.8), 0.8),
        (pytest.approx(1.6), 1.6),
    ]
    assert found[2]["refused"] == ["out[0]: got 1"] and found[0]["refused"] == []
    assert {a["date"] for a in found} == {"2026-01-02T03:04:05Z"}


def test_a_page_is_stale_or_not(task: Task, recorded: dict[str, Any]) -> None:
    side = task.candidates["one"]
    assert report.stale(task, side) == "there is no docs/results.md: `weft task report`"
    (task.folder / "docs").mkdir()
    page = task.folder / "docs" / "results.md"
    page.write_text(report.render(task, side))
    assert report.stale(task, side) == ""
    page.write_text(page.read_text() + " ")
    assert report.stale(task, side) == "docs/results.md is not what the rows say: `weft task report`"
    recorded["latest"] = []
    assert report.stale(task, side).startswith("there are no times of one")


def test_the_command_and_the_page_with_pictures(task: Task, recorded: dict[str, Any], tmp_path: Path) -> None:
    del task.candidates["two"]
    (task.folder / "docs").mkdir()
    outcome = Outcome("report")
    report.report(task, outcome, None)
    assert outcome.checked == ["docs/results.md is rendered from 15 rows"]
    assert outcome.notes == [
        "geometric mean 1.405x over 2 rows, worst 0.988x (b); 1 wins, 0 loses, 1 level",
        "task.toml has buckets, but nothing was dispatched yet",
    ]
    (task.folder / "docs" / "dispatch.md").touch()
    shown = Outcome("report")
    report.report(task, shown, tmp_path / "page.html")
    assert (
        shown.checked[1:] == [f"{tmp_path / 'page.html'} shows rows and attempts"] and len(shown.notes) == 1
    )
    page = (tmp_path / "page.html").read_text()
    data = json.loads(
        page[page.index('{"name": ') :].splitlines()[0].rstrip(";").replace("<\\/script", "</script")
    )
    assert data["name"] == "mod" and data["headline"] == shown.notes[0] and data["dispatch"] == [[2]]
    assert (
        data["attempts"] == report.attempts(task, task.candidates["one"])
        and data["ideas"] == recorded["ideas"]
    )
    assert [(at["row"], at["ratio"], at["floor"], at["verdict"]) for at in data["rows"]] == [
        ("a", 2.0, 1.0, "wins"),
        ("b", pytest.approx(8 / 8.1), 1.0, "level"),
        ("c", None, 0, ""),
    ]
    assert data["rows"][0]["candidate"]["median"] == 4.0
    assert data["rows"][2]["candidate"] is None and data["rows"][0]["baseline"]["median"] == 8.0
    assert get_plotlyjs()[:200] in page and "/*PLOTLY*/" not in page
