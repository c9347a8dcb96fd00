"""./weft test: suites side by side, and results that are kept until anything that they depend on changes."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from instrument import record
from testing import keys, schedule, suites, tidy
from testing.results import Results
from testing.suite import CORES, WHOLE, Count, Suite

ROOT = Path(__file__).resolve().parents[2]


class Recorded:
    """A suite over one input file, that counts how often it ran."""

    def __init__(self, folder: Path) -> None:
        self.input = folder / "input"
        self.input.write_text("passes")
        self.results = Results(folder / "results")
        self.log = folder / "log"
        self.runs = 0
        self.meanwhile = ""

    def _run(self, _log: Path, parts: Sequence[str]) -> dict[str, Count]:
        assert list(parts) == [WHOLE]
        self.runs += 1
        passed = self.input.read_text() == "passes"
        if self.meanwhile:
            self.input.write_text(self.meanwhile)
        return {WHOLE: Count(passed=2, skipped=1) if passed else Count(failed=1)}

    def __call__(self, *, fresh: bool = False) -> schedule.Done:
        keys.forget()
        suite = Suite("s", "a suite", self._run, lambda: {WHOLE: keys.of_file(self.input)})
        return schedule.run_suite(suite, Results(self.results.folder, fresh=fresh), self.log)


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


def test_what_passed_is_not_run_again_until_its_input_changes(recorded: Recorded) -> None:
    assert recorded().count == Count(passed=2, skipped=1)
    again = recorded()
    assert (again.kept, again.parts, again.count) == (1, 1, Count(passed=2, skipped=1))
    assert recorded.runs == 1
    recorded.input.write_text("something else")
    assert recorded().count == Count(failed=1)
    assert recorded.runs == 2


def test_a_failure_is_never_kept(recorded: Recorded) -> None:
    recorded.input.write_text("fails")
    assert recorded().count.failed == recorded().count.failed == 1
    assert recorded.runs == 2


def test_all_runs_what_is_kept(recorded: Recorded) -> None:
    recorded()
    assert recorded(fresh=True).kept == 0
    assert recorded.runs == 2


def test_nothing_is_kept_of_files_that_changed_meanwhile(recorded: Recorded) -> None:
    recorded.meanwhile = "an edit"
    recorded()
    recorded.input.write_text("passes")
    recorded.meanwhile = ""
    assert recorded().kept == 0


def test_a_part_that_says_nothing_has_not_passed(tmp_path: Path) -> None:
    suite = Suite("s", "s", lambda log, parts: {"a": Count(passed=1)}, lambda: {"a": "1", "b": "2"})
    done = schedule.run_suite(suite, Results(tmp_path), tmp_path / "log")
    assert done.count == Count(passed=1, failed=1)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("words")
    (tmp_path / "data.csv").write_text("1,2")
    return tmp_path


def of_tree(root: Path) -> str:
    keys.forget()
    return keys.of_tree(without=keys.PROSE, root=root)


def test_a_digest_tells_where_a_part_ends() -> None:
    assert len({keys.digest(*parts) for parts in (("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""))}) == 4


def test_the_tree_is_in_a_key_but_for_what_is_named(tree: Path) -> None:
    before = of_tree(tree)
    (tree / "docs" / "page.md").write_text("other words")
    assert of_tree(tree) == before
    (tree / "data.csv").write_text("1,3")
    changed = of_tree(tree)
    (tree / "new.csv").write_text("")
    added = of_tree(tree)
    (tree / "new.csv").rename(tree / "old.csv")
    moved = of_tree(tree)
    (tree / "old.csv").chmod(0o755)
    assert len({before, changed, added, moved, of_tree(tree)}) == 5


def test_the_machine_is_in_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys.forget()
    before = keys.of_machine()
    monkeypatch.setenv("WEFT_OPENBLAS", "none")
    keys.forget()
    assert keys.of_machine() != before
    parts: list[str] = []

    def digest(*of: str) -> str:
        parts.extend(of)
        return ""

    monkeypatch.setattr(keys, "digest", digest)
    keys.forget()
    keys.of_machine()
    assert {platform.machine(), platform.python_version(), str(CORES)} <= set(parts)
    assert any(re.match(r"(flags|Features|CPU part)\s*:", part) for part in parts), "what its processor has"
    keys.forget()


OBJECTS = ("CMakeFiles/core.o", "CMakeFiles/ops/a/a.o", "CMakeFiles/ops/b/b.o", "CMakeFiles/tests/ops/main.o")


def test_an_entry_of_one_op_depends_on_no_other_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "release"
    for name in OBJECTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("machine code")
    monkeypatch.setattr(suites, "BUILD", tmp_path)
    names = {"ops": "", "ops.a": "a", "ops.b.0": "b", "ops.b.1": "b"}
    entries = {name: suites.Entry((f"{folder}/test_ops", f"--op={op}")) for name, op in names.items()}
    monkeypatch.setattr(suites, "ctest_entries", lambda preset: entries)
    monkeypatch.setattr(keys, "objects", lambda folder, target: OBJECTS)
    monkeypatch.setattr(keys, "of_machine", lambda: "")
    monkeypatch.setattr(keys, "of_tree", lambda without: "")

    def changed_by(name: str) -> set[str]:
        before = suites.ctest_parts("release")
        (folder / name).write_text("other machine code")
        keys.of_file.cache_clear()
        after = suites.ctest_parts("release")
        (folder / name).write_text("machine code")
        keys.of_file.cache_clear()
        assert all(before.values())
        return {part for part in before if before[part] != after[part]}

    assert changed_by("CMakeFiles/ops/a/a.o") == {"ops", "ops.a"}
    assert changed_by("CMakeFiles/ops/b/b.o") == {"ops", "ops.b.0", "ops.b.1"}
    assert changed_by("CMakeFiles/core.o") == set(names)
    assert changed_by("CMakeFiles/tests/ops/main.o") == set(names)


def test_no_op_includes_another() -> None:
    """Which is what lets the results of one be kept where another changes.

    Templates alone are another matter: they are compiled into the objects of the op that includes them.
    """
    templates = {"grouped_gemm": {"gemm"}}
    for path in (ROOT / "ops").rglob("*"):
        if path.suffix in {".h", ".cpp", ".cu", ".cuh"}:
            op = path.relative_to(ROOT / "ops").parts[0]
            included = set(re.findall(r'#include ".*?\bops/(\w+)/', path.read_text()))
            assert included <= {op} | templates.get(op, set()), path


def test_clang_tidy_reads_what_a_change_can_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, own = tmp_path / "shared.h", tmp_path / "own.h"
    shared.write_text("int shared();")
    own.write_text("int own();")
    monkeypatch.setattr(tidy, "commands", lambda: {"one.cpp": "c++ -o one.o", "two.cpp": "c++ -o two.o"})
    monkeypatch.setattr(tidy, "included", lambda: {"one.o": [shared, own], "two.o": [shared]})

    def read() -> dict[str, str | None]:
        keys.forget()
        return dict(tidy.parts())

    before = read()
    own.write_text("int renamed();")
    after = read()
    assert before["one.cpp"] != after["one.cpp"]
    assert before["two.cpp"] == after["two.cpp"] is not None
    shared.write_text("int renamed_too();")
    assert read()["two.cpp"] != after["two.cpp"]


def test_coverage_is_held_of_ops_whose_sources_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = SimpleNamespace(folder=tmp_path, included=lambda op: set())
    rows = {
        "same": record.Row("same", branches=9, sources="1"),
        "other": record.Row("other", branches=9, sources="0"),
    }
    monkeypatch.setattr(suites, "Build", lambda folder: build)
    monkeypatch.setattr(record, "read", lambda: {**rows, "never": record.Row("never")})
    monkeypatch.setattr(record, "sources", lambda op, included: "1")
    monkeypatch.setattr(keys, "objects", lambda folder, target: ())
    monkeypatch.setattr(keys, "of_machine", lambda: "")
    assert set(suites.coverage_parts(everything=False)) == {"other"}
    assert set(suites.coverage_parts(everything=True)) == {"same", "other"}


def test_what_there_is_no_time_for_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def call(command: Sequence[str], _log: Path) -> int:
        ran.append(command[-1])
        return 0

    monkeypatch.setattr(suites, "call", call)
    monkeypatch.setattr(suites, "COVERAGE_SECONDS", -1)
    suite = Suite("coverage", "", suites.coverage(everything=False), lambda: {"a": "1", "b": "2"})
    results = Results(tmp_path / "results")
    done = schedule.run_suite(suite, results, tmp_path / "log")
    assert (done.count, done.late) == (Count(), 2)
    assert ran == []
    monkeypatch.setattr(suites, "COVERAGE_SECONDS", 60)
    assert schedule.run_suite(suite, results, tmp_path / "log").count == Count(passed=2)
    assert sorted(ran) == ["a", "b"]


def test_an_op_whose_copy_takes_longer_than_the_time_is_left_to_thorough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def call(command: Sequence[str], _log: Path) -> int:
        ran.append(command[-1])
        return 0

    monkeypatch.setattr(suites, "call", call)
    monkeypatch.setattr(record, "read", lambda: {"slow": record.Row("slow", seconds=1000)})
    for everything, expected in ((False, ["quick"]), (True, ["quick", "slow"])):
        ran.clear()
        suites.coverage(everything)(tmp_path / "log", ("slow", "quick"))
        assert sorted(ran) == expected


@pytest.mark.skipif(not (ROOT / "build/release/test_ops").exists(), reason="no GoogleTest in this build")
def test_the_wheel_is_built_by_the_release_builds_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that another compiler was begun with is begun anew, one with the same goes on."""
    given: list[dict[str, str]] = []
    for preset, compiler in (("release", "/a/nvcc"), ("wheel", "/b/nvcc")):
        (tmp_path / preset).mkdir()
        (tmp_path / preset / "CMakeCache.txt").write_text(f"X:PATH=/x\nWEFT_NVCC:FILEPATH={compiler}\n")

    def failing(_command: Sequence[str], _log: Path, environment: dict[str, str]) -> int:
        given.append(environment)
        return 1

    monkeypatch.setattr(suites, "BUILD", tmp_path)
    monkeypatch.setattr(suites, "call", failing)
    assert suites.wheel(tmp_path / "log").failed == 1
    assert given[0]["CMAKE_ARGS"] == "-DWEFT_NVCC=/a/nvcc"
    assert not (tmp_path / "wheel").exists()
    (tmp_path / "wheel").mkdir()
    shutil.copy(tmp_path / "release" / "CMakeCache.txt", tmp_path / "wheel")
    suites.wheel(tmp_path / "log")
    assert (tmp_path / "wheel" / "CMakeCache.txt").exists()


