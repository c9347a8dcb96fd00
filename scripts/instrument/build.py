"""Compiles the instrumented copy of an area with the commands of a finished build, and links the library, the tool and
the test programs with it. The tree and the build stay as they are."""

from __future__ import annotations

import concurrent.futures
import fcntl
import json
import os
import re
import resource
import shlex
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from instrument.area import KEPT, ROOT, Area
from instrument.copy import Copy, Place

CORES = os.cpu_count() or 2
# Places that a compiler names: of errors, else of all that led to them.
COMPLAINTS = (r"^(\S+?):(\d+):(\d+): (?:fatal )?error:", r"^(\S+?):(\d+):(\d+):")
# How much more processor time than by itself until a mutated test counts as hanging, with some seconds besides. Other
# work on the machine stretches a test's time, but not its processor time.
SLOWER = 5
# What the package loads, from one folder. A build with a sanitizer has none.
PYTHON_LIBRARIES = ("libweft_ffi.so", "libweft_ladder.so")
ROUNDS = 12  # of compilation: an edit that does not compile may hide another


def processor_time() -> float:
    """Of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Failure(Exception):
    """What cannot be built, with the reason."""


def run(command: Sequence[str], folder: Path) -> tuple[int, str]:
    environment = {**os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1", "LC_ALL": "C"}
    done = subprocess.run(
        list(command), cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def tail(text: str, lines: int = 25) -> str:
    return "\n".join("    " + line[:240] for line in text.strip().splitlines()[-lines:])


def with_objects(command: str, target: str, replaced: dict[str, Path], output: Path) -> str | None:
    """The command that links a target, with other objects in place of some, before all that stay; none where it is no
    such command."""
    objects = " ".join(shlex.quote(str(path)) for path in replaced.values())
    command, outputs = re.subn(rf"-o {re.escape(target)}(?=\s)", f"-o {output}", command)
    command, places = re.subn(r"(?=(?<=\s)\S+\.o\s)", f"{objects} ", command, count=1)
    for original in replaced:
        command = re.sub(rf"(?<=\s){re.escape(original)}(?=\s)", "", command)
    return command if (outputs, places) == (1, 1) else None


class Build:
    """A finished build folder: how its objects are compiled and its programs linked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / "compile_commands.json").exists():
            raise Failure(f"no {folder}: ./weft build {folder.name} makes it")
        self.entries = json.loads((folder / "compile_commands.json").read_text())

    def objects(self, area: Area) -> dict[str, tuple[str, list[str]]]:
        """The area's objects: object -> its source and command. References and kernels for a GPU are not among them."""
        found = {}
        for entry in self.entries:
            file = Path(entry["file"])
            name = os.path.relpath(file, self.folder if file.is_relative_to(self.folder) else ROOT)
            if file.name not in KEPT and re.fullmatch(area.objects, name):
                words = shlex.split(entry["command"])
                found[words[words.index("-o") + 1]] = (entry["file"], words)
        if "_emulated" in area.objects and not any("_emulated" in name for name in found):
            raise Failure(f"{self.folder} compiles no kernels of '{area.name}' for the emulator")
        return found

    def included(self, area: Area) -> set[Path]:
        """The files of the tree that the area's objects were compiled from."""
        files: set[Path] = set()
        for name in self.objects(area):
            _, listed = run(["ninja", "-C", str(self.folder), "-t", "deps", name], ROOT)
            words = [line.strip() for line in listed.splitlines() if line.startswith("    ")]
            files |= {(self.folder / word).resolve() for word in words}
        if not files:
            raise Failure(f"{self.folder} has not compiled '{area.name}': ./weft build {self.folder.name}")
        return files

    def link(self, target: str, replaced: dict[str, Path], output: Path) -> None:
        """Links as the build does, with those of the other objects that the target has. They come first: of an inline
        function of the kit, which other ops have too, the linker takes the first copy."""
        code, listed = run(["ninja", "-t", "commands", target], self.folder)
        command = listed.strip().splitlines()[-1] if code == 0 else ""
        replaced = {name: path for name, path in replaced.items() if name in command.split()}
        if command and not replaced:
            shutil.copy2(self.folder / target, output)
            return
        changed = with_objects(command, target, replaced, output)
        if changed is None:
            raise Failure(f"ninja does not say how {target} is linked:\n{tail(listed)}")
        command = changed
        code, said = run(["bash", "-c", re.sub(r"&& :\s*$", "", command)], self.folder)
        if code != 0:
            raise Failure(f"{target} does not link with the instrumented objects:\n{tail(said)}")


