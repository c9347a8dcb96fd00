#!/usr/bin/env python3
"""Plants faults in the real kernels, one at a time, and demands that the emulator finds each.

A row of mutations.csv is a regular expression that must match exactly once in a file, its replacement, the
build whose checks must find the fault, and the arguments of the tool for a case that reaches it. The mutated
file is compiled with the flags of that build into a copy of the library; the tree itself is never changed.
For each row the case must pass without the mutation, fail with it, and say what the column `finds` expects.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "emulator" / "mutations.csv"

# What the output of a run must say, by the words of the column `finds`.
FINDS = {
    "race": r"data race",
    "bounds": r"AddressSanitizer|outside of (its|a static)|index .* out of bounds",
    "gone": r"block has ended|AddressSanitizer: heap-use-after-free",
    "dependency": r"dependency_wait",
    "alignment": r"misaligned|not a multiple of",
    "barrier": r"divergent|deadlock|no initialised mbarrier|half arrived|middle of a phase|released twice"
    r"|between cluster_arrive and cluster_wait",
    "stream": r"on another stream",
    "operation": r"on its way|is still read by|the block ends while|after the operation was issued",
    "transactions": r"bytes of transactions|an arrival too many|too few bytes",
    "fence": r"without fence_proxy_async|no wgmma_fence|no fence_mbarrier_init",
    "wait": r"before wgmma_wait|wgmma in flight|no wgmma_fence since",
    "lane": r"reads lane|a lane of the warp has exited|divergent warp",
    "result": r"two runs differ|got .*expected|expected .*got|allowed|is not the op's to write",
}


# What it must say besides, except of wrong results and of whole launches.
NAMED = r"kernel '\w+', block \(\d+,\d+,\d+\), thread \(\d+,\d+,\d+\)"


@dataclass(frozen=True)
class Mutation:
    op: str
    file: str
    description: str
    pattern: str
    replacement: str
    build: str
    finds: str
    case: str

    def name(self) -> str:
        return f"{self.op}: {self.description} ({self.build})"

    def arguments(self) -> list[str]:
        """The tool's arguments: `fuzz op ...` as it stands, anything else is a case for verify."""
        words = shlex.split(self.case)
        return words if words[0] in {"fuzz", "verify"} else ["verify", self.case]


class Failure(Exception):
    """A row that does not hold, with the reason."""


def run(command: list[str], folder: Path, seconds: int = 900) -> tuple[int, str]:
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "ASAN_OPTIONS": "detect_leaks=0",
        "CCACHE_BASEDIR": str(ROOT),  # one checkout's objects serve another's, as in the build
        "CCACHE_NOHASHDIR": "1",
    }
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failure(f"still running after {seconds} s: {shlex.join(command)}") from error
    return done.returncode, done.stdout.decode(errors="replace")