def test_every_test_of_the_ops_is_in_one_entry() -> None:
    def listed(*words: str) -> list[str]:
        command = [str(ROOT / "build/release/test_ops"), *words, "--gtest_list_tests"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        found, suite = [], ""
        for line in lines:
            if line.startswith(" "):
                found.append(suite + line.split("#")[0].strip())
            elif line.split("#")[0].rstrip().endswith("."):
                suite = line.split("#")[0].strip()
        return found

    folders = [path.parent.name for path in (ROOT / "ops").glob("*/reference.cpp")]
    entries = [test for op in ("", *folders) for test in listed(f"--op={op}")]
    assert sorted(entries) == sorted(listed())
    assert len(set(entries)) == len(entries)
    if shutil.which("ctest"):
        shares: dict[str, list[str]] = {}
        for name, entry in suites.ctest_entries("release").items():
            shares.setdefault(re.sub(r"\.\d+$", "", name), []).append(" ".join(entry.share()))
        assert {"ops", "ladder", *(f"ops.{op}" for op in folders)} <= set(shares)
        for name, commands in shares.items():
            indices = [int(found[1]) for it in commands if (found := re.search(r"SHARD_INDEX=(\d+)", it))]
            totals = {int(found[1]) for it in commands if (found := re.search(r"TOTAL_SHARDS=(\d+)", it))}
            assert (sorted(indices), totals) in (
                ([], set()),
                (list(range(len(commands))), {len(commands)}),
            ), f"{name}: its shares are not all of its tests"
        assert len(shares["ops.gemm"]) > 2
