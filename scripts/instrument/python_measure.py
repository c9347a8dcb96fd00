"""What the tests of a part of the Python package reach of it, and which mutants they notice."""

from __future__ import annotations

import atexit
import hashlib
import json
import math
import queue
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instrument.area import ROOT, PythonArea
from instrument.build import CORES, Failure, tail
from instrument.copy import Place
from instrument.measure import Killers, Mutant
from instrument.python_rules import PythonFinder
from instrument.python_tree import FOLDER, PYTHON_TOGETHER_SECONDS, Tree, in_time

NOTHING: dict[str, Any] = {"code": 0, "seconds": {}}
WHOLE_SECONDS = 3600  # of all tests of a file, traced


@dataclass(frozen=True)
class PythonTest:
    """With the lines that it runs of each file, and those that were run for all tests of its file."""

    name: str
    seconds: float
    own: dict[str, set[int]]
    shared: dict[str, set[int]]


def batches(tests: Iterable[PythonTest]) -> Iterator[list[PythonTest]]:
    batch: list[PythonTest] = []
    for test in tests:
        if batch and sum(at.seconds for at in [*batch, test]) > PYTHON_TOGETHER_SECONDS:
            yield batch
            batch = []
        batch.append(test)
    if batch:
        yield batch


def digest(paths: Iterable[Path]) -> str:
    state = hashlib.sha256()
    for path in paths:
        state.update(f"{path} ".encode() + (path.read_bytes() if path.exists() else b""))
    return state.hexdigest()


class Reached:
    """What each file of tests runs: kept, because other parts have the same tests, until what it runs changes."""

    def __init__(self, trees: list[Tree]) -> None:
        self.path = FOLDER / "reached.json"
        self.trees = trees
        self.known = self._stored()
        self.helpers = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]

    def _stored(self) -> dict[str, Any]:
        stored: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        return stored

    def tests(self, files: list[str]) -> list[PythonTest]:
        free: queue.Queue[Tree] = queue.Queue()
        for tree in self.trees:
            free.put(tree)

        def measure(file: str) -> None:
            tree = free.get()
            try:
                self._measure(file, tree)
            finally:
                free.put(tree)

        with ThreadPoolExecutor(len(self.trees)) as pool:
            list(pool.map(measure, self.missing(files)))
        return [test for file in files for test in self._of(self.known[file])]

    def _state(self, file: str) -> str:
        ran = [ROOT / "python" / "weft" / name for name in self.known.get(file, {}).get("ran", [])]
        return digest([ROOT / file, *self.helpers, *ran])

    def missing(self, files: list[str]) -> list[str]:
        """Those of which it is not known."""
        return [file for file in files if self.known.get(file, {}).get("state") != self._state(file)]

    def _measure(self, file: str, tree: Tree) -> None:
        traced = tree.run([file], None, WHOLE_SECONDS)
        if traced is None or traced["code"] not in (0, 5):
            raise Failure(f"{file} fails without a mutant:\n{tail(tree.log())}")
        names = {name: 600.0 for name in traced["tests"] if name not in traced["failed"]}  # or skipped
        plain = tree.run([file], names, WHOLE_SECONDS) if names else NOTHING
        if plain is None or plain["code"] != 0:
            raise Failure(f"{file} fails without a mutant, and without its other tests:\n{tail(tree.log())}")
        tests = {
            name: {"seconds": seconds, "lines": traced["tests"][name]["lines"]}
            for name, seconds in plain["seconds"].items()
        }
        lines = [*traced["shared"], *(line for test in tests.values() for line in test["lines"])]
        ran = sorted({line[0] for line in lines})
        self.known[file] = {"tests": tests, "shared": traced["shared"], "ran": ran}
        self.known[file]["state"] = self._state(file)
        self.path.write_text(json.dumps(self._stored() | {file: self.known[file]}))

    @staticmethod
    def _of(known: dict[str, Any]) -> Iterator[PythonTest]:
        shared = _by_file(known["shared"])
        for name, test in known["tests"].items():
            yield PythonTest(name, test["seconds"], _by_file(test["lines"]), shared)


