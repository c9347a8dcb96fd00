"""Keys: one digest of all that the outcome of a test depends on.

A key that leaves something out would let a test be skipped that a change has broken, so what is in it is decided the
safe way round: every file of the tree is in, but for those that a suite names as nothing that it reads. Built
programs are in by the content of their objects. The machine is in by its processor, GPUs, libraries, packages and by
the variables of the environment.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from testing.suite import CORES, ROOT

VARIABLES = re.compile(
    r"(WEFT|GTEST|PYTHON|PYTEST|CUDA|NVIDIA|OMP|OPENBLAS|MKL|TORCH|JAX|XLA|HF|LD|ASAN|TSAN|UBSAN|LSAN|LC|CMAKE)_?.*"
    r"|C(C|XX|XXFLAGS|FLAGS|PPFLAGS)|LANG|PATH|HOME|USER|CI"
)
# What objects hold already, and what no program reads while it runs.
COMPILED = ("*.cpp", "*.cu", "*.cuh", "*.h")
PROSE = ("*.md", "docs/*", "LICENSE")
PYTHON = ("*.py", "*.pyi", "pyproject.toml", "tests/requirements.txt")
LAUNCHER = ("weft", "scripts/*", ".ci/*")
EVIDENCE = ("evidence/*",)


def digest(*parts: str | bytes) -> str:
    """Of several parts, each with its length, so that none can run into the next."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(f"{len(data)} ".encode() + data)
    return state.hexdigest()


@functools.cache
def of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def forget() -> None:
    """Files are read once, until this is called."""
    for function in (of_file, tree_files, objects, of_machine):
        function.cache_clear()


def output(*command: str | Path) -> str:
    """What a command prints; empty where it is missing or fails."""
    try:
        done = subprocess.run(list(command), cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


@functools.cache
def tree_files(root: Path) -> tuple[str, ...]:
    """Tracked or not, but for what git ignores; without git, all but what builds leave behind."""
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode == 0:
        return tuple(sorted({name for name in listed.stdout.split("\0") if name and (root / name).is_file()}))
    left = {"build", ".weft", ".git", "__pycache__"}
    found = (path for path in root.rglob("*") if path.is_file() and not left & set(path.parts))
    return tuple(sorted(str(path.relative_to(root)) for path in found))


def of_tree(without: Sequence[str] = (), only: Sequence[str] = (), root: Path = ROOT) -> str:
    """The names, modes and contents of the tree's files, but for those that match a pattern of `without`."""
    parts = []
    for name in tree_files(root):
        if any(fnmatch.fnmatch(name, pattern) for pattern in without):
            continue
        if only and not any(fnmatch.fnmatch(name, pattern) for pattern in only):
            continue
        runs = os.access(root / name, os.X_OK)
        parts.append(f"{name} {runs} {of_file(root / name)}")
    return digest(*parts)


@functools.cache
def objects(folder: Path, target: str) -> tuple[str, ...]:
    """The object files that a target of a build folder is linked from, its libraries' too."""
    return tuple(
        sorted(
            name
            for name in output("ninja", "-C", folder, "-t", "inputs", target).split()
            if name.endswith(".o")
        )
    )


def of_objects(folder: Path, names: Iterable[str]) -> str:
    return digest(*(f"{name} {of_file(folder / name)}" for name in names))


def of_programs(folder: Path) -> str:
    """The programs and libraries of a build folder."""
    names = sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    return digest(*(f"{path.name} {of_file(path)}" for path in names if is_program(path)))


def is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def of_op(name: str) -> str | None:
    """The op that an object belongs to."""
    found = re.search(r"(?:^|/)ops/(\w+)/", name)
    return found[1] if found else None


def _libraries() -> str:
    """Every shared library that the loader knows, by size and time."""
    paths = re.findall(r"=> (/\S+)", output("ldconfig", "-p") or output("/sbin/ldconfig", "-p"))
    found = (Path(path).stat() for path in sorted(set(paths)) if Path(path).exists())
    return digest(*(f"{status.st_size} {status.st_mtime_ns}" for status in found))


@functools.cache
def of_machine() -> str:
    processor = Path("/proc/cpuinfo")
    facts = processor.read_text() if processor.exists() else platform.processor()
    model = sorted(set(re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", facts, re.MULTILINE)))
    packages = sorted(f"{found.name} {found.version}" for found in importlib.metadata.distributions())
    debian = Path("/var/lib/dpkg/status")
    tools = [output(tool, "--version") for tool in ("c++", "cmake", "ninja", "ctest", "nvcc")]
    variables = sorted(f"{name}={value}" for name, value in os.environ.items() if VARIABLES.fullmatch(name))
    return digest(
        platform.machine(),
        platform.release(),
        platform.python_version(),
        str(CORES),
        *model,
        *packages,
        of_file(debian) if debian.exists() else "",
        _libraries(),
        *tools,
        *(shutil.which(browser) or "" for browser in ("chromium", "google-chrome")),
        output("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv"),
        *variables,
    )


def of_everything(*, without: Sequence[str] = (), programs: Path | None = None) -> str:
    """The machine, the tree but for what is named, and the programs of a build folder."""
    return digest(of_machine(), of_tree(without), of_programs(programs) if programs else "")