class Instrumented:
    """An area's instrumented library, in a folder with the tool and the test programs."""

    def __init__(self, area: Area, build: Build) -> None:
        self.area, self.build = area, build
        self.folder = build.folder.parent / "instrumented" / build.folder.name / area.name
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / "lock").open("w")  # another process would replace what this one runs
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.copy = Copy(area, self.folder, build.included(area))
        self.objects = {
            name: self.folder / re.sub(r"\W+", "_", name.split(".dir/")[-1].removesuffix(".o")).__add__(".o")
            for name in build.objects(area)
        }

    def make(self) -> None:
        start = processor_time()
        self._make()
        self.seconds = processor_time() - start

    def _make(self) -> None:
        for _ in range(ROUNDS):
            self.copy.write()
            with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
                said = list(pool.map(self._compile, self.objects))
            wrong = [text for code, text in said if code != 0]
            if not wrong:
                break
            if not any(self.copy.drop(self._complaints(wrong, pattern)) for pattern in COMPLAINTS):
                raise Failure(
                    f"the instrumented copy of '{self.area.name}' does not compile:\n{tail(wrong[0], 40)}"
                )
        else:
            raise Failure(
                f"the instrumented copy of '{self.area.name}' does not compile after {ROUNDS} rounds"
            )
        library = next(path for path in self.build.folder.glob("libweft.so.*.*")).name
        self.build.link(library, self.objects, self.folder / "libweft.so.0")
        loaded = [name for name in PYTHON_LIBRARIES if (self.build.folder / name).exists()]
        for program in ("weft", *self.area.programs(), *(loaded if self.area.python else ())):
            self.build.link(program, self.objects, self.folder / program)

    def _compile(self, name: str) -> tuple[int, str]:
        source, words = self.build.objects(self.area)[name]
        tree = self.folder / "tree"
        words = [word for word in words if word != "-Werror"]
        words[words.index("-o") + 1] = str(self.objects[name])
        if self.area.owns(os.path.relpath(source, ROOT)):
            words[words.index(source)] = str(tree / Path(source).relative_to(ROOT))
        added = [f"-I{tree}", f"-I{tree / 'src'}", "-w", "-Wno-narrowing"]
        launcher = [found] if (found := shutil.which("ccache")) else []
        # Behind a precompiled header, which has to come first.
        flags = ["-include", "sites/sites.h", "-fmax-errors=0", "-fdiagnostics-color=never"]
        return run([*launcher, words[0], *added, *words[1:], *flags], self.build.folder)

    def _complaints(self, said: list[str], pattern: str) -> list[tuple[str, int, int]]:
        """The places in the copy that a compiler names: file, line, column."""
        tree = self.folder / "tree"
        places = []
        for file, line, column in re.findall(pattern, "\n".join(said), re.MULTILINE):
            path = (self.build.folder / file).resolve()
            if path.is_relative_to(tree):
                places.append((str(path.relative_to(tree)), int(line), int(column)))
        return places

    def compiled(self) -> list[Place]:
        """The places that there is code of: no constants, no template that nothing instantiates."""
        numbers: set[int] = set()
        for name, path in self.objects.items():
            if re.search(r"\btest_\w+\.dir/", name):
                continue
            section = self.folder / "sites.bin"
            section.unlink(missing_ok=True)
            run(
                ["objcopy", f"--dump-section=weft_sites={section}", str(path), str(self.folder / "unused.o")],
                ROOT,
            )
            data = section.read_bytes() if section.exists() else b""
            numbers |= {number for (number,) in struct.iter_unpack("<i", data)}
        return [
            place for place in self.copy.places if place.id in numbers and place.id not in self.copy.dropped
        ]
