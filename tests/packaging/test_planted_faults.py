"""The table of planted faults, of which a run of all tests plants a few: each must fit today's sources."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from tests.emulator import mutate
from tests.paths import ROOT

with (ROOT / "tests" / "emulator" / "mutations.csv").open(newline="") as table:
    FAULTS = list(csv.DictReader(table))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault['op']}: {fault['description']}")
def test_its_pattern_matches_once(fault: dict[str, str]) -> None:
    assert len(re.findall(fault["pattern"], (ROOT / fault["file"]).read_text(), re.MULTILINE)) == 1


@pytest.mark.parametrize(("pattern", "count"), [("void", 2), ("no such text", 0)])
def test_a_pattern_that_does_not_match_once_plants_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, count: int
) -> None:
    source = tmp_path / "src" / "kit" / "a.cuh"
    source.parent.mkdir(parents=True)
    source.write_text("void f();\nvoid g();\n")
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    fault = mutate.Mutation("amax", "src/kit/a.cuh", "a fault", pattern, "int", "release", "race", "amax")
    with pytest.raises(mutate.Failure, match=f"the pattern matches {count} times"):
        mutate.mutate(fault, tmp_path / "scratch")
    assert not (tmp_path / "scratch").exists()
