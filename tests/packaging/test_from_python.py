"""Tests in Python of an instrumented library: what each marks, and which mutants they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from instrument import from_python, measure, python_tree
from instrument.build import Failure
from instrument.from_python import MARKS, FromPython
from instrument.measure import PYTEST, batches

from tests.paths import ROOT

TESTS = """import os
import subprocess
import sys

import pytest


def mark(number, bits):
    if "WEFT_REACHED" in os.environ:
        with open(os.environ["WEFT_REACHED"], "r+b") as file:
            file.seek(number)
            file.write(bytes([bits]))


if "WEFT_REACHED" in os.environ:
    open(os.environ["WEFT_REACHED"], "wb").write(bytes(1 << 16))
mark(3, 1)


@pytest.fixture(scope="module", autouse=True)
def everyones():
    mark(4, 2)


def test_one():
    mark(5, 1)
    assert os.environ.get("WEFT_MUTANT") != "11"


def test_two():
    mark(6, 4)
    code = "import os; raise SystemExit(os.environ.get('WEFT_MUTANT') == '12')"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    if os.environ.get("WEFT_MUTANT") == "13":
        os._exit(0)


def test_three():
    pytest.skip("no card")
"""
FILE = "tests/part/test_marks.py"
ONE, TWO = f"{FILE}::test_one", f"{FILE}::test_two"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], FromPython]]:
    """Tests of this text in a tree of their own."""
    (tmp_path / FILE).parent.mkdir(parents=True)
    (tmp_path / "python").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    monkeypatch.setattr(python_tree, "ROOT", tmp_path)
    monkeypatch.setattr(python_tree, "FOLDER", tmp_path / "build")
    monkeypatch.setattr(python_tree, "IMPORTS", ())
    monkeypatch.setattr(from_python, "CORES", 1)
    made: list[FromPython] = []

    def of(text: str) -> FromPython:
        (tmp_path / FILE).write_text(text)
        made.append(FromPython(tmp_path))
        return made[-1]

    yield of
    for each in made:
        each.close()


def test_each_test_has_its_marks_and_those_of_all(asked: Callable[[str], FromPython]) -> None:
    found = {
        name: {number: bits for number, bits in enumerate(marks) if bits}
        for name, _, marks in asked(TESTS).tests([FILE])
    }
    assert found == {ONE: {3: 1, 4: 2, 5: 1}, TWO: {3: 1, 4: 2, 6: 4}}, "the third runs nowhere"


def test_a_mutant_is_found_by_what_fails_with_it(asked: Callable[[str], FromPython]) -> None:
    part = asked(TESTS)
    both = {ONE: 0.1, TWO: 0.1}
    assert [part.fails(both, mutant) for mutant in (10, 11, 12, 13)] == [None, ONE, TWO, TWO]
    assert part.fails({ONE: 0.1}, 12) is None


def test_what_fails_without_a_mutant_ends_the_run(asked: Callable[[str], FromPython]) -> None:
    with pytest.raises(Failure, match=r"test_marks.py fails without a mutant"):
        list(asked(TESTS + "\n\ndef test_false():\n    assert False\n").tests([FILE]))


def test_marks_have_the_size_that_a_library_maps() -> None:
    assert MARKS == 1 << 16
    assert "kMost = 1 << 16;" in (ROOT / "src/sites/reached.h").read_text()


def test_processes_of_python_take_more_tests_than_others_and_never_both() -> None:
    seconds = measure.TOGETHER_SECONDS
    python = [measure.Test(PYTEST, f"a{i}", seconds, b"") for i in range(5)]
    other = [measure.Test("p", f"b{i}", seconds, b"") for i in range(2)]
    sizes = [len(batch) for batch in batches([*python, *other])]
    assert sizes == [python_tree.PYTHON_TOGETHER_SECONDS // seconds, 1, 1, 1]
