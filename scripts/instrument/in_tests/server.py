"""Runs tests of the package for `instrument.python_tree`: imports once what it is called with, and forks a process for
each request, a line of JSON with the tests in order and a file for the answer.

Without tests, a request runs whole files and answers what each test runs of the package, or of an instrumented library,
and how long it takes.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from instrument.in_tests import WAITS
from instrument.in_tests.trace import Tracer

SLOW_IMPORTS = (
    "torch",
    "numpy",
    "ml_dtypes",
    "transformers",
    "diffusers",
    "safetensors",
    "plotly",
    "tvm_ffi",
)
MOST_IMPORT_SECONDS = 60  # of processor time that a process takes besides its tests
BROKEN = 77  # a process that ended before its last test


class Chosen:
    """Runs the tests of a request alone, in its order, each within its time. What its answer says holds as well where
    the process ends in the middle of a test."""

    def __init__(self, limits: dict[str, float], answer: Path) -> None:
        self.limits, self.answer = limits, answer
        self.seconds: dict[str, float] = {}
        self.say(BROKEN, "")

    def say(self, code: int, test: str) -> None:
        self.answer.write_text(json.dumps({"code": code, "ended": test, "seconds": self.seconds}))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        if gone := [name for name in self.limits if name not in found]:
            self.say(BROKEN, gone[0])  # the fault took it away
            os._exit(BROKEN)
        items[:] = [found[name] for name in self.limits]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        start = time.monotonic()
        self.say(BROKEN, item.nodeid)
        limit = self.limits[item.nodeid]
        # Of processor time, which other work on the machine does not stretch; what waits has far more of the other.
        signal.setitimer(signal.ITIMER_PROF, limit)
        signal.setitimer(signal.ITIMER_REAL, WAITS * limit)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.seconds[item.nodeid] = time.monotonic() - start


class Traced:
    """Notes what each test runs of the package, with what was run before for all tests."""

    def __init__(self, tracer: Tracer, folder: Path) -> None:
        self.tracer, self.folder = tracer, folder
        self.tests: dict[str, dict[str, Any]] = {}
        self.failed: dict[str, str] = {}
        tracer.sharing = True

    def _collect(self) -> None:
        """What processes that have ended ran."""
        lines = self.tracer.shared if self.tracer.sharing else self.tracer.one
        for path in self.folder.glob("*.json"):
            lines.update((name, line) for name, line in json.loads(path.read_text()))
            path.unlink()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        start = time.monotonic()
        self.tracer.one.clear()
        try:
            return (yield)
        finally:
            self._collect()
            self.tests[item.nodeid] = {"seconds": time.monotonic() - start, "lines": sorted(self.tracer.one)}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        self._collect()
        self.tracer.sharing = False
        try:
            return (yield)
        finally:
            self._collect()
            self.tracer.sharing = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.failed[report.nodeid] = f"{report.outcome}: {report.longreprtext}"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome != "passed":
            self.failed[report.nodeid] = f"{report.outcome}: {report.longreprtext}"


class Marked:
    """Notes what each test marks of an instrumented library, which maps its marks into a file: its processes, too."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks
        self.tests: dict[str, dict[str, Any]] = {}
        self.shared: set[tuple[int, int]] = set()  # of what is done for several tests
        self.failed: list[str] = []

    def _taken(self) -> set[tuple[int, int]]:
        """The marks since the last time: their numbers with their bits."""
        if not self.marks.exists():
            return set()
        found = self.marks.read_bytes()
        with self.marks.open("r+b") as file:
            file.write(bytes(len(found)))
        return {(number, bits) for number, bits in enumerate(found) if bits}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        self.shared |= self._taken()
        start = time.monotonic()
        try:
            return (yield)
        finally:
            seconds = time.monotonic() - start
            self.tests[item.nodeid] = {"seconds": seconds, "marks": sorted(self._taken())}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.failed.append(report.nodeid)


def marked(options: list[str], marks: Path) -> dict[str, Any]:
    noted = Marked(marks)
    code = pytest.main(options, plugins=[noted])
    tests = {name: test for name, test in noted.tests.items() if name not in noted.failed}
    return {"code": int(code), "tests": tests, "shared": sorted(noted.shared)}


def run(request: dict[str, Any]) -> dict[str, Any]:
    os.environ.update(request["environment"])
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={request['scratch']}", *request["files"]]
    if "tests" in request:
        for late in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(late, lambda *_: os._exit(BROKEN))
        most = math.ceil(sum(request["tests"].values())) + MOST_IMPORT_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        chosen = Chosen(request["tests"], Path(request["answer"]))
        code = pytest.main([*options, "-x"], plugins=[chosen])
        return {"code": int(code), "ended": next(reversed(chosen.seconds), ""), "seconds": chosen.seconds}
    if "WEFT_REACHED" in request["environment"]:
        return marked(options, Path(request["environment"]["WEFT_REACHED"]))
    folder = Path(request["scratch"] + "-traced")
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["WEFT_TRACE"], os.environ["WEFT_TRACED"] = str(folder), request["traced"]
    tracer = Tracer(Path(request["traced"]))
    traced = Traced(tracer, folder)
    tracer.start()
    code = pytest.main(options, plugins=[traced])
    sys.settrace(None)
    return {
        "code": int(code),
        "tests": traced.tests,
        "failed": traced.failed,
        "shared": sorted(tracer.shared),
    }


def child(request: dict[str, Any]) -> None:
    """Never returns."""
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    with open(os.devnull) as nothing:  # noqa: PTH123 - its number is what counts
        os.dup2(nothing.fileno(), 0)
    sys.dont_write_bytecode = "tests" in request
    code = 1
    try:
        answer = run(request)
        Path(request["answer"]).write_text(json.dumps(answer))
        code = 0
    finally:
        os._exit(code)


def ended(process: int, seconds: float) -> int | None:
    """The exit code of a process; none where it did not end in time. Ends what it has started, too."""
    until = time.monotonic() + seconds
    code: int | None = None
    pause = 0.005
    while code is None and time.monotonic() < until:
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
        done, status = os.waitpid(process, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if done else None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    if code is None:
        os.waitpid(process, 0)
    return code


def main() -> None:
    for name in sys.argv[1:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        Path(request["answer"]).unlink(missing_ok=True)
        process = os.fork()
        if not process:
            child(request)
        print(json.dumps(ended(process, request["seconds"])), flush=True)


if __name__ == "__main__":
    main()
