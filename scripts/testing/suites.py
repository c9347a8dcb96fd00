"""The suites of ./weft test, and what the outcome of each depends on."""

from __future__ import annotations

import csv
import fnmatch
import functools
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from instrument import record
from instrument.area import PARTS, area
from instrument.build import Build

from testing import keys, tidy
from testing.deadline import Deadline, each
from testing.suite import (
    ROOT,
    WHOLE,
    Count,
    Counts,
    Parts,
    Suite,
    beside_python,
    call,
    one,
    read_junit,
    whole,
)

BUILD = ROOT / "build"
SANITIZERS = ("asan", "tsan")
COPIES = "examples/tasks/*/baseline/*/*"  # others' sources, which `weft task baseline` copies: they stay as they are
FORMATTED = ("include", "src", "ops", "ladder", "pipelines", "tests", "examples")
# Read by no C++ test: sources are in the objects. (The CMake files stay in: they hold flags of links.)
NOT_OF_CPP = (*keys.COMPILED, *keys.PROSE, *keys.PYTHON, *keys.LAUNCHER, *keys.EVIDENCE, "assets/*.svg")


def build(preset: str) -> Callable[[Path], Count]:
    def run(log: Path) -> Count:
        status = call([str(ROOT / "weft"), "build", preset], log)
        if status == 0 and preset == "release":
            status = call(["ninja", "-C", f"build/{preset}", "header_check"], log)
        return one(status)

    return run


@dataclass(frozen=True)
class Entry:
    """One of ctest's entries. It is run without ctest, of which no two may work in one folder."""

    command: tuple[str, ...] = ()  # none where it is not built
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None  # how long it may take

    def share(self) -> list[str]:
        """What tells GoogleTest which of an entry's tests are this one's (cmake/WeftTests.cmake)."""
        names = ("GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX")
        return [f"{name}={self.environment[name]}" for name in names if name in self.environment]

    def run(self) -> tuple[int, str]:
        """Its exit status and what it printed."""
        try:
            done = subprocess.run(
                self.command, cwd=ROOT, env={**os.environ, **self.environment}, timeout=self.seconds,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as expired:
            return (
                124,
                f"{(expired.stdout or b'').decode(errors='replace')}\nstopped after {self.seconds} s\n",
            )
        return done.returncode, done.stdout.decode(errors="replace")


def ctest_entries(preset: str) -> dict[str, Entry]:
    """Those of a build, by name."""
    listed = keys.output("ctest", "--preset", preset, "--show-only=json-v1")
    found = {}
    for test in json.loads(listed)["tests"] if listed else []:
        properties = {property["name"]: property["value"] for property in test.get("properties", [])}
        environment = dict(variable.split("=", 1) for variable in properties.get("ENVIRONMENT", []))
        found[test["name"]] = Entry(tuple(test.get("command", ())), environment, properties.get("TIMEOUT"))
    return found


def ctest_parts(preset: str) -> Parts:
    """An entry of one op depends on no other op's objects, any other entry on all of the build."""
    folder = BUILD / preset
    common = keys.digest(keys.of_machine(), keys.of_tree(NOT_OF_CPP))
    parts = {}
    for name, entry in ctest_entries(preset).items():
        only = re.fullmatch(r"ops\.(\w+)(?:\.\d+)?", name)
        target = Path(entry.command[0]).name if only and entry.command else "all"
        names = [at for at in keys.objects(folder, target) if not only or keys.of_op(at) in (None, only[1])]
        words = (*entry.command[1:], *entry.share())
        parts[name] = keys.digest(common, *words, keys.of_objects(folder, names)) if names else None
    return parts or {WHOLE: None}


def run_entry(preset: str, name: str, entry: Entry) -> tuple[Count, str]:
    """The counts of an entry, and what it printed."""
    if not entry.command:
        return Count(failed=1), f"{name}: not built\n"
    status, printed = entry.run()
    count = read_junit(BUILD / preset / "results" / f"{name}.xml")
    if count is None or (count.failed == 0 and status != 0):
        count = Count(failed=1)  # it ended before its last test, or broke after it
    return count, printed


def ctest(preset: str, deadline: Deadline | None = None) -> Callable[[Path, Sequence[str]], Counts]:
    """Its entries; where there is a deadline, those that can be begun in time. The log ends with those that failed."""

    def run(log: Path, parts: Sequence[str]) -> Counts:
        shutil.rmtree(BUILD / preset / "results", ignore_errors=True)
        until = math.inf if deadline is None else deadline.halfway()
        entries = ctest_entries(preset)
        found: dict[str, Count | None] = {}
        failed = []
        with log.open("a") as output:
            for name, done in each(
                lambda name: run_entry(preset, name, entries.get(name, Entry())), parts, until
            ):
                found[name] = done and done[0]
                output.write(f"{name}: {'no time' if done is None else done[0]}\n")
                output.flush()
                if done is not None and done[0].failed:
                    failed.append(done[1])
            output.writelines(failed)
        return found

    return run


def run_pytest(log: Path, paths: Sequence[str], name: str) -> Count:
    report = BUILD / f"pytest-{name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", *paths, f"--junitxml={report}"]
    status = call(
        command, log, {"WEFT_TOOL": str(ROOT / "build/release/weft"), "TOKENIZERS_PARALLELISM": "false"}
    )
    if status == 5:  # no test collected
        return Count()
    count = read_junit(report)
    return one(status) if count is None or (status != 0 and count.failed == 0) else count


