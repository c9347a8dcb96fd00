"""What the tests of an area reach of its instrumented copy, and which mutants they notice."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from instrument.area import ROOT, Area, PythonArea
from instrument.build import SLOWER, Failure, Instrumented, processor_time, tail
from instrument.copy import Place
from instrument.from_python import FromPython
from instrument.python_tree import PYTHON_TOGETHER_SECONDS, in_time

HERE, FALSE, TRUE = 1, 2, 4
VARIANTS = 2
SPARE_SECONDS = 3  # of processor time, besides, until a mutated test counts as hanging
# Tests that take no longer together run in one process: to start a hundred takes longer than they do.
TOGETHER_SECONDS = 2
PYTEST = "pytest"  # the program of tests that are written in Python


@dataclass(frozen=True)
class Outcome:
    """A block that is entered, or a condition's truth."""

    place: Place
    bit: int

    def text(self) -> str:
        what = {HERE: "never entered", FALSE: "never false", TRUE: "never true"}[self.bit]
        return f"{self.place.where()}: {what}: {self.place.site.text}"


def outcomes(place: Place) -> list[Outcome]:
    bits = {"here": (HERE,), "condition": (FALSE, TRUE), "loop": (FALSE, TRUE)}.get(place.site.kind, ())
    return [Outcome(place, bit) for bit in bits]


@dataclass(frozen=True)
class Mutant:
    place: Place
    variant: int

    @property
    def number(self) -> int:
        return self.place.id * VARIANTS + self.variant

    @property
    def rule(self) -> str:
        return self.place.site.rules[self.variant]

    def text(self) -> str:
        return f"{self.place.where()}: {self.rule}: {self.place.site.text}"


def mutants(places: Iterable[Place]) -> list[Mutant]:
    return [Mutant(place, variant) for place in places for variant in range(len(place.site.rules))]


@dataclass(frozen=True)
class Test:
    """One test of the area, with its processor time and what it reaches."""

    program: str
    name: str
    seconds: float
    marks: bytes


def batches(tests: Iterable[Test]) -> Iterator[list[Test]]:
    """Tests of one program that follow each other, together where they are quick."""
    batch: list[Test] = []
    for test in tests:
        together = [*batch, test]
        seconds = sum(at.seconds for at in together)
        most = PYTHON_TOGETHER_SECONDS if test.program == PYTEST else TOGETHER_SECONDS
        if batch and (test.program != batch[0].program or seconds > most):
            yield batch
            together = [test]
        batch = together
    if batch:
        yield batch


class Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


class Killers:
    """Which test found a mutant the last time, by what names the mutant when lines move: it is tried first, because it
    most likely finds it again. It only decides the order: what does not fail with the mutant has not found it."""

    MOST = 4  # tests that are kept for mutants of one name

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._known: dict[str, list[str]] = json.loads(path.read_text()) if path.exists() else {}

    @staticmethod
    def _name(mutant: Mutant) -> str:
        return f"{mutant.place.file}: {mutant.rule}: {mutant.place.site.text}"

    def first(self, mutant: Mutant, tests: list[T]) -> list[T]:
        """Those of the tests that found it before, or one of its name."""
        known = self._known.get(self._name(mutant), [])
        return [test for name in known for test in tests if test.name == name]

    def note(self, mutant: Mutant, test: Named) -> None:
        with self._lock:
            kept = [name for name in self._known.get(self._name(mutant), []) if name != test.name]
            self._known[self._name(mutant)] = [test.name, *kept][: self.MOST]

    def write(self) -> None:
        with self._lock:
            self.path.write_text(json.dumps(self._known, indent=0, sort_keys=True))


class Verdicts:
    """What a run that was broken off had found out, for the next one with the same sources, tests and programs."""

    def __init__(self, path: Path, state: str) -> None:
        self.path, self.state = path, state
        self._lock = threading.Lock()
        stored = json.loads(path.read_text()) if path.exists() else {}
        self._found: dict[str, bool] = stored.get("found", {}) if stored.get("state") == state else {}

    def of(self, mutant: Mutant) -> bool | None:
        """Whether a test found it; none where it was not tried."""
        return self._found.get(str(mutant.number))

    def note(self, mutant: Mutant, found: bool) -> None:
        with self._lock:
            self._found[str(mutant.number)] = found
            if len(self._found) % 20 == 0:
                self._write()

    def write(self) -> None:
        with self._lock:
            self._write()

    def _write(self) -> None:
        self.path.write_text(json.dumps({"state": self.state, "found": self._found}))


