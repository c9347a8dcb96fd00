"""The table of planted faults, of which a run of all tests plants a few: each must fit today's sources."""

from __future__ import annotations

import csv
import re

import pytest

from tests.paths import ROOT

with (ROOT / "tests" / "emulator" / "mutations.csv").open(newline="") as table:
    FAULTS = list(csv.DictReader(table))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault['op']}: {fault['description']}")
def test_its_pattern_matches_once(fault: dict[str, str]) -> None:
    assert len(re.findall(fault["pattern"], (ROOT / fault["file"]).read_text(), re.MULTILINE)) == 1
