"""Evidence whose chain somebody made anew, or nearly: it does not end as its head says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from weft.report.__main__ import case_problem, check
from weft.report.chain import HEADS, append
from weft.report.rows import problems

from tests.bench.test_rows import OTHER, edited, right, several, stored


def chained_anew(path: Path, change) -> list[str]:
    """What is said of a file that somebody changed and chained again, as only its head does not."""
    known = (path.parent.parent / HEADS).read_bytes()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        del line["chain"]
    change(lines)
    path.unlink()
    append(path, lines)
    (path.parent.parent / HEADS).write_bytes(known)
    return problems(path, case_problem)


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[-1].update(case=OTHER + " eps=0.0001"),
        lambda lines: lines[1].update(case=OTHER + " eps=0.0001"),
        lambda lines: lines.append(lines[-1] | {"case": OTHER + " eps=0.0001"}),
        lambda lines: lines.pop(),
    ],
)
def test_a_file_that_was_chained_again_does_not_end_as_its_head_says(tmp_path, change):
    found = chained_anew(stored(tmp_path, several()), change)
    assert any("the chain ends here" in problem for problem in found), found


@pytest.mark.parametrize("digit", range(16))
def test_every_digit_of_a_chain_counts(tmp_path, digit):
    def change(lines: list[str]) -> None:
        at = len(lines[2]) - 2 - 16 + digit
        lines[2] = lines[2][:at] + ("0" if lines[2][at] != "0" else "1") + lines[2][at + 1 :]

    found = edited(stored(tmp_path, several()), change)
    assert any(":3: the chain breaks here" in problem for problem in found), found


def test_a_check_fails_where_anything_is_wrong(tmp_path, capsys):
    path = stored(tmp_path, right())
    assert check(tmp_path) == 0
    assert "3 rows in 1 files are right" in capsys.readouterr().out
    kept = path.read_text()
    edited(path, lambda lines: lines.pop())
    assert check(tmp_path) == 1
    assert "the chain ends here" in capsys.readouterr().out
    path.write_text(kept)
    assert check(tmp_path) == 0
    path.unlink()
    assert check(tmp_path) == 1
    assert "is gone" in capsys.readouterr().out