class Measured:
    """An area's instrumented copy whose tests have run once, each by itself."""

    def __init__(self, copy: Instrumented) -> None:
        self.copy = copy
        self.folder = copy.folder
        self.places = copy.compiled()
        loads = copy.area.python and (copy.folder / "libweft_ffi.so").exists()
        self.from_python = FromPython(copy.folder) if loads else None
        self.tests = sorted(self._measured(), key=lambda test: test.seconds)
        marks = bytearray(len(self.tests[0].marks))
        for test in self.tests:
            for i, mark in enumerate(test.marks):
                marks[i] |= mark
        self.marks = bytes(marks)
        self.killers = Killers(copy.folder / "killers.json")

    def _start(
        self, program: str, *words: str, extra: dict[str, str] | None = None, limit: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a test program, at most `limit` seconds of processor time."""
        command = [str(self.copy.folder / program), *words]
        if limit is not None:
            command = ["bash", "-c", f'ulimit -t {limit}; exec "$@"', "bash", *command]
        own = {
            "OPENBLAS_NUM_THREADS": "1",
            "GTEST_FAIL_FAST": "1",
            "WEFT_TOOL": str(self.copy.folder / "weft"),
        }
        environment = {**os.environ, **own, **(extra or {})}
        return subprocess.run(
            command,
            cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip

    def _measured(self) -> Iterator[Test]:
        for test in self._names():
            yield self._baseline(*test)
        if self.from_python:
            for name, seconds, marks in self.from_python.tests(self.copy.area.python_files()):
                yield Test(PYTEST, name, seconds, marks)

    def _names(self) -> Iterator[tuple[str, str]]:
        """The program and the name of each test."""
        for program, choice in self.copy.area.tests:
            suite = ""
            words = [choice] if choice else []
            for line in self._start(program, *words, "--gtest_list_tests").stdout.splitlines():
                word = line.split("#")[0].strip()
                if line.startswith(" "):
                    yield program, suite + word
                elif word.endswith("."):
                    suite = word

    def _baseline(self, program: str, name: str) -> Test:
        file = self.copy.folder / "marks.bin"
        file.unlink(missing_ok=True)
        start = processor_time()
        done = self._start(program, f"--gtest_filter={name}", extra={"WEFT_REACHED": str(file)})
        if done.returncode != 0 or not file.exists():
            raise Failure(f"{name} fails without a mutant:\n{tail(done.stdout + done.stderr)}")
        return Test(program, name, processor_time() - start, file.read_bytes())

    def seconds(self) -> int:
        """Of processor time, until it is known what the tests reach."""
        return math.ceil(self.copy.seconds + sum(test.seconds for test in self.tests))

    def unreached(self) -> list[Outcome]:
        return [at for place in self.places for at in outcomes(place) if not self.marks[place.id] & at.bit]

    def reaching(self, mutant: Mutant) -> list[Test]:
        """The tests that may notice it, the quick ones first."""
        return [test for test in self.tests if test.marks[mutant.place.id]]

    def state(self) -> str:
        """A digest of all that verdicts depend on: the copy, what its tests read, and the programs of the build."""
        area, build = self.copy.area, self.copy.build.folder
        paths = [path for path in sorted((ROOT / area.folder).iterdir()) if path.is_file()]
        paths += sorted((ROOT / "tests" / "ops").glob(f"corpus/{area.name}.txt"))
        paths += [build / name for name in (*area.programs(), "compile_commands.json")]
        paths += [next(build.glob("libweft.so.*.*")), *(ROOT / name for name in area.python_files())]
        digest = hashlib.sha256(self.copy.copy.state.encode())
        for path in paths:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()

    def killer(self, mutant: Mutant, most_seconds: float = math.inf) -> str | None:
        """The first test that fails with the mutant; none where it survives all that take no longer."""
        reaching = [test for test in self.reaching(mutant) if test.seconds <= most_seconds]
        timely = in_time((test for test in reaching if test.program == PYTEST), most_seconds)
        reaching = [test for test in reaching if test.program != PYTEST or test in timely]
        first = self.killers.first(mutant, reaching)
        rest = [test for test in reaching if test not in first]
        for batch in [*([test] for test in first), *batches(rest)]:
            if failed := self._fails(batch, mutant):
                self.killers.note(mutant, failed)
                return failed.name
        return None

    def _fails(self, tests: Sequence[Test], mutant: Mutant) -> Test | None:
        """The first of them that fails; the last that was begun, where the process did not end by itself."""
        if tests[0].program == PYTEST and self.from_python:
            found = self.from_python.fails({test.name: test.seconds for test in tests}, mutant.number)
            return next((test for test in tests if test.name == found), None)
        limit = int(SLOWER * sum(test.seconds for test in tests)) + SPARE_SECONDS
        names = ":".join(test.name for test in tests)
        chosen = {"WEFT_MUTANT": str(mutant.number)}
        done = self._start(tests[0].program, f"--gtest_filter={names}", extra=chosen, limit=limit)
        if done.returncode == 0 and re.search(r"^\[=+\] .* ran\.", done.stdout, re.MULTILINE):
            return None  # of its own accord, and after the last test
        begun = re.findall(r"^\[ RUN      \] (\S+)", done.stdout, re.MULTILINE)
        failed = re.findall(r"^\[  FAILED  \] (\S+?),? ", done.stdout, re.MULTILINE)
        name = (failed or begun or [tests[-1].name])[0 if failed else -1]
        return next((test for test in tests if test.name == name), tests[-1])


def own(places: Iterable[Place], area: Area | PythonArea) -> list[Place]:
    """The places of the area itself, not of what it uses."""
    return [place for place in places if area.owns(place.file)]
