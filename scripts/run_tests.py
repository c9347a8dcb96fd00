"""Runs every test that this machine can run; ./weft test starts it once everything is set up.

Each suite prints one line with its counts and its time, and its output where something failed. The last line
is the sum. The exit code is 0 only if nothing failed.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".weft" / "logs"
SANITIZERS = ("asan", "tsan")
FORMATTED = ("include", "src", "ops", "pipelines", "tests", "examples")
JOBS = str(os.cpu_count() or 2)


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


@dataclass
class Suite:
    name: str
    what: str
    run: Callable[[Path], Count]  # writes its output to the given log
    quick: bool = False


def call(
    command: Sequence[str], log: Path, extra: dict[str, str] | None = None, timeout: float | None = None
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


def build(preset: str) -> Callable[[Path], Count]:
    def run(log: Path) -> Count:
        status = call([str(ROOT / "weft"), "build", preset], log)
        if status == 0 and preset == "release":
            status = call(["ninja", "-C", f"build/{preset}", "header_check"], log)
        return one(status)

    return run


def ctest(preset: str) -> Callable[[Path], Count]:
    def run(log: Path) -> Count:
        folder = ROOT / "build" / preset
        shutil.rmtree(folder / "results", ignore_errors=True)
        report = folder / "ctest.xml"
        report.unlink(missing_ok=True)
        status = call(["ctest", "--preset", preset, "-j", JOBS, "--output-junit", str(report)], log)
        entries = ElementTree.parse(report).getroot().findall("testcase") if report.exists() else []
        if not entries:
            return one(status)
        total = Count()
        for entry in entries:
            ended_well = entry.get("status") == "run"
            inner = read_junit(folder / "results" / f"{entry.get('name')}.xml")
            if inner is None or (inner.failed == 0 and not ended_well):
                inner = one(0 if ended_well else 1)  # no report, or it broke after its last test
            total += inner
        return total

    return run


def pytest(log: Path) -> Count:
    report = ROOT / "build" / "pytest.xml"
    report.unlink(missing_ok=True)
    own_suite = "--ignore=tests/packaging/test_wheel.py"
    command = [sys.executable, "-m", "pytest", "-q", "tests", own_suite, f"--junitxml={report}"]
    status = call(
        command, log, {"WEFT_TOOL": str(ROOT / "build/release/weft"), "TOKENIZERS_PARALLELISM": "false"}
    )
    if status == 5:  # no test collected
        return Count()
    count = read_junit(report)
    return one(status) if count is None or (status != 0 and count.failed == 0) else count


def wheel(log: Path) -> Count:
    """Builds the wheel; what is in it and how it behaves in fresh environments is tested by pytest."""
    dist = ROOT / "build" / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "-w", str(dist)]
    # The compiler by the name that CMake knows it by: ccache then has what the release build compiled.
    count = one(call(pip, log, {"CXX": "c++"}))
    if count.failed == 0:
        count += one(call([sys.executable, "-m", "pytest", "-q", "tests/packaging/test_wheel.py"], log))
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


def beside_python(tool: str) -> str | None:
    """A tool of the environment that runs this script, or of the machine."""
    local = Path(sys.executable).parent / tool
    return str(local) if local.exists() else shutil.which(tool)


def cpp_files(*suffixes: str) -> list[str]:
    found = [path for folder in FORMATTED for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def lint(tool: str, *arguments: str, files: Callable[[], list[str]] = list) -> Callable[[Path], Count]:
    def run(log: Path) -> Count:
        program = beside_python(tool)
        if program is None:
            return Count(skipped=1)
        return one(call([program, *arguments, *files()], log))

    return run


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


def script(name: str, *arguments: str) -> Callable[[Path], Count]:
    return lambda log: one(call([sys.executable, str(ROOT / "scripts" / name), *arguments], log))


def tidy(log: Path) -> Count:
    if beside_python("clang-tidy") is None:
        return Count(skipped=1)
    return one(
        call([sys.executable, "scripts/tidy.py"], log, {"CLANG_TIDY": beside_python("clang-tidy") or ""})
    )


def suites(thorough: bool) -> list[Suite]:
    found = [
        Suite("build", "release build, headers alone", build("release"), quick=True),
        Suite("unit", "unit suites", ctest("release"), quick=True),
    ]
    for preset in SANITIZERS:
        found.append(Suite(f"build-{preset}", f"{preset} build", build(preset)))
        found.append(Suite(preset, f"unit suites under {preset}", ctest(preset)))
    if (ROOT / "tests" / "emulator" / "mutations.csv").exists():
        found.append(Suite("mutations", "planted faults that the emulator must find", planted(thorough)))
    return [
        *found,
        Suite("pytest", "command line, Python package, packaging, parity", pytest),
        Suite("wheel", "the wheel, in fresh environments", wheel),
        Suite("format", "clang-format", lint("clang-format", "--dry-run", "-Werror", files=sources)),
        Suite("tidy", "clang-tidy", tidy),
        Suite("ruff", "ruff", lint("ruff", "check", ".")),
        Suite("ruff-format", "ruff format", lint("ruff", "format", "--check", ".")),
        Suite("shellcheck", "shellcheck", lint("shellcheck", "-x", files=shell_scripts)),
        Suite("mypy", "mypy", lint("mypy", "--config-file", "pyproject.toml")),
        Suite("sizes", "sizes of kernels, functions, files", script("sizes")),
    ]


def run_suite(suite: Suite) -> Count:
    log = LOGS / f"test-{suite.name}.log"
    log.unlink(missing_ok=True)
    print(f"{suite.what} ...", flush=True)
    start = time.monotonic()
    count = suite.run(log)
    print(f"{suite.what}: {count} ({time.monotonic() - start:.0f} s)", flush=True)
    if count.failed:
        print("".join(log.read_text(errors="replace").splitlines(keepends=True)[-60:]))
        print(f"the whole output: {log.relative_to(ROOT)}", flush=True)
    elif suite.name == "sizes":
        print(log.read_text().split("\n", 1)[1], end="")
    return count


def main() -> int:
    known = suites_by_name("--thorough" in sys.argv)
    parser = argparse.ArgumentParser(prog="./weft test", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the unit suites of the release build alone")
    parser.add_argument(
        "--only", nargs="+", metavar="SUITE", choices=sorted(known), help="these suites alone"
    )
    parser.add_argument("--thorough", action="store_true", help="plant every fault, not one of each kind")
    parser.add_argument("--list", action="store_true", help="name the suites and end")
    parser.add_argument("--sources", action="store_true", help="name the C++ sources and end")
    options = parser.parse_args()
    if options.sources:
        print("\n".join(sources()))
        return 0
    chosen = [suite for suite in known.values() if not options.only or suite.name in options.only]
    if options.quick:
        chosen = [suite for suite in chosen if suite.quick]
    if options.list:
        print("\n".join(f"{suite.name:12} {suite.what}" for suite in chosen))
        return 0
    total, failed = Count(), []
    for suite in chosen:
        count = run_suite(suite)
        total += count
        if count.failed:
            failed.append(suite.name)
        if count.failed and suite.name == "build":
            break  # nothing that follows would say more
    if failed:
        print(f"failed: {', '.join(failed)}; again: ./weft test --only {' '.join(failed)}")
    print(total)
    return 1 if total.failed else 0


def suites_by_name(thorough: bool) -> dict[str, Suite]:
    LOGS.mkdir(parents=True, exist_ok=True)
    return {suite.name: suite for suite in suites(thorough)}


if __name__ == "__main__":
    sys.exit(main())
