"""What small parts of a task say and keep: the gate, the journal, allocations, the lock's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from weft.task import check, journal, lock, rules, verify
from weft.task.gate import Gate
from weft.task.outcome import Outcome, Refusal
from weft.task.spec import Task

from tests.task.test_rule_texts import one, task_of


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return task_of(tmp_path)


def failing(*_: object) -> torch.Tensor:
    raise KeyError("k")


@pytest.mark.parametrize(
    ("candidate", "given", "words", "why"),
    [
        (lambda x: x * 2, {}, "float32[2, 3]", ""),
        (lambda x: x + 2, {}, "float32[2, 3]", "result 0 has other bits"),
        (lambda x: x * 2.5, {"atol": 0.25}, "float32[2, 3]", "result 0 differs by up to 0.5"),
        (lambda x: x * 2.5, {"rtol": 0.25}, "float32[2, 3]", ""),
        (lambda x: x * 2.5, {"atol": 0.5}, "float32[2, 3]", ""),
        (failing, {}, "float32[2, 3]", "it failed: KeyError: 'k'"),
    ],
)
def test_what_a_gate_says(candidate, given, words, why) -> None:
    gate = Gate(candidate, lambda x: x * 2, **given)
    assert torch.equal(gate(torch.ones(2, 3)), torch.full((2, 3), 2.0))
    assert dict(gate.report()) == {words: why}


def test_a_gate_compares_every_result_and_every_input() -> None:
    def theirs(x, y, n):
        return x, (y if n == 1 else -y)

    gate = Gate(lambda x, y, n: [x, y], theirs)
    for n in (1, 2):
        gate(torch.ones(2), torch.ones(3, dtype=torch.int32), n)
    assert list(gate.seen.values()) == ["", "result 1 has other bits"]
    assert list(gate.report()) == ["float32[2] int32[3]"], "numbers are not told"
    shifted = torch.ones(5)[1:3]
    gate(shifted, torch.ones(3, dtype=torch.int32), 1)
    gate(torch.ones(2, 2)[:, 0], torch.ones(3, dtype=torch.int32), 1)
    assert len(gate.seen) == 4, "another alignment, other strides"


def test_the_journal_is_told_and_kept(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "weft.task.journal.record.rows", lambda task: [{"run": "r1"}, {"env": "e"}, {"run": "r2"}]
    )
    words = {"status": "open", "because": "", "run": ""}
    for idea, given, kept in (
        ("wider loads", {}, ""),
        ("a ring", {"status": "kept", "because": "faster", "run": "last"}, "r2"),
        ("fewer", {"status": "rejected", "because": "slower", "run": "r1"}, "r1"),
    ):
        outcome = Outcome("log")
        journal.log(task, outcome, idea, **words | given)
        assert outcome.checked == [f"the idea is on record as {given.get('status', 'open')}"]
        assert journal.read(task)[-1]["run"] == kept and journal.read(task)[-1]["idea"] == idea
    outcome = Outcome("log")
    journal.log(task, outcome, "", **words)
    assert outcome.checked == ["3 ideas are on record"] and len(journal.read(task)) == 3
    date = journal.read(task)[0]["date"][:10]
    assert outcome.notes == [
        f"{date} open     wider loads: ",
        f"{date} kept     a ring: faster [run r2]",
        f"{date} rejected fewer: slower [run r1]",
    ]
    for given, said in (
        ({"status": "kept"}, "an idea that is kept has a reason: --because WHY"),
        (
            {"status": "kept", "because": "x"},
            "an idea that is kept names the rows that say so: --run ID (or --run last)",
        ),
        ({"run": "r9"}, "the evidence has no run r9"),
    ):
        with pytest.raises(Refusal) as raised:
            journal.log(task, Outcome("log"), "another", **words | given)
        assert str(raised.value) == said
    assert len(journal.read(task)) == 3


def test_new_memory_is_seen_wherever_it_is_given() -> None:
    x = torch.ones(4)
    with verify._Allocations([x]) as counted:
        x.view(2, 2), x.chunk(2), x.add_(1)
    assert counted.made == []
    for call in (lambda: x + 1, lambda: torch._foreach_add([x], 1), lambda: torch.aminmax(x)):
        with verify._Allocations([x]) as counted:
            kept = call()
        assert counted.made and kept is not None
    with verify._Allocations([x]) as counted:
        y = x + 1
        y.add_(1)
    assert counted.made == ["aten.add.Tensor"], "it is new once"


WORDS = "empty zeros ones full rand randn arange tensor cat stack empty_like zeros_like ones_like full_like"
MORE = "empty_strided new_empty new_zeros new_full new_tensor clone contiguous copy array asarray tolist"
ALLOCATE = f"{WORDS} {MORE}".split()


@pytest.mark.parametrize("word", ALLOCATE)
def test_words_that_allocate(tmp_path: Path, word: str) -> None:
    task = task_of(tmp_path, solution=f"def run(x, out):\n    a.{word}(x)\n")
    assert rules.allocations(task, one(task)) == [f"solution/kernel.py:2: a.{word}"]
    other = task_of(tmp_path, solution=f"def run(x, out):\n    {word}(x)\n    a.{word}_(x)\n")
    assert rules.allocations(other, one(other)) == []


def test_files_are_written_where_no_folder_is(tmp_path: Path) -> None:
    entry = "def run(x, out):\n    out.copy_(x)\n"
    task = task_of(tmp_path, solution=entry, entry=entry)
    check.check(task, Outcome("check"), compile_sources=False)
    assert (task.folder / rules.PAGE).read_text() == rules.render(task)
    lock.lock(task, Outcome("lock"), "")
    text = (task.folder / lock.FILE).read_text()
    assert text == json.dumps(lock.read(task), indent=1) + "\n"