def pytest_suites() -> list[Suite]:
    """A suite for each folder of Python tests, so that several run at once."""
    found = []
    for folder in sorted({path.parent for path in (ROOT / "tests").rglob("test_*.py")}):
        name = folder.name
        paths = sorted(str(path.relative_to(ROOT)) for path in folder.glob("test_*.py"))
        paths = [path for path in paths if path != "tests/packaging/test_wheel.py"]
        found.append(
            Suite(
                f"pytest-{name}",
                f"tests/{name} (pytest)",
                whole(functools.partial(run_pytest, paths=paths, name=name)),
                lambda: {WHOLE: keys.of_everything(programs=BUILD / "release")},
                needs=("build",),
            )
        )
    return found


def configured(preset: str, name: str) -> str:
    """What CMake has stored under a name for a build; empty where it is not configured."""
    cache = BUILD / preset / "CMakeCache.txt"
    stored = cache.read_text() if cache.exists() else ""
    found = re.search(rf"^{name}:\w+=(.*)$", stored, re.MULTILINE)
    return found[1] if found else ""


def wheel(log: Path) -> Count:
    """Builds the wheel; what is in it and how it behaves in fresh environments is tested by pytest."""
    dist = BUILD / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "-w", str(dist)]
    # The compilers of the release build, by the names that it has for them: ccache then has what they compiled. A build
    # keeps the one that it was begun with.
    nvcc = configured("release", "WEFT_NVCC")
    if configured("wheel", "WEFT_NVCC") != nvcc:
        shutil.rmtree(BUILD / "wheel", ignore_errors=True)
    count = one(call(pip, log, {"CXX": "c++", "CMAKE_ARGS": f"-DWEFT_NVCC={nvcc}" if nvcc else ""}))
    if count.failed == 0:
        count += run_pytest(log, ["tests/packaging/test_wheel.py"], "wheel")
    return count


def planted(everything: bool) -> Callable[[Path], Count]:
    """Faults planted in the real kernels: all of them, or one of each kind for each build that must find it."""

    def run(log: Path) -> Count:
        with (ROOT / "tests" / "emulator" / "mutations.csv").open(newline="") as table:
            rows = list(csv.DictReader(table))
        first = {(row["build"], row["finds"]): f"{row['op']}: {row['description']}" for row in reversed(rows)}
        names = "|".join(re.escape(name) for name in first.values())
        chosen = [] if everything else ["--only", f"^({names}) "]
        return one(call([sys.executable, "tests/emulator/mutate.py", *chosen], log))

    return run


def planted_parts(everything: bool) -> Parts:
    builds = [
        keys.of_programs(BUILD / preset) for preset in ("release", *SANITIZERS) if (BUILD / preset).is_dir()
    ]
    return {WHOLE: keys.digest(str(everything), *builds, keys.of_everything(without=keys.PROSE))}


# Of what the tests reach and notice: how long another op, or another mutant, is started.
COVERAGE_SECONDS, MUTANT_SECONDS, PYTHON_SECONDS, MUTANTS_AN_OP = 90, 90, 30, 20


def coverage_parts(everything: bool) -> Parts:
    """The ops whose branches were recorded of other sources than they have now."""
    build = Build(BUILD / "release")
    common = keys.digest(keys.of_tree(NOT_OF_CPP), keys.of_tree(only=("scripts/instrument/*",)))
    objects = keys.objects(build.folder, "test_ops")
    parts = {}
    for op, row in record.read().items():
        if (
            row.branches
            and op not in PARTS
            and (everything or record.sources(area(op), build.included(area(op))) != row.sources)
        ):
            names = [at for at in objects if keys.of_op(at) in (None, op)]
            parts[op] = keys.digest(common, keys.of_objects(build.folder, names))
    return parts


def coverage(everything: bool) -> Callable[[Path, Sequence[str]], Counts]:
    """Holds each op's ceiling; for what there is no time, that of the next run."""

    def run(log: Path, ops: Sequence[str]) -> Counts:
        until = time.monotonic() + COVERAGE_SECONDS
        found: dict[str, Count | None] = {}
        for op in random.sample(list(ops), len(ops)):
            in_time = everything or not record.too_long(op, until)
            command = [sys.executable, str(ROOT / "scripts/coverage"), op]
            found[op] = one(call(command, log)) if in_time else None
            if not in_time:
                with log.open("a") as output:
                    output.write(f"{op}: no time was left\n")
        return found

    return run


