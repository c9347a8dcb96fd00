"""./weft test: which suites run beside which, and what is left out where the time is up."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from testing import deadline, schedule, suites
from testing.deadline import Deadline
from testing.results import Results
from testing.suite import Count, Suite


def scheduled(
    *given: Suite, cores: int = 2, failing: str = "", end: Deadline | None = None
) -> tuple[list[str], int, int]:
    """The order in which they ended, the most at a time, the most wide ones at a time.

    A name with ! is of a suite that needs a failed one, with ? of one that there was no time for.
    """
    lock, running, most, widest = threading.Lock(), set[str](), 0, 0
    wide = {suite.name for suite in given if suite.wide}

    def run(suite: Suite) -> schedule.Done:
        nonlocal most, widest
        with lock:
            running.add(suite.name)
            most, widest = max(most, len(running)), max(widest, len(running & wide))
        threading.Event().wait(0.02)
        with lock:
            running.remove(suite.name)
        return schedule.Done(suite, Count(failed=1) if suite.name == failing else Count(passed=1))

    ended: list[str] = []
    schedule.run_all(
        given,
        cores,
        run,
        lambda done: ended.append(done.suite.name + "!" * bool(done.left_out) + "?" * (not done.begun)),
        deadline=end,
    )
    return ended, most, widest


def named(name: str, *needs: str, wide: bool = False, optional: bool = False) -> Suite:
    return Suite(name, name, lambda log, parts: {}, needs=needs, wide=wide, optional=optional)


def test_suites_run_side_by_side_and_wait_for_what_they_need() -> None:
    given = (
        named("build", wide=True),
        named("unit", "build", wide=True),
        named("asan", wide=True),
        named("lint"),
    )
    ended, most, widest = scheduled(*given)
    assert sorted(ended) == ["asan", "build", "lint", "unit"]
    assert ended.index("build") < ended.index("unit")
    assert (most, widest) == (2, 1)


def test_what_needs_a_failed_suite_is_not_run() -> None:
    given = (named("build"), named("unit", "build"), named("after", "unit"), named("lint"))
    ended, _, _ = scheduled(*given, failing="build")
    assert sorted(ended) == ["after!", "build", "lint", "unit!"]


def test_behind_the_deadline_begins_what_must_run_alone() -> None:
    given = (
        named("build", optional=True),
        named("asan", "build", optional=True),
        named("unit"),
        named("late", "asan"),
    )
    assert sorted(scheduled(*given, end=Deadline())[0]) == ["asan", "build", "late", "unit"]
    assert sorted(scheduled(*given, end=Deadline(-1))[0]) == ["asan?", "build?", "late", "unit"]


def test_what_needs_a_suite_without_time_has_none_either() -> None:
    first = Suite("build", "", lambda log, parts: {}, optional=True)
    ends = iter((True, False, False))
    end = SimpleNamespace(passed=lambda: next(ends, False))
    ended: list[schedule.Done] = []
    schedule.run_all(
        (first, named("asan", "build", optional=True)),
        1,
        lambda suite: schedule.Done(suite, Count(passed=1)),
        ended.append,
        deadline=end,  # type: ignore[arg-type]
    )
    assert [(done.suite.name, done.begun, done.passed) for done in ended] == [
        ("build", False, True),
        ("asan", False, True),
    ]


def test_a_suite_takes_half_of_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now))
    end = Deadline(60)
    assert (end.halfway(), end.passed()) == (130, False)
    now = 140
    assert end.halfway() == 150
    now = 170
    assert (end.halfway(), end.passed()) == (170, True)
    assert Deadline().halfway() == float("inf")
    assert not Deadline().passed()


def test_parts_begin_until_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now, names = 0.0, [f"part{i}" for i in range(20)]
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(deadline, "CORES", 1)

    def run(name: str) -> str:
        nonlocal now
        now += 1
        return f"{name} ran"

    found = list(deadline.each(run, names, until=5))
    assert sorted(name for name, _ in found) == sorted(names)
    assert [said for _, said in found] == [f"{name} ran" for name, _ in found[:5]] + [None] * 15
    orders = {tuple(name for name, _ in deadline.each(str, names, until=100)) for _ in range(5)}
    assert len(orders) > 1, "another run leaves others out"


def test_parts_without_time_are_counted_and_not_kept(tmp_path: Path) -> None:
    outcomes: dict[str, Count | None] = {"a": Count(passed=1), "b": None}
    suite = Suite("s", "s", lambda log, parts: outcomes, lambda: {"a": "1", "b": "2"})
    done = schedule.run_suite(suite, Results(tmp_path), tmp_path / "log")
    assert (done.count, done.late, done.parts, done.passed) == (Count(passed=1), 1, 2, True)
    outcomes = {"b": Count(passed=3)}
    done = schedule.run_suite(suite, Results(tmp_path), tmp_path / "log")
    assert (done.count, done.late, done.kept) == (Count(passed=4), 0, 1)


def test_the_plain_suites_are_never_left_out() -> None:
    optional = {suite.name for suite in suites.suites(thorough=False, deadline=Deadline()) if suite.optional}
    assert optional == {
        *("build-asan", "asan", "build-tsan", "tsan", "mutations", "tidy", "coverage", "mutants")
    }