class Build:
    """A finished build folder, from whose commands a mutated library is made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / "weft").exists():
            raise Failure(
                f"no {folder}/weft: build it first (cmake --preset {folder.name} && ninja -C {folder} weft)"
            )
        entries = json.loads((folder / "compile_commands.json").read_text())
        self.objects: dict[str, list[dict[str, str]]] = {}
        for entry in entries:
            found = re.search(r"generated/ops/(\w+)/\w+_emulated\.cpp$", entry["file"])
            if found:
                self.objects.setdefault(found[1], []).append(entry)
        self.passed: set[str] = set()

    def check_unmutated(self, mutation: Mutation) -> None:
        if mutation.case in self.passed:
            return
        code, output = run([str(self.folder / "weft"), *mutation.arguments(), "--device", "emulator"], ROOT)
        if code != 0:
            raise Failure(f"fails without the mutation (exit {code}):\n{tail(output)}")
        self.passed.add(mutation.case)

    def includes(self, name: str, file: str) -> bool:
        """Whether an object was compiled from a file of the tree."""
        _, listed = run(["ninja", "-t", "deps", name], self.folder)
        names = [line.strip() for line in listed.splitlines() if line.startswith("    ")]
        return not names or any((self.folder / at).resolve() == ROOT / file for at in names)

    def compile(self, mutation: Mutation, scratch: Path) -> dict[str, Path]:
        """Recompiles what the mutated file is part of against the mutated tree; object in the build -> mutated one."""
        made = {}
        if mutation.op not in self.objects:
            raise Failure(f"the build compiles no kernels of '{mutation.op}'")
        launcher = [found] if (found := shutil.which("ccache")) else []
        for number, entry in enumerate(self.objects[mutation.op]):
            words = [word for word in shlex.split(entry["command"]) if not word.endswith("ccache")]
            original = words[words.index("-o") + 1]
            if not self.includes(original, mutation.file):
                continue
            target = scratch / f"mutated{number}.o"
            words[words.index("-o") + 1] = str(target)
            words[1:1] = [f"-I{scratch}", f"-I{scratch / 'src'}"]
            words.append("-Wno-error")  # a fault may leave a variable unused
            code, output = run([*launcher, *words], Path(entry["directory"]))
            if code != 0:
                raise Failure(f"the mutated kernel does not compile:\n{tail(output)}")
            made[original] = target
        if not made:
            raise Failure(f"no kernel of '{mutation.op}' includes {mutation.file}")
        return made

    def link(self, objects: dict[str, Path], scratch: Path) -> Path:
        """The library with the mutated objects, and the tool beside it, which looks there first."""
        library = next(self.folder.glob("libweft.so.*.*"))
        code, output = run(["ninja", "-t", "commands", library.name], self.folder)
        if code != 0:
            raise Failure(f"ninja does not know how {library.name} is linked:\n{tail(output)}")
        command = output.strip().splitlines()[-1]
        for original in objects:
            if original not in command:
                raise Failure(f"{original} is not part of {library.name}")
            command = command.replace(original, "")
        # The mutated objects come first: of an inline function of the kit, which other ops have too, the linker
        # takes the first copy.
        copy = scratch / "libweft.so.0"
        first = f"-o {copy} {' '.join(map(str, objects.values()))}"
        command, count = re.subn(rf"-o {re.escape(library.name)}(?=\s)", first, command)
        if count != 1:
            raise Failure(f"cannot redirect the link of {library.name}")
        code, output = run(["bash", "-c", re.sub(r"&& :\s*$", "", command)], self.folder)
        if code != 0 or not copy.exists():
            raise Failure(f"the mutated library does not link:\n{tail(output)}")
        shutil.copy2(self.folder / "weft", scratch / "weft")
        return scratch / "weft"


def tail(text: str, lines: int = 25) -> str:
    return "\n".join("    " + line[:240] for line in text.strip().splitlines()[-lines:])


def mutate(mutation: Mutation, scratch: Path) -> None:
    """Puts the mutated file into `scratch`, with the files that find it by a path relative to their own."""
    source = ROOT / mutation.file
    text, count = re.subn(mutation.pattern, mutation.replacement, source.read_text(), flags=re.MULTILINE)
    if count != 1:
        raise Failure(f"the pattern matches {count} times in {mutation.file}, not once: {mutation.pattern}")
    target = scratch / mutation.file
    if mutation.file.startswith("ops/"):
        shutil.copytree(source.parent, target.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


@contextlib.contextmanager
def planted(mutation: Mutation, build: Build) -> Iterator[Path]:
    """A folder whose name follows from the mutation, so that a compiler's cache knows the next one like it."""
    name = hashlib.sha256(repr((mutation.op, mutation.file, mutation.pattern, mutation.replacement)).encode())
    scratch = build.folder.parent / "planted" / build.folder.name / name.hexdigest()[:16]
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check(mutation: Mutation, build: Build, keep: Path | None) -> str:
    """Raises Failure unless the planted fault is found; returns the line that says what was found."""
    with planted(mutation, build) as scratch:
        mutate(mutation, scratch)
        build.check_unmutated(mutation)
        tool = build.link(build.compile(mutation, scratch), scratch)
        code, output = run([str(tool), *mutation.arguments(), "--device", "emulator"], ROOT)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / (re.sub(r"\W+", "_", mutation.name()) + ".log")).write_text(output)
    if code == 0:
        raise Failure(f"not found: the case passes with the mutation:\n{tail(output)}")
    if code in (2, 3):
        raise Failure(f"the tool did not run the case (exit {code}):\n{tail(output)}")
    found = re.search(f".*({FINDS[mutation.finds]}).*", output, re.IGNORECASE)
    if not found:
        raise Failure(f"found (exit {code}), but not as '{mutation.finds}':\n{tail(output)}")
    if mutation.finds not in {"result", "dependency", "stream"} and not re.search(NAMED, output):
        raise Failure(f"found, but the report names no kernel, block and thread:\n{tail(output)}")
    return found[0].strip()[:140]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument(
        "--builds", type=Path, default=ROOT / "build", help="the folder of the folders release, asan, tsan"
    )
    parser.add_argument("--only", default="", help="a regular expression: rows whose name it is in")
    parser.add_argument("--build", choices=["release", "asan", "tsan"], help="rows of this build only")
    parser.add_argument("--keep", type=Path, help="write the output of each mutated run into this folder")
    parser.add_argument("--list", action="store_true", help="print the rows, and do nothing")
    arguments = parser.parse_args()

    with arguments.table.open(newline="") as table:
        rows = [Mutation(**row) for row in csv.DictReader(table)]
    rows = [
        row for row in rows if re.search(arguments.only, row.name()) and arguments.build in (None, row.build)
    ]
    if arguments.list:
        print("\n".join(row.name() for row in rows))
        return 0
    builds: dict[str, Build] = {}
    missed = 0
    for number, row in enumerate(rows, 1):
        try:
            if row.build not in builds:
                builds[row.build] = Build(arguments.builds / row.build)
            said = check(row, builds[row.build], arguments.keep)
            print(f"[{number}/{len(rows)}] found: {row.name()}\n    {said}", flush=True)
        except Failure as failure:
            missed += 1
            print(f"[{number}/{len(rows)}] MISSED: {row.name()}\n  {failure}", flush=True)
    print(f"{len(rows) - missed} of {len(rows)} planted faults were found")
    return 1 if missed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