def mutants(everything: bool) -> Callable[[Path], Count]:
    sampled = ["--recorded", "--sample", str(MUTANTS_AN_OP), "--seconds", str(MUTANT_SECONDS)]
    command = [sys.executable, str(ROOT / "scripts/mutants")]
    if everything:
        return lambda log: one(call(command, log))
    of_python = [*command, *sampled, "--python", "--seconds", str(PYTHON_SECONDS)]
    return lambda log: one(call([*command, *sampled], log) or call(of_python, log))


def mutant_parts(everything: bool) -> Parts:
    read = keys.of_tree(only=("scripts/mutants", "scripts/instrument/*", "tests/*", "python/*"))
    return {WHOLE: keys.digest(str(everything), read, keys.of_programs(BUILD / "release"))}


def cpp_files(*suffixes: str) -> list[str]:
    found = [path for folder in FORMATTED for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    names = sorted(str(path.relative_to(ROOT)) for path in found)
    return [name for name in names if not fnmatch.fnmatch(name, COPIES)]


def sources() -> list[str]:
    return cpp_files(".h", ".cpp", ".cu", ".cuh")


def shell_scripts() -> list[str]:
    scripts = [
        ROOT / "weft",
        ROOT / ".ci/run",
        *(ROOT / "scripts").glob("*"),
        *(ROOT / "scripts/lib").glob("*"),
    ]
    return [
        str(path) for path in scripts if path.is_file() and path.read_bytes()[:19] == b"#!/usr/bin/env bash"
    ]


def lint(name: str, *arguments: str, tool: str = "", files: Callable[[], list[str]] = list) -> Suite:
    """A linter that reads nothing but the tree."""

    def run(log: Path) -> Count:
        program = beside_python(tool or name)
        if program is None:
            return Count(skipped=1)
        return one(call([program, *arguments, *files()], log))

    what = (tool or name) + (" " + arguments[0] if name == "ruff-format" else "")
    return Suite(name, what, whole(run), lambda: {WHOLE: keys.of_everything()})


def script(name: str, what: str, *arguments: str, needs: tuple[str, ...] = ()) -> Suite:
    command = [sys.executable, str(ROOT / "scripts" / name), *arguments]
    return Suite(name, what, whole(lambda log: one(call(command, log))), needs=needs)


def suites(*, thorough: bool, deadline: Deadline) -> list[Suite]:
    """In the order in which they start. The long ones that wait for nothing else come first.

    Optional is what tests once more, with another tool, what the plain suites test.
    """
    found = [
        Suite("build", "release build, headers alone", whole(build("release")), quick=True, wide=True),
        Suite(
            "unit", "unit suites", ctest("release"), lambda: ctest_parts("release"),
            needs=("build",), quick=True, wide=True,
        ),
    ]  # fmt: skip
    for preset in SANITIZERS:
        name = f"build-{preset}"
        found.append(Suite(name, f"{preset} build", whole(build(preset)), wide=True, optional=True))
        found.append(
            Suite(
                preset, f"unit suites under {preset}", ctest(preset, deadline),
                functools.partial(ctest_parts, preset), needs=(name,), wide=True, optional=True,
            )
        )  # fmt: skip
    return [
        *found,
        Suite("wheel", "the wheel, in fresh environments", whole(wheel),
              lambda: {WHOLE: keys.of_everything(without=keys.EVIDENCE)}, needs=("build",)),
        *pytest_suites(),
        Suite("tidy", "clang-tidy", functools.partial(tidy.run, deadline=deadline), tidy.parts,
              needs=("build",), wide=True, optional=True),
        Suite("mutations", "planted faults that the emulator must find", whole(planted(thorough)),
              lambda: planted_parts(thorough), optional=True,
              needs=("build", *(f"build-{name}" for name in SANITIZERS))),
        Suite("coverage", "branches that the tests reach, of ops that have changed", coverage(thorough),
              lambda: coverage_parts(thorough), needs=("build",), wide=True, optional=True),
        Suite("mutants", "faults by rule that the tests notice, a sample", whole(mutants(thorough)),
              lambda: mutant_parts(thorough), needs=("build", "coverage"), wide=True, optional=True),
        lint("format", "--dry-run", "-Werror", tool="clang-format", files=sources),
        lint("ruff", "check", "."),
        lint("ruff-format", "format", "--check", ".", tool="ruff"),
        lint("shellcheck", "-x", files=shell_scripts),
        lint("mypy", "--config-file", "pyproject.toml"),
        script("sizes", "sizes of kernels, functions, files"),
        script("costs", "kernels and machine code of each op", "--check", needs=("build",)),
    ]  # fmt: skip
