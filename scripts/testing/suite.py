"""A suite of tests: its parts, what it waits for, and how its commands and their counts are read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
CORES = os.cpu_count() or 2


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __iadd__(self, other: Count) -> Count:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        return self

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


# What running some parts came to; None where there was no time for one.
Counts = Mapping[str, Count | None]

# The parts of a suite that can be run, and kept, by themselves: name -> the key of all that it depends on; None is
# run every time.
Parts = Mapping[str, str | None]
WHOLE = "whole"


@dataclass
class Suite:
    """One line of the output. What it needs is run before it, where it is run at all."""

    name: str
    what: str
    run: Callable[[Path, Sequence[str]], Counts]  # a log to write to, parts
    parts: Callable[[], Parts] = lambda: {WHOLE: None}
    needs: tuple[str, ...] = ()
    wide: bool = False  # keeps every core busy
    quick: bool = False
    optional: bool = False  # left out where the time is up


def call(
    command: Sequence[str], log: Path, extra: Mapping[str, str] | None = None, timeout: float | None = None
) -> int:
    """Runs a command in the root of the tree with its output appended to the log; returns its exit status."""
    with log.open("a") as output:
        output.write(f"$ {' '.join(command)}\n")
        output.flush()
        try:
            return subprocess.run(
                command,
                cwd=ROOT,
                env={**os.environ, **(extra or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            output.write(f"stopped after {timeout} s\n")
            return 124


def one(status: int) -> Count:
    return Count(passed=1) if status == 0 else Count(failed=1)


def whole(run: Callable[[Path], Count]) -> Callable[[Path, Sequence[str]], Counts]:
    """A suite without parts."""
    return lambda log, _parts: {WHOLE: run(log)}


def read_junit(path: Path) -> Count | None:
    """The counts of a GoogleTest or pytest report; nothing where it is missing or broken off."""
    try:
        document = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    count = Count()
    for case in document.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            count.skipped += 1
        elif case.get("status") != "notrun":
            count.passed += 1
    return count


def beside_python(tool: str) -> str | None:
    """A tool of the environment that runs this script, or of the machine."""
    local = Path(sys.executable).parent / tool
    return str(local) if local.exists() else shutil.which(tool)
