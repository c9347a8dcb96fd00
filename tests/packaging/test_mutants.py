"""Mutants and ceilings: what counts as found, what fails a run, and which parts of the library have any."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from instrument import area, measure, record
from instrument.build import Failure
from instrument.ceiling import held
from instrument.copy import Place
from instrument.measure import Mutant
from instrument.rules import Finder

from tests.paths import ROOT, script


class Copied:
    """An instrumented copy of three places, of which the tests reach two."""

    def __init__(self, marks: bytearray) -> None:
        self.area = area.area("amax")
        self.places = [Place(i, "ops/amax/a.cu", site) for i, site in enumerate(SITES, 1)]
        self.marks = marks
        self.copy = SimpleNamespace(area=self.area)

    unreached = measure.Measured.unreached


SITES = Finder("void f(int a) {\n    if (a > 1) {\n        g();\n    }\n}\n").sites()


def test_odds_are_a_choice_and_bounds_are_none() -> None:
    lines = ["if (chance(20)) g();", "if (r.below(7) == 0) g();", "h(r.below(n + 1));"]
    text = "\n".join(["void f(R& r, int n) {", *lines, "}"])
    rules = {(site.line, rule) for site in Finder(text).sites() for rule in site.rules}
    for line in (2, 3):
        assert (line, "a condition that never holds") in rules
        assert not any(at == line and ("constant" in rule or "comparison" in rule) for at, rule in rules)
    assert {(4, "a constant off by one"), (4, "an operator: + for -")} <= rules


@pytest.mark.parametrize(("ceiling", "holds"), [(3, True), (2, False), (0, True)])
def test_a_ceiling_is_the_last_number_that_holds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ceiling: int, holds: bool
) -> None:
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    (tmp_path / "unreachable.csv").write_text("file,what,line,reason\n")
    row = record.Row("amax", branches=9 if ceiling else 0, unreached=ceiling)
    monkeypatch.setattr(record, "read", lambda: {"amax": row})
    marks = bytearray(len(SITES) + 1)
    copied: Any = Copied(marks)
    marks[next(at.id for at in copied.places if at.site.kind == "here")] = measure.HERE  # the function alone
    assert len(copied.unreached()) == 3
    assert held(copied, write=False) is holds


VANISHES = "a test in which the process ends with 0"


def measured_of(monkeypatch: pytest.MonkeyPatch, codes: Mapping[str, int | str], seconds: float) -> Any:
    """Tests that end with these codes where they run with a mutant; what they were asked is in `ran`."""
    measured: Any = object.__new__(measure.Measured)
    measured.tests = [measure.Test(name.split(".")[0], name, seconds, b"\0\1") for name in codes]
    measured.ran = []
    measured.killers = measure.Killers(Path("nowhere.json"))

    def start(program: str, words: str, **_: object) -> SimpleNamespace:
        names = words.removeprefix("--gtest_filter=").split(":")
        assert {name.split(".")[0] for name in names} == {program}
        measured.ran.append(names)
        code: int | str = 0
        said = ""
        for name in names:  # the first that fails ends them
            said += f"[ RUN      ] {name}\n"
            if code := codes[name]:
                said += f"[  FAILED  ] {name} (9 ms)\n" if code == 1 else ""
                break
        else:
            said += "[==========] 3 tests from 1 test suite ran. (9 ms total)\n"
        code = 0 if code == VANISHES else code
        return SimpleNamespace(returncode=code, stdout=said)

    monkeypatch.setattr(measured, "_start", start)
    return measured


MUTANT = Mutant(Place(1, "ops/amax/a.cu", SITES[0]), 0)


@pytest.mark.parametrize("code", [1, -9, -11, 66, VANISHES, 0])
def test_whatever_a_test_ends_with_but_success_is_a_mutant_s_end(
    monkeypatch: pytest.MonkeyPatch, code: int | str
) -> None:
    measured = measured_of(monkeypatch, {"p.a": 0, "p.b": code, "q.c": 0}, seconds=0.1)
    assert (measured.killer(MUTANT) is None) == (code == 0)


def test_quick_tests_run_together_and_slow_ones_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = dict.fromkeys(("p.a", "p.b", "q.c", "q.d"), 0)
    quick = measured_of(monkeypatch, codes, seconds=0.5)
    assert quick.killer(MUTANT) is None
    assert quick.ran == [["p.a", "p.b"], ["q.c", "q.d"]]
    slow = measured_of(monkeypatch, codes, seconds=1.5)
    assert slow.killer(MUTANT) is None
    assert slow.ran == [["p.a"], ["p.b"], ["q.c"], ["q.d"]]


@pytest.mark.parametrize("code", [1, -11])
def test_what_found_a_mutant_is_tried_first_the_next_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    measured = measured_of(monkeypatch, {"p.a": 0, "p.b": 0, "p.c": code, "p.d": 0}, seconds=0.1)
    measured.killers = measure.Killers(tmp_path / "killers.json")
    assert measured.killer(MUTANT) == "p.c"
    measured.killers.write()
    assert measured.ran == [["p.a", "p.b", "p.c", "p.d"]]

    again = measured_of(monkeypatch, {"p.a": 0, "p.b": 1, "p.c": code, "p.d": 0}, seconds=0.1)
    again.killers = measure.Killers(tmp_path / "killers.json")
    assert again.killer(MUTANT) == "p.c"
    assert again.ran == [["p.c"]]

    blind = measured_of(monkeypatch, dict.fromkeys(("p.a", "p.b", "p.c"), 0), seconds=0.1)
    blind.killers = measure.Killers(tmp_path / "killers.json")
    assert blind.killer(MUTANT) is None, "what it found once is no verdict"
    assert blind.ran == [["p.c"], ["p.a", "p.b"]]


def test_a_run_that_was_broken_off_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    other = Mutant(MUTANT.place, 1)
    known = measure.Verdicts(path, "sources and tests")
    assert known.of(MUTANT) is None
    known.note(MUTANT, found=True)
    known.note(other, found=False)
    known.write()
    again = measure.Verdicts(path, "sources and tests")
    assert (again.of(MUTANT), again.of(other)) == (True, False)
    assert measure.Verdicts(path, "another test").of(MUTANT) is None


def test_what_is_explained_is_given_to_quick_tests_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mutants = script("mutants")
    reasons: list[Mutant] = []
    table = SimpleNamespace(of=lambda mutant: "a reason" if mutant in reasons else None)
    monkeypatch.setattr(mutants.record, "equivalent", lambda: table)
    measured = measured_of(monkeypatch, {"p.quick": 0, "p.slow": 1}, seconds=0.1)
    measured.tests[1] = measure.Test("p", "p.slow", mutants.QUICK + 1, b"\0\1")
    measured.killers = measure.Killers(tmp_path / "killers.json")
    assert mutants.survivors(measured, [MUTANT], float("inf")) == ([MUTANT], [])
    reasons.append(MUTANT)
    assert mutants.survivors(measured, [MUTANT], float("inf")) == ([MUTANT], [MUTANT])
    assert measured.ran == [["p.quick"], ["p.slow"], ["p.quick"]]
    assert mutants.survivors(measured, [MUTANT], 0.0) == ([], []), "out of time"


@pytest.mark.parametrize(
    ("found", "lost", "least", "status"),
    [(9, False, 0, 0), (9, True, 0, 1), (9, False, 95, 1), (10, False, 95, 0)],
)
def test_the_exit_code_of_mutants(
    monkeypatch: pytest.MonkeyPatch, found: int, lost: bool, least: int, status: int
) -> None:
    mutants = script("mutants")
    score = mutants.Score(tried=12, found=found, equivalent=2, lost=lost)
    monkeypatch.setattr(mutants, "run_op", lambda op, options, until: score)
    monkeypatch.setattr(sys, "argv", ["mutants", "amax", "--least", str(least)])
    assert mutants.main() == status


def test_a_survivor_that_was_found_before_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = script("mutants")
    places = [Place(i, "ops/amax/a.cu", site) for i, site in enumerate(SITES, 1)]
    planted = measure.mutants(places)
    score = tool.Score(tried=len(planted), found=len(planted) - 1, survivors=planted[:1])
    row = record.Row("amax", mutants=len(planted), tried=len(planted))
    expected: list[Mutant] = []
    monkeypatch.setattr(tool, "prepare", lambda op, build: SimpleNamespace(places=places))
    monkeypatch.setattr(tool, "judge", lambda *_: score)
    monkeypatch.setattr(tool.record, "read", lambda: {"amax": row})
    monkeypatch.setattr(tool.record, "survivors", lambda: SimpleNamespace(knows=expected.__contains__))
    words = ("ceiling", "record", "kit", "all", "survivors", "sample", "seed")
    options = SimpleNamespace(rule="", **dict.fromkeys(words, 0))
    assert tool.run_op("amax", options, 0.0).lost
    expected.append(planted[0])
    assert not tool.run_op("amax", options, 0.0).lost, "it survived when all were recorded"
    expected.clear()
    row.mutants += 1
    assert not tool.run_op("amax", options, 0.0).lost, "the sources are others than those that were recorded"


def test_a_test_that_fails_without_a_mutant_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured: Any = object.__new__(measure.Measured)
    measured.copy = SimpleNamespace(folder=tmp_path)
    code, leaves_marks = 0, True

    def start(*_: object, **__: object) -> SimpleNamespace:
        if leaves_marks:
            (tmp_path / "marks.bin").write_bytes(b"\1")
        return SimpleNamespace(returncode=code, stdout="", stderr="")

    monkeypatch.setattr(measured, "_start", start)
    assert measured._baseline("p", "p.a").marks == b"\1"
    code = 1
    with pytest.raises(Failure, match=r"p\.a fails without a mutant"):
        measured._baseline("p", "p.a")
    code, leaves_marks = 0, False
    with pytest.raises(Failure, match=r"p\.a fails without a mutant"):
        measured._baseline("p", "p.a")


def test_every_part_of_the_library_is_an_area() -> None:
    folders = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
    assert folders - set(area.PARTS) == {"sites"}, "these find the faults"
    for part in area.PARTS.values():
        files = set((ROOT / part.folder).rglob("*"))
        assert part.files(files), part.name
        assert all(part.owns(str(path.relative_to(ROOT))) for path in part.files(files))
        assert all(list(ROOT.glob(pattern)) for pattern in part.test_files), part.name
        assert part.sample > 0
        assert set(part.python) <= set(part.test_files) and bool(part.python) == bool(part.python_files())
    deep = area.PARTS["pipelines"]
    names = {str(path.relative_to(ROOT)) for path in deep.files(set())}
    assert {"pipelines/pi05/encoder.cpp", "pipelines/pi05/tool/report.cpp"} <= names
    assert set(area.KIT_OPS) <= set(area.ops())
