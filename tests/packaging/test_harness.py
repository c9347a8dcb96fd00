"""What runs the tests does not call a failure anything else: reports that are broken off, programs that die, suites
that raise, faults that nothing found."""

from __future__ import annotations

import csv
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from testing import schedule, suites
from testing.deadline import Deadline
from testing.results import KEPT, Results
from testing.suite import WHOLE, Count, Counts, Suite, read_junit

from tests.emulator import mutate
from tests.paths import ROOT, script


def report_of(path: Path, *cases: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")


PASSED = '<testcase name="a" status="run" result="completed"/>'
FAILED = '<testcase name="b" status="run"><failure message="x"/></testcase>'
BROKEN = '<testcase name="c"><error message="a fixture that raises"/></testcase>'
SKIPPED = '<testcase name="d" status="run" result="skipped"><skipped/></testcase>'
DISABLED = '<testcase name="e" status="notrun"/>'


def test_a_report_s_counts(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    report_of(path, PASSED, PASSED, FAILED, BROKEN, SKIPPED, DISABLED)
    assert read_junit(path) == Count(passed=2, failed=2, skipped=1)
    path.write_text(path.read_text()[:-20])
    assert read_junit(path) is None
    assert read_junit(tmp_path / "none.xml") is None


@pytest.mark.parametrize(
    ("status", "cases", "counted"),
    [
        (0, (PASSED, PASSED), Count(passed=2)),
        (1, (PASSED, FAILED), Count(passed=1, failed=1)),
        (2, (PASSED,), Count(failed=1)),  # a file that cannot be imported fails no test
        (-11, (), Count(failed=1)),  # it died before it wrote a report
        (5, (), Count()),  # nothing was collected
    ],
)
def test_pytest_s_status_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, cases: Sequence[str], counted: Count
) -> None:
    monkeypatch.setattr(suites, "BUILD", tmp_path)

    def call(command: Sequence[str], *_: object) -> int:
        if cases:
            report_of(Path(command[-1].removeprefix("--junitxml=")), *cases)
        return status

    monkeypatch.setattr(suites, "call", call)
    assert suites.run_pytest(tmp_path / "log", ["tests/x"], "x") == counted


def test_every_python_test_is_in_a_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run_pytest(_log: Path, paths: Sequence[str], name: str) -> Count:
        ran.extend(paths)
        return Count()

    monkeypatch.setattr(suites, "run_pytest", run_pytest)
    monkeypatch.setattr(suites, "call", lambda *_: 0)
    for suite in suites.suites(thorough=False, deadline=Deadline()):
        if suite.name.startswith("pytest-") or suite.name == "wheel":
            suite.run(tmp_path / "log", [WHOLE])
    found = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    assert sorted(ran) == found


class CTest:
    """Entries that end as the test says: a script each, with a status and a report of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "release"
        (self.folder / "results").mkdir(parents=True)
        self.entries: dict[str, suites.Entry] = {}
        monkeypatch.setattr(suites, "BUILD", folder)
        monkeypatch.setattr(suites, "ctest_entries", lambda preset: self.entries)

    def ends(self, name: str, status: int, *cases: str, takes: float = 0) -> None:
        """The entry of this name; without cases it writes no report."""
        report = self.folder / "results" / f"{name}.xml"
        program = f"""
import os, sys, time
print("what {name} printed, in", os.getcwd(), "for", os.environ["OF"], flush=True)
if {bool(cases)}:
    os.makedirs({str(report.parent)!r}, exist_ok=True)
    open({str(report)!r}, "w").write({f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"!r})
time.sleep({takes})
sys.exit({status})
"""
        self.entries[name] = suites.Entry((sys.executable, "-c", program), {"OF": "a test"}, 20)

    def __call__(self, *parts: str, deadline: Deadline | None = None) -> Counts:
        return suites.ctest("release", deadline)(self.folder / "log", parts)


def test_ctest_s_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctest = CTest(tmp_path, monkeypatch)
    ctest.ends("core", 0, PASSED, PASSED)
    ctest.ends("ops.rope", 1, PASSED, FAILED)
    ctest.ends("ops.amax", 1, PASSED)  # it died behind its last test
    ctest.ends("ops.copy", 1)  # it died in a test
    ctest.ends("kit", 0)  # it ended with 0 in a test
    ctest.entries["io"] = suites.Entry()  # it is not built
    assert ctest(*ctest.entries, "gone") == {
        "core": Count(passed=2),
        "ops.rope": Count(passed=1, failed=1),
        "ops.amax": Count(failed=1),
        "ops.copy": Count(failed=1),
        "kit": Count(failed=1),
        "io": Count(failed=1),
        "gone": Count(failed=1),
    }
    log = (tmp_path / "release" / "log").read_text().splitlines()
    said = [
        f"what {name} printed, in {ROOT} for a test" for name in ("ops.rope", "ops.amax", "ops.copy", "kit")
    ]
    assert sorted(log[-6:]) == sorted([*said, "io: not built", "gone: not built"])


def test_an_entry_that_takes_too_long_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctest = CTest(tmp_path, monkeypatch)
    ctest.ends("core", 0, PASSED, takes=60)
    ctest.entries["core"] = replace(ctest.entries["core"], seconds=1)
    assert ctest("core") == {"core": Count(failed=1)}
    assert (tmp_path / "release" / "log").read_text().endswith("stopped after 1 s\n")


def test_a_report_of_an_earlier_run_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctest = CTest(tmp_path, monkeypatch)
    ctest.ends("core", 0, PASSED)
    assert ctest("core") == {"core": Count(passed=1)}
    ctest.ends("core", 0)
    assert ctest("core") == {"core": Count(failed=1)}


def test_a_suite_that_raises_has_failed(tmp_path: Path) -> None:
    def run(_log: Path, _parts: Sequence[str]) -> dict[str, Count]:
        raise OSError("no such program")

    done = schedule.run_suite(Suite("s", "s", run), Results(tmp_path), tmp_path / "log")
    assert done.count == Count(failed=1)
    assert "OSError: no such program" in (tmp_path / "log").read_text()


def test_nothing_that_ran_no_test_is_kept(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep("s", WHOLE, "key", Count())
    assert results.find("s", WHOLE, "key") is None
    results.keep("s", WHOLE, "key", Count(skipped=1))
    assert results.find("s", WHOLE, "key") == Count(skipped=1)


def test_the_newest_results_are_kept(tmp_path: Path) -> None:
    results = Results(tmp_path)
    keys = [f"key{i}" for i in range(KEPT + 3)]
    for age, key in enumerate(reversed(keys)):
        results.keep("s", WHOLE, key, Count(passed=1))
        if stored := next(tmp_path.rglob(f"{key}.json"), None):
            os.utime(stored, (1000 + age, 1000 + age))
    assert [key for key in keys if results.find("s", WHOLE, key)] == keys[:KEPT]


def test_a_failure_that_was_stored_is_not_believed(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep("s", WHOLE, "key", Count(passed=1))
    (stored,) = tmp_path.rglob("*.json")
    stored.write_text(stored.read_text().replace('"failed": 0', '"failed": 1'))
    assert results.find("s", WHOLE, "key") is None


def run_tests_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: Callable[..., list[Suite]], *arguments: str
) -> ModuleType:
    """run_tests.py with other suites, called with these arguments."""
    run_tests = script("run_tests.py")
    monkeypatch.setattr(run_tests, "suites", given)
    monkeypatch.setattr(run_tests, "LOGS", folder)
    monkeypatch.setattr(sys, "argv", ["run_tests.py", *arguments])
    return run_tests


@pytest.mark.parametrize(
    ("failing", "status"), [(set[str](), 0), ({"unit"}, 1), ({"build"}, 1), ({"lint", "unit"}, 1)]
)
def test_the_exit_code_of_a_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failing: set[str],
    status: int,
) -> None:
    def suite(name: str, *needs: str) -> Suite:
        count = Count(failed=1) if name in failing else Count(passed=1)
        return Suite(name, name, lambda log, parts: {WHOLE: count}, needs=needs)

    given = [suite("build"), suite("unit", "build"), suite("lint")]
    run_tests = run_tests_with(tmp_path, monkeypatch, lambda thorough, deadline: given)
    monkeypatch.setattr(run_tests, "report", lambda done: None)
    assert run_tests.main() == status
    again = re.search(r"again: \./weft test --only (.*)", capsys.readouterr().out)
    left_out = {"unit"} if "build" in failing else set()
    assert set(again[1].split() if again else ()) == failing | left_out, "what has not passed"


@pytest.mark.parametrize(
    ("arguments", "minutes"),
    [
        ((), 60),
        (("--all",), math.inf),
        (("--thorough",), math.inf),
        (("--only", "lint"), math.inf),
        (("--only", "lint", "--minutes", "5"), 5),
        (("--minutes", "10", "--after", "90"), 8.5),
    ],
)
def test_the_minutes_of_a_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: Sequence[str],
    minutes: float,
) -> None:
    given: list[float] = []

    def suites(*, thorough: bool, deadline: Deadline) -> list[Suite]:
        given.append((deadline.end - time.monotonic()) / 60)
        late = Suite("lint", "lint", lambda log, parts: {"a": Count(passed=1), "b": None}, lambda: parts)
        return [late]

    parts: dict[str, str | None] = {"a": None, "b": None}
    assert run_tests_with(tmp_path, monkeypatch, suites, *arguments).main() == 0
    assert given == [pytest.approx(minutes, abs=0.1)]
    out = capsys.readouterr().out
    assert "lint: 1 passed, 0 failed, no time for 1 of 2 parts" in out
    assert "go on: ./weft test --only lint\n" in out


@pytest.fixture
def rows() -> list[dict[str, str]]:
    with mutate.TABLE.open(newline="") as table:
        return list(csv.DictReader(table))


def test_a_short_run_plants_one_fault_of_each_kind_in_each_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, str]]
) -> None:
    commands: list[Sequence[str]] = []

    def call(command: Sequence[str], _log: Path) -> int:
        commands.append(command)
        return 0

    monkeypatch.setattr(suites, "call", call)
    suites.planted(everything=False)(tmp_path / "log")
    (command,) = commands
    only = command[command.index("--only") + 1]
    chosen = [row for row in rows if re.search(only, mutate.Mutation(**row).name())]
    kinds = {(row["build"], row["finds"]) for row in rows}
    assert {(row["build"], row["finds"]) for row in chosen} == kinds
    assert len(chosen) < len(rows) / 2


# What a run that finds a fault of each kind says, and what none of them may be mistaken for.
SAID = {
    "race": "WARNING: ThreadSanitizer: data race (pid=1)",
    "bounds": "ERROR: AddressSanitizer: heap-buffer-overflow",
    "gone": "cluster_map to rank 1, whose block has ended",
    "dependency": "touches memory before dependency_wait",
    "alignment": "a misaligned vector",
    "barrier": "divergent barrier: reaches __syncthreads",
    "stream": "launched on another stream than the context's",
    "operation": "the block ends while it is on its way",
    "transactions": "64 bytes of transactions more than were expected",
    "fence": "that threads have written without fence_proxy_async",
    "wait": "reads registers before wgmma_wait",
    "lane": "reads lane 3, which has left",
    "result": "out[0,1]: got 2, expected 1",
}
SILENT = "amax x=bf16[40,512] amax=fp32[1]: passes on the emulator, 3 rows, block_max lanes=32"


@pytest.mark.parametrize("kind", mutate.FINDS)
def test_each_kind_of_finding_is_its_own(kind: str) -> None:
    pattern = re.compile(mutate.FINDS[kind], re.IGNORECASE)
    assert pattern.search(SAID[kind])
    assert not pattern.search(SILENT)


@pytest.mark.parametrize(
    ("code", "said", "problem"),
    [
        (1, f"{SAID['race']} in kernel 'k', block (0,0,0), thread (1,0,0)", ""),
        (0, SILENT, "not found: the case passes"),
        (0, SAID["race"], "not found: the case passes"),
        (2, "no such option", "the tool did not run the case"),
        (1, SAID["result"], "but not as 'race'"),
        (1, SAID["race"], "names no kernel, block and thread"),
    ],
)
def test_a_planted_fault_is_found_or_said_to_be_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str, problem: str
) -> None:
    build: Any = SimpleNamespace(
        folder=tmp_path / "build" / "tsan",
        check_unmutated=lambda mutation: None,
        compile=lambda mutation, scratch: {},
        link=lambda objects, scratch: scratch / "weft",
    )
    fault = mutate.Mutation("amax", "src/kit/amax.cuh", "a fault", "x", "y", "tsan", "race", "amax x=bf16[4]")
    monkeypatch.setattr(mutate, "mutate", lambda mutation, scratch: None)
    monkeypatch.setattr(mutate, "run", lambda command, folder: (code, said))
    if not problem:
        assert "data race" in mutate.check(fault, build, None)
        return
    with pytest.raises(mutate.Failure, match=problem):
        mutate.check(fault, build, None)


@pytest.fixture
def table(tmp_path: Path, rows: list[dict[str, str]]) -> Path:
    path = tmp_path / "mutations.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows[:3])
    return path


@pytest.mark.parametrize(("missed", "status"), [(0, 0), (1, 1), (3, 1)])
def test_a_missed_fault_fails_the_run(
    table: Path, monkeypatch: pytest.MonkeyPatch, missed: int, status: int
) -> None:
    verdicts: Iterator[bool] = iter([True] * missed + [False] * 3)

    def check(*_: object) -> str:
        if next(verdicts):
            raise mutate.Failure("not found")
        return "found"

    monkeypatch.setattr(mutate, "Build", lambda folder: folder)
    monkeypatch.setattr(mutate, "check", check)
    monkeypatch.setattr(sys, "argv", ["mutate.py", "--table", str(table)])
    assert mutate.main() == status
    monkeypatch.setattr(sys, "argv", ["mutate.py", "--table", str(table), "--only", "no such fault"])
    assert mutate.main() == 1
