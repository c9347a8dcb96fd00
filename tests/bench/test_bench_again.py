"""python -m weft.bench once more: what a run goes on with, and the command that makes its rows again."""

from __future__ import annotations

from pathlib import Path

import pytest
from weft.report.rows import add_rows

from tests.bench import made_up

pytest.importorskip("torch")
pytest.importorskip("weft")

from weft.bench import __main__ as bench


def test_a_sample_goes_on_where_another_ended(tmp_path: Path) -> None:
    words = ["--sample", "softmax,rms_norm", "--cases", "3", "--seed", "7"]
    every = list(bench.cases(bench.arguments(words)))
    assert len(set(every)) == 6
    done = tmp_path / "done.jsonl"
    rows = [made_up.row(every[i][1], "rows", "weft", 2.0, workload=None) for i in (1, 4)]
    add_rows(done, rows, chained=False)
    left = list(bench.cases(bench.arguments([*words, "--skip-done", str(done)])))
    assert left == [every[i] for i in (0, 2, 3, 5)]


def test_the_command_of_rows_has_what_decides_which_rows_there_are() -> None:
    for words in (
        ["--workload", "w.csv", "--only", "llama8b", "--against", "torch,liger", "--seed", "4"],
        ["--sample", "softmax,gemm", "--cases", "40", "--seed", "5"],
        ["--workload", "w.csv", "--seed", "6"],
    ):
        assert bench.command(bench.arguments(words)) == " ".join(["python -m weft.bench", *words])
