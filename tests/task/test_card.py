"""The card before, during and after a measurement, as a made-up nvidia-smi tells of it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from weft.task import card
from weft.task.outcome import Absent, Outcome, Refusal
from weft.task.spec import Task


def task_on(device: str, **rules: Any) -> Task:
    return Task(Path(), {"task": {"name": "t", "device": device}, "card": rules})


class Smi:
    """Says what the card does; each question is kept."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.state, self.apps, self.code = "17, 3, 1980, 41, 77.5", "", 0
        self.asked = folder / "asked"
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        self.say()

    def say(self, **changes: Any) -> None:
        vars(self).update(changes)
        for name in ("state", "apps"):
            (self.folder / name).write_text(getattr(self, name) + "\n")
        tool = self.folder / "nvidia-smi"
        answer = f'case "$2" in *apps*) cat {self.folder}/apps;; *) cat {self.folder}/state;; esac'
        tool.write_text(f'#!/bin/sh\necho "$@" >> {self.asked}\n{answer}\nexit {self.code}\n')
        tool.chmod(0o755)


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return Smi(tmp_path, monkeypatch)


def test_what_a_card_is_asked(smi: Smi, monkeypatch: pytest.MonkeyPatch) -> None:
    smi.say(apps="12, python, 300\n\n13, [N/A]")
    found = card.state(task_on("cuda"))
    assert found == {
        "memory_mib": 17.0, "utilization": 3.0, "sm_mhz": 1980.0, "temperature": 41.0, "watts": 77.5,
        "processes": [{"pid": "12", "name": "python", "mib": 300.0}, {"pid": "13", "name": "[N/A]", "mib": None}],
    }  # fmt: skip
    assert smi.asked.read_text().splitlines() == [
        "--id=0 --query-gpu=memory.used,utilization.gpu,clocks.sm,temperature.gpu,power.draw "
        "--format=csv,noheader,nounits",
        "--id=0 --query-compute-apps=pid,process_name,used_memory --format=csv,noheader,nounits",
    ]
    smi.say(state="[N/A], 1, 2, 3, 4", apps="14")
    assert card.state(task_on("cuda"))["memory_mib"] is None
    assert card.state(task_on("cuda"))["processes"] == [{"pid": "14", "name": "", "mib": 14.0}]
    for visible, index in (("3,1", "3"), ("", "0"), ("2", "2")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        card.state(task_on("cuda"))
        assert smi.asked.read_text().splitlines()[-1].startswith(f"--id={index} ")


def test_what_is_said_without_a_card(smi: Smi, monkeypatch: pytest.MonkeyPatch) -> None:
    smi.say(code=9, state="no devices were found")
    with pytest.raises(Absent, match=r"^nvidia-smi: no devices were found$"):
        card.state(task_on("cuda"))
    monkeypatch.setattr("weft.task.card.shutil.which", lambda _: None)
    with pytest.raises(Absent, match=r"^there is no nvidia-smi here: nobody can say whether a card is idle$"):
        card.state(task_on("cuda"))
    found = card.state(task_on("cpu"))
    assert found.keys() == {"device", "load", "cores"} and found["device"] == "cpu"
    assert found["cores"] == os.cpu_count() and 0 <= found["load"] == round(found["load"], 2)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"processes": [], "memory_mib": 100.0}, ""),
        ({"memory_mib": None}, ""),
        ({"memory_mib": 100.4}, "100 MiB of its memory are taken, an idle card has at most 100"),
        ({"processes": [{"pid": "7", "name": "x"}], "memory_mib": 0}, "process 7 (x) is on it"),
        ({"processes": [{"pid": "7", "name": "x"}] * 3}, "process 7 (x) is on it and 2 more"),
    ],
)
def test_what_is_busy(found: dict[str, Any], why: str) -> None:
    assert card.busy(found, 100) == why


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody sleeps; how long it would have been is kept."""
    slept: list[float] = []
    monkeypatch.setattr(card, "time", SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append))
    return slept


def test_a_busy_card_is_waited_for(smi: Smi, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = Outcome("bench")
    assert card.wait_idle(task_on("cuda"), outcome)["memory_mib"] == 17
    assert outcome.checked == ["the card is idle"] and clock == []
    smi.say(state="1025, 0, 0, 0, 0")
    said = "1025 MiB of its memory are taken, an idle card has at most 1024"
    for rules, wait, seconds in (
        ({}, None, 120),
        ({"wait_s": 7}, None, 7),
        ({"wait_s": 7}, 3.0, 3),
        ({}, 0.0, 0),
    ):
        clock.clear()
        with pytest.raises(Refusal) as raised:
            card.wait_idle(task_on("cuda", **rules), Outcome("bench"), wait)
        assert str(raised.value) == f"the card is busy after {seconds} s of waiting: {said}"
        assert sum(clock) >= seconds and sum(clock) < seconds + 2.1 and set(clock) <= {2.0}
    assert card.wait_idle(task_on("cuda", memory_mib=1025), Outcome("bench"))["memory_mib"] == 1025
    states = itertools.chain([{"memory_mib": 2000.0}] * 2, itertools.repeat({"memory_mib": 1.0}))
    monkeypatch.setattr(card, "state", lambda task: next(states))
    clock.clear()
    card.wait_idle(task_on("cuda"), Outcome("bench"))
    assert clock == [2.0, 2.0]
    idle = Outcome("bench")
    monkeypatch.setattr(card, "state", lambda task: {"load": 99.0, "memory_mib": 1e9})
    card.wait_idle(task_on("cpu"), idle, 0)
    assert idle.checked == ["the CPU's load is 99.0"]


def test_strangers_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours is what is there at first; each stranger counts once."""

    def process(pid: str) -> dict[str, Any]:
        return {"pid": pid, "name": f"of {pid}", "mib": 1.0}

    seen = iter([
        {"processes": [process("1")], "memory_mib": 5.0},
        {"processes": [process("1"), process("2")], "memory_mib": 9.0},
        None,
        {"processes": [process("2"), process("3")], "memory_mib": None},
    ])  # fmt: skip

    def state(task: Task) -> dict[str, Any]:
        found = next(seen, {"processes": [], "memory_mib": 1.0})
        if found is None:
            raise Absent("away for a moment")
        return found

    monkeypatch.setattr(card, "state", state)
    monkeypatch.setattr(card, "_POLL_S", 0.01)
    with card.Watch(task_on("cuda")) as watch:
        while watch.samples < 4:
            pass
    assert not watch._thread.is_alive()
    row = watch.row()
    assert row["strangers"] == [process("2"), process("3")] and row["highest_mib"] == 9.0
    assert row["samples"] == watch.samples >= 4 and row.keys() == {"samples", "highest_mib", "strangers"}
    monkeypatch.setattr(card, "state", lambda task: {"device": "cpu"})
    with card.Watch(task_on("cpu")) as nothing:
        assert not nothing._thread.is_alive()
    assert nothing.row() == {"device": "cpu"}
