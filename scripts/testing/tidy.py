"""clang-tidy over the host sources of the release build: a source is read again when anything that it includes, its
command, the tool or the configuration has changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from testing import keys
from testing.deadline import Deadline, each
from testing.suite import ROOT, WHOLE, Count, Counts, Parts, beside_python

BUILD = ROOT / "build" / "release"
# Kernels and the emulator speak CUDA and fibers, which the checks misread; tests repeat gtest's macros.
CHECKED = re.compile(
    r"(src/(core|io|verify|bench|binding|cli)/[^/]+|(ops|pipelines)/[^/]+/(tool/)?(?!test)[^/]+)\.cpp"
)


def commands() -> dict[str, str]:
    """The compile command of each source that is checked."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    named = ((os.path.relpath(entry["file"], ROOT), entry["command"]) for entry in entries)
    return {name: command for name, command in sorted(named) if CHECKED.fullmatch(name)}


def included() -> dict[str, list[Path]]:
    """Object -> the files that it was compiled from, as ninja has them from the compiler."""
    found: dict[str, list[Path]] = {}
    files: list[Path] = []
    for line in keys.output("ninja", "-C", BUILD, "-t", "deps").splitlines():
        if line.startswith(" "):
            files.append((BUILD / line.strip()).resolve())
        elif line.endswith("(VALID)"):
            files = found.setdefault(line.split(":")[0], [])
        else:  # of an object that has not been compiled since something changed
            files = []
    return found


def parts() -> Parts:
    graph = included()
    common = keys.digest(keys.of_machine(), keys.of_file(ROOT / ".clang-tidy"))
    result: dict[str, str | None] = {}
    for name, command in commands().items():
        compiled = re.search(r" -o (\S+)", command)
        files = graph.get(compiled[1], []) if compiled else []
        key = keys.digest(common, command, *(f"{file} {keys.of_file(file)}" for file in files))
        result[name] = key if files else None
    return result or {WHOLE: None}


def check(tool: str, name: str) -> tuple[str, bool]:
    """What clang-tidy says of a source, and whether that must be mended or is only worth a look."""
    options = ["--quiet", "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-error"]
    options += ["--extra-arg=-Wno-ignored-gch"]  # g++'s precompiled headers, which clang does not read
    command = [tool, "-p", str(BUILD), *options, name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    return done.stdout + (done.stderr if done.returncode else ""), done.returncode != 0


def run(log: Path, names: Sequence[str], deadline: Deadline) -> Counts:
    tool = beside_python("clang-tidy")
    if tool is None:
        return {name: Count(skipped=1) for name in names}
    found: dict[str, Count | None] = {}
    with log.open("a") as output:
        for name, said in each(lambda name: check(tool, name), names, deadline.halfway()):
            if said is None:
                found[name] = None
                continue
            findings, wrong = said
            output.write(findings)
            found[name] = Count(failed=1) if wrong else Count(passed=1)
        counts = [count for count in found.values() if count is not None]
        output.write(f"{len(counts)} sources read, {sum(count.failed for count in counts)} with findings\n")
    return found
