"""A copy of the tree in which one fault stands at a time, and the process that runs tests there."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from instrument.area import ROOT
from instrument.build import SLOWER, Failure
from instrument.in_tests import WAITS

FOLDER = ROOT / "build" / "mutants" / "python"
COPIED = ("python", "tests")  # what finds the tree by its own place; all else is linked
# What takes long to import is imported once.
IMPORTS = ("torch", "numpy", "ml_dtypes", "transformers", "diffusers", "safetensors", "plotly", "tvm_ffi")
SPARE_SECONDS = 5  # of processor time, besides, until a mutated test counts as hanging
IMPORT_SECONDS = 600  # at most, of all that a process does besides its tests
PYTHON_TOGETHER_SECONDS = 8  # of tests that run in one process, which imports the package anew
# Of one test, and of all tests of a mutant together: what takes longer is not asked.
LONGEST, ALTOGETHER = 60.0, 180.0
LATER = 1000  # seconds that a planted file is younger: what was compiled of the original is not taken for it


class Timed(Protocol):
    @property
    def seconds(self) -> float: ...


T = TypeVar("T", bound=Timed)


def in_time(tests: Iterable[T], most_seconds: float) -> list[T]:
    """Those that there is time for."""
    asked: list[T] = []
    spent = 0.0
    for test in tests:
        if test.seconds <= min(most_seconds, LONGEST) and spent + test.seconds <= ALTOGETHER:
            asked.append(test)
            spent += test.seconds
    return asked


class Tree:
    """One of several that work side by side, of this run alone. `programs` holds the tool and the library that tests
    run."""

    def __init__(self, programs: Path = ROOT / "build" / "release") -> None:
        self.programs = programs
        self.folder, self._lock = _free_folder()
        self.root = self.folder / "tree"
        self.scratch = Path(tempfile.mkdtemp(prefix="weft-mutants-"))  # where no repository is around it
        self._server: subprocess.Popen[str] | None = None

    def write(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        for path in ROOT.iterdir():
            link = self.root / path.name
            if path.name not in (*COPIED, ".git") and not link.is_symlink():
                link.symlink_to(path)
        if (ROOT / ".git").exists() and not (
            self.root / ".git"
        ).exists():  # of its own: a fault may write there
            clone = self.folder / "clone"
            shutil.rmtree(clone, ignore_errors=True)
            command = ["git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(clone)]
            subprocess.run(command, check=True, capture_output=True)
            (clone / ".git").rename(self.root / ".git")
        for name in COPIED:
            wanted = {path.relative_to(ROOT) for path in _sources(ROOT / name)}
            for path in _sources(self.root / name):
                if path.relative_to(self.root) not in wanted:
                    path.unlink()
            for path in wanted:
                _copy(ROOT / path, self.root / path)

    @contextmanager
    def planted(self, file: str, text: str) -> Iterator[None]:
        path = self.root / file
        original, time = path.read_bytes(), path.stat().st_mtime
        try:
            path.write_text(text)
            os.utime(path, (time, time + LATER))
            yield
        finally:
            path.write_bytes(original)
            os.utime(path, (time, time))

    def run(
        self, files: Iterable[str], tests: dict[str, float] | None, seconds: float, **environment: str
    ) -> dict[str, Any] | None:
        """Runs tests, each with its most seconds, or whole files, which are traced; none where they took too long."""
        answer = self.folder / "answer.json"
        request = {
            "files": list(files),
            "seconds": seconds,
            "answer": str(answer),
            "log": str(self.folder / "log.txt"),
            "scratch": str(self.scratch / "pytest"),
            "traced": str(self.root / "python" / "weft"),
            "environment": environment,
        } | ({} if tests is None else {"tests": tests})
        server = self._started()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        if not (line := server.stdout.readline()):
            raise Failure(f"{self.folder}: what runs the tests has ended: see server.txt there")
        return json.loads(answer.read_text()) if json.loads(line) is not None and answer.exists() else None

    def fails(self, tests: dict[str, float], **environment: str) -> str | None:
        """Of tests, each with its seconds by itself: the first that fails; the last that was begun, where the process
        did not end by itself."""
        limits = {name: SLOWER * seconds + SPARE_SECONDS for name, seconds in tests.items()}
        files = dict.fromkeys(name.split("::")[0] for name in tests)
        answer = self.run(files, limits, WAITS * sum(limits.values()) + IMPORT_SECONDS, **environment)
        if answer is not None and answer["code"] == 0 and len(answer["seconds"]) == len(tests):
            return None  # of its own accord, and after the last test
        name = str(answer["ended"]) if answer else ""
        return name if name in tests else next(iter(tests))

    def log(self) -> str:
        return (self.folder / "log.txt").read_text(errors="replace")

    def _started(self) -> subprocess.Popen[str]:
        if self._server is None:
            scripts = Path(__file__).parents[1]
            paths = (self.root / "python", scripts / "instrument" / "in_tests", scripts)
            environment = os.environ | {
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
                "PYTHONDONTWRITEBYTECODE": "1",
                "WEFT_TOOL": str(self.programs / "weft"),
                "WEFT_LIBRARY": str(self.programs / "libweft_ffi.so"),
                "TOKENIZERS_PARALLELISM": "false",
                "JAX_PLATFORMS": "cpu",
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
            }
            errors = (self.folder / "server.txt").open("w")
            self._server = subprocess.Popen(
                [sys.executable, "-m", "instrument.in_tests.server", *IMPORTS],
                cwd=self.root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        return self._server

    def close(self) -> None:
        if self._server is not None and self._server.stdin is not None:
            self._server.stdin.close()
            self._server.wait()
            self._server = None
        shutil.rmtree(self.scratch, ignore_errors=True)


def _free_folder() -> tuple[Path, IO[str]]:
    for number in count():
        folder = FOLDER / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
        else:
            return folder, lock
    raise AssertionError


def _sources(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]


def _copy(source: Path, target: Path) -> None:
    """Leaves a file that is right alone."""
    target.parent.mkdir(parents=True, exist_ok=True)
    old = target.stat() if target.exists() else None
    new = source.stat()
    if old is None or (old.st_mtime_ns, old.st_size) != (new.st_mtime_ns, new.st_size):
        shutil.copy2(source, target)
