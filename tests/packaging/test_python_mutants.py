"""Mutants of the Python package: which faults a source may have, which tests reach them, and what counts as found."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from instrument import area, python_measure, python_tree, record
from instrument.build import Failure
from instrument.in_tests.trace import Tracer
from instrument.measure import mutants
from instrument.python_measure import PythonMeasured
from instrument.python_rules import PythonFinder

from tests.paths import ROOT


def planted(text: str) -> dict[str, set[str]]:
    """What the source becomes with each fault, by its rule."""
    found: dict[str, set[str]] = {}
    for site, *_ in PythonFinder(text).sites():
        changed = text[: site.start] + site.edits[0][1] + text[site.end :]
        found.setdefault(site.rules[0], set()).add(ast.unparse(ast.parse(changed)))
    return found


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("a < b", {"a comparison: <= for <": "a <= b"}),
        ("a not in b", {"a comparison: in for not in": "a in b"}),
        ("a < b > c", {"a comparison: <= for <": "a <= b > c", "a comparison: >= for >": "a < b >= c"}),
        ("not a", {"a not left out: not a": "a"}),
        ("a * b", {"an operator: + for *": "a + b"}),
        (
            "a and b",
            {"an operator: or for and": "a or b", "an operand left out: a": "b", "an operand left out: b": "a"},
        ),
        (
            "if a:\n    b",
            {
                "a condition that never holds: a": "if False:\n    b",
                "a condition that always holds: a": "if True:\n    b",
            },
        ),
        ("while a:\n    b", {"a condition that never holds: a": "while False:\n    b"}),
        ("a = 3", {"a constant off by one: 3": "a = 4"}),
        ("a = 2.0", {"a constant off by a percent: 2.0": "a = 2.02"}),
        ("a = True", {"a constant: False for True": "a = False"}),
        ("a = 'b'", {"another text: 'b'": "a = 'b_'"}),
        ("a = ', '", {"another text: ', '": "a = ', _'"}),
        ("a = 'some words'", {}),
        (
            "f(a, b, c=d)",
            {
                "a statement left out: f(a, b, c=d)": "pass",
                "two arguments that change places: a, b": "f(b, a, c=d)",
                "an argument left out: b": "f(a, c=d)",
                "an argument left out: c=d": "f(a, b)",
            },
        ),
        ("a = f(*b, c, help=d)", {}),
        ("a.b = c", {"a statement left out: a.b = c": "pass"}),
        ("a = b", {}),
        ("a = b\na = c", {"a statement left out: a = c": "a = b\npass"}),
        ("a += b", {"a statement left out: a += b": "pass", "an operator: - for +": "a -= b"}),
        ("raise a", {"a statement left out: raise a": "pass"}),
        ("def f():\n    return a", {"None returned: a": "def f():\n    return None"}),
        ("def f():\n    return None", {}),
        ("def f(a: int=1) -> 'T':\n    'Does.'", {"a constant off by one: 1": "def f(a: int=2) -> 'T':\n    'Does.'"}),
        ("a = [b, c]", {"an element left out: b": "a = [c]", "an element left out: c": "a = [b]"}),
        ("a = {b: c}", {"an element left out: b": "a = {}"}),
        ("a = min(b)", {"a function: max for min": "a = max(b)"}),
        ("try:\n    a\nexcept B:\n    c", {"nothing caught: B": "try:\n    a\nexcept ():\n    c"}),
        (
            "a = f'é {b:.2f} ü'",
            {"a field left out of a text: b": "a = f'é  ü'", "a format left out: .2f": "a = f'é {b} ü'"},
        ),
        ("a = 'é', b - c", {"another text: 'é'": "a = ('é_', b - c)", "an operator: + for -": "a = ('é', b + c)",
                            "an element left out: 'é'": "a = (b - c,)", "an element left out: b - c": "a = ('é',)"}),
        ("@f(1)\nclass A(B[2]):\n    __slots__ = ('c',)\n    d: E = 3",
         {"a constant off by one: 3": "@f(1)\nclass A(B[2]):\n    __slots__ = ('c',)\n    d: E = 4"}),
        ("if TYPE_CHECKING:\n    a = 1\n__all__ = ['b', 'c']\nT = dict[str, 'd']\nassert e == 1", {}),
    ],
)  # fmt: skip
def test_the_faults_of_a_source(text: str, faults: dict[str, str]) -> None:
    assert planted(text) == {rule: {ast.unparse(ast.parse(changed))} for rule, changed in faults.items()}


def test_every_fault_of_a_module_is_another_program() -> None:
    text = (ROOT / "python" / "weft" / "report" / "chain.py").read_text()
    for site, lines, _ in PythonFinder(text).sites():
        changed = text[: site.start] + site.edits[0][1] + text[site.end :]
        compile(changed, "changed", "exec")
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text)), site.rules
        assert site.line in lines or "def " in site.text, site.rules


def test_a_fault_is_reached_where_its_statement_runs() -> None:
    text = "def f(\n    a=1,\n):\n    if (\n        a > 2\n    ):\n        b(\n            3\n        )\n    return 4\n"
    reached = {site.rules[0]: lines for site, lines, _ in PythonFinder(text).sites()}
    assert reached["a constant off by one: 1"] == range(4, 11), "a default matters in the body"
    assert reached["a comparison: >= for >"] == range(4, 7)
    assert reached["a constant off by one: 3"] == range(7, 10)
    assert reached["None returned: 4"] == range(10, 11)
    (around,) = {around for *_, around in PythonFinder(text).sites() if around.start}
    assert around == range(4, 11)


MODULE = """import functools
@functools.cache
def kept():
    return other()
