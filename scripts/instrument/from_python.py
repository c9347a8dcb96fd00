"""Tests in Python of what is compiled: which of an instrumented library's places each marks, and which fail with a
mutant."""

from __future__ import annotations

import atexit
import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from instrument.build import CORES, Failure, tail
from instrument.python_tree import Tree

MARKS = 1 << 16  # kMost of sites/reached.h
WHOLE_SECONDS = 3600  # of all tests of a file


class FromPython:
    """Runs tests in processes that load the tool and the library of a folder."""

    def __init__(self, programs: Path) -> None:
        self.trees = [Tree(programs) for _ in range(CORES)]
        atexit.register(self.close)
        self._free: queue.Queue[Tree] = queue.Queue()
        for tree in self.trees:
            tree.write()
            self._free.put(tree)

    def close(self) -> None:
        for tree in self.trees:
            tree.close()

    @contextmanager
    def _tree(self) -> Iterator[Tree]:
        tree = self._free.get()
        try:
            yield tree
        finally:
            self._free.put(tree)

    def tests(self, files: list[str]) -> Iterator[tuple[str, float, bytes]]:
        """Each test that runs here, with its seconds and its marks: those of what is done for several tests as well."""
        with ThreadPoolExecutor(len(self.trees)) as pool:
            for found in pool.map(self._measured, files):
                yield from found

    def _measured(self, file: str) -> list[tuple[str, float, bytes]]:
        with self._tree() as tree:
            marks = tree.scratch / "marks.bin"
            marks.unlink(missing_ok=True)
            answer = tree.run([file], None, WHOLE_SECONDS, WEFT_REACHED=str(marks))
            if answer is None or answer["code"] not in (0, 5):
                raise Failure(f"{file} fails without a mutant:\n{tail(tree.log())}")
        found = []
        for name, test in answer["tests"].items():
            reached = bytearray(MARKS)
            for number, bits in (*answer["shared"], *test["marks"]):
                reached[number] |= bits
            found.append((name, test["seconds"], bytes(reached)))
        return found

    def fails(self, tests: dict[str, float], mutant: int) -> str | None:
        """Of tests with their seconds: that which fails first with the mutant."""
        with self._tree() as tree:
            return tree.fails(tests, WEFT_MUTANT=str(mutant))
