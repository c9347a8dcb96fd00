"""What the tests of an op reach of its instrumented copy, and which mutants they notice."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from instrument.build import Failure, Instrumented, tail
from instrument.copy import ROOT, Place

HERE, FALSE, TRUE = 1, 2, 4
VARIANTS = 2
# How much more processor time than by itself, and how many seconds besides, until a mutated test counts as hanging.
# Other work on the machine stretches a test's time, but not its processor time.
SLOWER, SPARE_SECONDS = 5, 3


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


def _processor_time() -> float:
    """Of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class Test:
    """One test of the op, with its processor time and what it reaches."""

    name: str
    seconds: float
    marks: bytes


class Measured:
    """An op's instrumented copy whose tests have run once, each by itself."""

    def __init__(self, copy: Instrumented) -> None:
        self.copy = copy
        self.places = copy.compiled()
        self.tests = sorted((self._baseline(name) for name in self._names()), key=lambda test: test.seconds)
        marks = bytearray(len(self.tests[0].marks))
        for test in self.tests:
            for i, mark in enumerate(test.marks):
                marks[i] |= mark
        self.marks = bytes(marks)

    def _start(
        self, *words: str, extra: dict[str, str] | None = None, limit: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs the op tests, at most `limit` seconds of processor time."""
        command = [str(self.copy.folder / "test_ops"), *words]
        if limit is not None:
            command = ["bash", "-c", f'ulimit -t {limit}; exec "$@"', "bash", *command]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "GTEST_FAIL_FAST": "1", **(extra or {})}
        return subprocess.run(
            command,
            cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip

    def _names(self) -> Iterator[str]:
        suite = ""
        for line in self._start(f"--op={self.copy.op}", "--gtest_list_tests").stdout.splitlines():
            word = line.split("#")[0].strip()
            if line.startswith(" "):
                yield suite + word
            elif word.endswith("."):
                suite = word

    def _baseline(self, name: str) -> Test:
        file = self.copy.folder / "marks.bin"
        file.unlink(missing_ok=True)
        start = _processor_time()
        done = self._start(f"--gtest_filter={name}", extra={"WEFT_REACHED": str(file)})
        if done.returncode != 0 or not file.exists():
            raise Failure(f"{name} fails without a mutant:\n{tail(done.stdout + done.stderr)}")
        return Test(name, _processor_time() - start, file.read_bytes())

    def unreached(self) -> list[Outcome]:
        return [at for place in self.places for at in outcomes(place) if not self.marks[place.id] & at.bit]

    def reaching(self, mutant: Mutant) -> list[Test]:
        """The tests that may notice it, the quick ones first."""
        return [test for test in self.tests if test.marks[mutant.place.id]]

    def killer(self, mutant: Mutant) -> str | None:
        """The first test that fails with the mutant; none where it survives."""
        for test in self.reaching(mutant):
            limit = int(SLOWER * test.seconds) + SPARE_SECONDS
            done = self._start(
                f"--gtest_filter={test.name}", extra={"WEFT_MUTANT": str(mutant.number)}, limit=limit
            )
            if done.returncode != 0:
                return test.name
        return None


def own(places: Iterable[Place], op: str) -> list[Place]:
    """The places of the op itself, not of the kit."""
    return [place for place in places if Path(place.file).is_relative_to(f"ops/{op}")]