def _by_file(lines: list[tuple[str, int]]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for name, line in lines:
        found.setdefault(f"python/weft/{name}", set()).add(line)
    return found


def test_files(area: PythonArea) -> list[str]:
    return sorted({str(path.relative_to(ROOT)) for pattern in area.test_files for path in ROOT.glob(pattern)})


def is_ready(area: PythonArea) -> bool:
    """Whether it is known in this tree what the part's tests run: to find it out takes minutes."""
    return not Reached([]).missing(test_files(area))


class PythonMeasured:
    """A part of the package whose tests have run once."""

    def __init__(self, area: PythonArea) -> None:
        self.area = area
        self.folder = FOLDER / area.name.replace("/", "-")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.texts = {str(path.relative_to(ROOT)): path.read_text() for path in area.files()}
        found = [(file, *site) for file, text in self.texts.items() for site in PythonFinder(text).sites()]
        self.places = [Place(i, file, site) for i, (file, site, _, _) in enumerate(found)]
        self.lines = [lines for _, _, lines, _ in found]
        self.around = [around for *_, around in found]
        self.trees = [Tree() for _ in range(CORES)]
        atexit.register(self.close)
        self._free: queue.Queue[Tree] = queue.Queue()
        for tree in self.trees:
            tree.write()
            self._free.put(tree)
        self.tests = Reached(self.trees).tests(test_files(area))
        self.killers = Killers(self.folder / "killers.json")

    def close(self) -> None:
        for tree in self.trees:
            tree.close()

    def state(self) -> str:
        """A digest of all that verdicts depend on."""
        trees = [
            path for name in ("python", "tests", "scripts/instrument") for path in (ROOT / name).rglob("*.py")
        ]
        return digest([*sorted(trees), ROOT / "build" / "release" / "libweft_ffi.so"])

    def reaching(self, mutant: Mutant) -> list[PythonTest]:
        """The tests that may notice it: first those that run it themselves, the quick ones before others. Of a line
        that nobody runs, those of its function: torch.compile reads what Python does not run."""
        file, lines = mutant.place.file, set(self.lines[mutant.place.id])
        if file in self.area.copied:
            return sorted(self.tests, key=lambda test: test.seconds)
        if not any(lines & (test.own.get(file, set()) | test.shared.get(file, set())) for test in self.tests):
            lines = set(self.around[mutant.place.id])
        own = [test for test in self.tests if lines & test.own.get(file, set())]
        others = [test for test in self.tests if test not in own and lines & test.shared.get(file, set())]
        near = [test for test in others if file in test.own]
        far = [test for test in others if file not in test.own]
        return [test for some in (own, near, far) for test in sorted(some, key=lambda test: test.seconds)]

    def killer(self, mutant: Mutant, most_seconds: float = math.inf) -> str | None:
        """The first test that fails with the mutant; none where it survives all that there is time for."""
        asked = in_time(self.reaching(mutant), most_seconds)
        first = self.killers.first(mutant, asked)
        rest = [test for test in asked if test not in first]
        for batch in [*([first] if first else []), *batches(rest)]:
            if failed := self._fails(batch, mutant):
                self.killers.note(mutant, failed)
                return failed.name
        return None

    def _fails(self, tests: list[PythonTest], mutant: Mutant) -> PythonTest | None:
        """That which fails first."""
        site = mutant.place.site
        text = self.texts[mutant.place.file]
        planted = text[: site.start] + site.edits[0][1] + text[site.end :]
        tree = self._free.get()
        try:
            with tree.planted(mutant.place.file, planted):
                name = tree.fails({test.name: test.seconds for test in tests})
        finally:
            self._free.put(tree)
        return next((test for test in tests if test.name == name), None)