def other():
    return 1
def plain():
    return 2
"""


def test_what_is_cached_and_imported_is_reached_by_all_tests(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    names: dict[str, Any] = {}
    tracer = Tracer(tmp_path)
    traced = tracer._calls

    def run(call: Any) -> None:
        import sys  # noqa: PLC0415 - beside what it is for

        before = sys.gettrace()
        sys.settrace(traced)
        try:
            call()
        finally:
            sys.settrace(before)

    run(lambda: exec(compile(MODULE, str(path), "exec"), names))
    assert {line for _, line in tracer.shared} == {1, 2, 3, 5, 7} and not tracer.one
    tracer.shared.clear()
    run(names["kept"])
    assert tracer.shared == {("module.py", 4), ("module.py", 6)} and not tracer.one
    tracer.shared.clear()
    run(names["plain"])
    assert tracer.one == {("module.py", 8)} and not tracer.shared
    tracer.sharing = True
    run(names["other"])
    assert tracer.shared == {("module.py", 6)}


PART = """FACTOR = 2


def doubled(x):
    if x > 10:
        return FACTOR * x
    return x


def waits(until):
    while until:
        until -= 1
    return "over"


def untested():
    return 1
"""
TESTS = """import subprocess
import sys

from weft.part import module


def test_doubled():
    assert module.doubled(11) == 22


def test_in_a_process():
    code = "from weft.part import module; print(module.doubled(3))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "3\\n"


def test_waits():
    assert module.waits(2) == "over"
"""


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A package of one module with three tests; more tests are written into the file that it gives."""
    for path, text in (
        ("python/weft/__init__.py", ""),
        ("python/weft/part/__init__.py", ""),
        ("python/weft/part/module.py", PART),
        ("tests/part/test_module.py", TESTS),
        ("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["python"]\n'),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for module in (area, python_measure, python_tree):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    for module in (python_measure, python_tree):
        monkeypatch.setattr(module, "FOLDER", tmp_path / "build")
    monkeypatch.setattr(python_tree, "IMPORTS", ())
    monkeypatch.setattr(python_measure, "CORES", 1)
    monkeypatch.setattr(python_tree, "SPARE_SECONDS", 1)
    made: list[PythonMeasured] = []

    def make() -> PythonMeasured:
        part = area.PythonArea("python/part", "python/weft/part", ("tests/part/test_*.py",))
        made.append(PythonMeasured(part))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_fault_is_found_by_a_test_that_reaches_it(measured: Any) -> None:
    part = measured()
    by = {mutant.rule: part.killer(mutant) for mutant in mutants(part.places)}
    own = "tests/part/test_module.py::test_"
    assert by["a condition that never holds: x > 10"] == own + "doubled"
    assert by["a constant off by one: 2"] == own + "doubled", "of the module"
    assert by["a condition that always holds: x > 10"] == own + "in_a_process"
    assert by["a statement left out: until -= 1"] == own + "waits", "it never ends"
    assert by["another text: 'over'"] == own + "waits"
    assert {rule for rule, test in by.items() if test is None} == {
        "a comparison: >= for >",
        "a condition that never holds: until",
        "a constant off by one: 1",
        "None returned: 1",
    }
    unreached = [mutant for mutant in mutants(part.places) if not part.reaching(mutant)]
    assert {mutant.place.where() for mutant in unreached} == {"python/weft/part/module.py:17"}
    texts = [path.read_text() for path in python_tree.FOLDER.rglob("module.py")]
    assert texts == [PART], "no fault is left behind"


def test_what_fails_without_a_fault_ends_the_run(measured: Any) -> None:
    path = area.ROOT / "tests" / "part" / "test_module.py"
    path.write_text(TESTS + "\n\ndef test_false():\n    assert False\n")
    with pytest.raises(Failure, match=r"test_module.py fails without a mutant"):
        measured()
    path.write_text(TESTS + "\n\ndef test_skipped():\n    import pytest\n\n    pytest.skip('no card')\n")
    assert len(measured().tests) == 3


def test_parts_cover_the_package() -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "python" / "weft").rglob("*.py")}
    owned = [str(path.relative_to(ROOT)) for part in area.PYTHON.values() for path in part.files()]
    assert sorted([*owned, *area.left_out()]) == sorted(files), (
        "each file is of one part, or left out for a reason"
    )
    for part in area.PYTHON.values():
        assert all(list(ROOT.glob(pattern)) for pattern in part.test_files), part.name
        assert all(part.owns(str(path.relative_to(ROOT))) for path in part.files())
    page = record.rendered(record.PAGE.read_text())
    assert all(f"| `{part.folder}` |" in page for part in area.PYTHON.values())
