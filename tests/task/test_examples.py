"""The tasks of examples/tasks: whole, locked, within the rules, and without a line of others' code."""

from __future__ import annotations

from pathlib import Path

import pytest
from weft.task import fingerprint, finish, hygiene, lock, record, report, rules, source
from weft.task.outcome import Outcome
from weft.task.spec import load

ROOT = Path(__file__).resolve().parents[2]
TASKS = sorted(path.parent for path in (ROOT / "examples" / "tasks").glob("*/task.toml"))


def test_there_are_three() -> None:
    assert len(TASKS) >= 3


@pytest.mark.parametrize("folder", TASKS, ids=lambda folder: folder.name)
class TestExample:
    def test_it_is_locked_and_keeps_the_rules(self, folder: Path) -> None:
        task, outcome = load(folder), Outcome("check")
        assert lock.current(task) == lock.read(task)["lock"]
        for side in task.candidates.values():
            rules.inspect(task, side, outcome)
        assert outcome.refused == [] or all("fast math" in what for what in outcome.refused), outcome.refused

    def test_copies_are_whole_or_not_here(self, folder: Path) -> None:
        task = load(folder)
        assert all("is missing" in what for what in source.edited(task))
        assert (folder / source.PAGE).read_text() == source.render(task)

    def test_others_code_is_not_committed(self, folder: Path) -> None:
        task = load(folder)
        tracked = set(hygiene.tracked(task))
        if source.read(task)["kind"] == "wheel":
            assert not tracked & {f"baseline/{entry['path']}" for entry in fingerprint.copies(task)}
        assert [what for name in sorted(tracked) if (what := hygiene.problem(task, name))] == []

    def test_its_results_are_what_the_rows_say(self, folder: Path) -> None:
        task = load(folder)
        if not task.evidence.exists():
            pytest.skip("it was not measured yet")
        side = task.candidate()
        assert record.verified(task, side) and report.stale(task, side) == ""
        assert [(what, wrong) for what, wrong in finish.bar(task, side) if wrong] == []
