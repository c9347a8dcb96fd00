"""Samples: drawn the same by seed, measured and stored like other cases, and what is said of their ratios."""

from __future__ import annotations

import math

import pytest
from weft.report import markdown, sample
from weft.report.__main__ import case_problem
from weft.report.compare import comparisons
from weft.report.rows import add_rows, problems, read

from tests.bench import made_up

pytest.importorskip("torch")

from weft._library import parse_case
from weft.bench import __main__ as bench

ON_CPU = ["--device", "cpu", "--rounds", "1", "--against", "torch eager"]


def given(*words: str):
    return bench.arguments([*ON_CPU, *words])


def drawn(ratios: dict[str, float], **changes) -> list:
    rows = []
    for case, ratio in ratios.items():
        rows.append(made_up.row(case, "rows lanes=32", "weft", 2.0, **changes))
        rows.append(made_up.row(case, "torch.compile 2.11.0 default", "baseline", 2.0 * ratio, **changes))
    return comparisons([made_up.ENVIRONMENT, *rows])


def test_a_sample_is_the_same_for_its_seed_and_has_cases_of_every_op_in_turn():
    first = bench.drawn(given("--sample", "softmax,rms_norm", "--cases", "5", "--seed", "4"))
    assert first == bench.drawn(given("--sample", "softmax,rms_norm", "--cases", "5", "--seed", "4"))
    assert first != bench.drawn(given("--sample", "softmax,rms_norm", "--cases", "5", "--seed", "5"))
    assert [line.split(" ")[0] for line in first] == ["softmax", "rms_norm"] * 5
    everything = bench.drawn(given("--sample", "all", "--cases", "1"))
    assert len(everything) >= 14 and len({line.split(" ")[0] for line in everything}) == len(everything)
    assert all(parse_case(line)["case"] == line for line in [*first, *everything])
    with pytest.raises(ValueError, match="no op is named rms"):
        bench.drawn(given("--sample", "rms"))


def test_one_of_case_workload_and_sample_is_asked_for():
    for words in (
        [],
        ["softmax x=bf16[4,4]", "--sample", "softmax"],
        ["--workload", "w.csv", "--sample", "softmax"],
    ):
        with pytest.raises(SystemExit):
            given(*words)


def test_rows_say_the_command_that_makes_them_again():
    asked = ["--only", "rms", "--against", "quack", "--seed", "3"]
    for words, said in (
        (["--workload", "w.csv", *asked], "--workload w.csv --only rms --against quack --seed 3"),
        (["softmax x=bf16[4,4]", "--seed", "3"], "'softmax x=bf16[4,4]' --against torch eager --seed 3"),
        (
            ["--sample", "softmax", "--cases", "2", *asked[4:]],
            "--sample softmax --cases 2 --against torch eager --seed 3",
        ),
    ):
        assert bench.command(given(*words)) == f"python -m weft.bench {said}"


def test_what_is_done_is_done_of_a_workloads_row(tmp_path):
    line = "softmax x=fp32[4,64] out=fp32[4,64]"
    (tmp_path / "w.csv").write_text(f'row,case\nfirst,"{line}"\nsecond,"{line}; softmax x=fp32[5,64]"\n')
    done = tmp_path / "done.jsonl"
    add_rows(
        done, [made_up.ENVIRONMENT, made_up.row(line, "rows", "weft", 2.0, workload="w/first")], chained=False
    )
    words = ["--workload", str(tmp_path / "w.csv"), "--skip-done", str(done)]
    assert list(bench.cases(given(*words))) == [("w/second", line), ("w/second", "softmax x=fp32[5,64]")]


def test_a_sample_is_stored_in_its_suite_with_its_seed(tmp_path, monkeypatch, capsys):
    lines = [f"softmax x=fp32[{rows},64] out=fp32[{rows},64]" for rows in (4, 5, 6)]
    monkeypatch.setattr(bench, "drawn", lambda given: lines)
    environment = bench.environment  # type: ignore[attr-defined]
    monkeypatch.setattr(bench, "environment", lambda *words: environment(*words) | {"gpu": "NVIDIA H200"})
    words = ["--sample", "softmax", "--seed", "11", "--evidence", str(tmp_path / "h200")]
    assert bench.main([*ON_CPU, *words]) == 0
    said = capsys.readouterr().out
    assert "3 drawn cases against the best baseline of each: geometric mean" in said
    assert "kernel  softmax reference" in said and "worst:" in said
    path = tmp_path / "h200" / "sampled.jsonl"
    assert problems(path, case_problem) == []
    rows = [row for row in read(path) if "run" in row]
    assert {row["seed"] for row in rows} == {11} and {row["case"] for row in rows} == set(lines)
    env = read(path)[0]
    assert "--sample softmax --cases 20" in env["command"] and "--seed 11" in env["command"]
    assert "### sampled" in markdown.render(tmp_path)


def test_the_distribution_is_that_of_the_ratios():
    ratios = [0.5, 0.8, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    d = sample.Distribution.of(ratios)
    assert d.cases == 11 and math.isclose(d.mean, math.prod(ratios) ** (1 / 11))
    assert math.isclose(d.p10, 0.8) and math.isclose(d.under, 2 / 11)
    one = sample.Distribution.of([0.7])
    assert (one.cases, one.p10, one.under) == (1, 0.7, 1.0)


@pytest.mark.parametrize(
    ("case", "dtypes", "rows"),
    [
        ("rms_norm x=bf16[4,64] weight=fp32[64] out=bf16[4,64]", "bf16+fp32 to bf16", "whole vectors, dense"),
        (
            "rms_norm x=bf16[4,64] out=fp8_e4m3[4,64] scale=fp32[1]",
            "bf16 to fp8_e4m3",
            "whole vectors, dense",
        ),
        ("softmax x=bf16[4,1001] out=@x", "bf16", "rows not of whole vectors"),
        (
            "quantize x=bf16[4,24] out=fp8_e4m3[4,24] scale=fp32[1]",
            "bf16 to fp8_e4m3",
            "rows not of whole vectors",
        ),
        ("softmax x=bf16[4,64]{128,1} out=bf16[4,64]", "bf16", "views of wider rows"),
        ("softmax x=fp32[4,64]+3 out=bf16[4,64]", "fp32 to bf16", "some at odd addresses"),
        ("embedding ids=int64[8] table=fp16[9,64] out=fp16[8,64]", "fp16", "whole vectors, dense"),
        (
            "attention q=bf16[1,4,2,64] k=bf16[1,4,2,64] out=bf16[1,4,2,64] lse=fp32[1,2,4]",
            "bf16",
            "whole vectors, dense",
        ),
    ],
)
def test_features_are_read_off_the_case_line(case, dtypes, rows):
    (c,) = drawn({case: 1.0}, bytes=3e6)
    found = sample.features(c)
    assert (found["dtypes"], found["rows"], found["size"]) == (dtypes, rows, "1 to 10 MB")
    assert (found["op"], found["kernel"]) == (case.split(" ")[0], case.split(" ")[0] + " rows")


def test_slow_features_and_cases_are_named():
    slow = {f"softmax x=bf16[{n},999] out=bf16[{n},999]": 0.5 for n in range(1, 9)}
    fast = {f"softmax x=bf16[{n},512] out=bf16[{n},512]": 2.0 for n in range(1, 9)}
    found = drawn(slow | fast, seed=7)
    said = sample.text(found)
    assert "16 drawn cases against the best baseline of each: geometric mean 1.00" in said
    assert "50 % under 0.9" in said
    by = {(feature, value): part for feature, value, part in sample.by_feature(sample.entries(found))}
    assert by["rows", "rows not of whole vectors"].mean == pytest.approx(0.5)
    assert by["rows", "whole vectors, dense"].mean == pytest.approx(2.0)
    worst = said[said.index("worst:") :].splitlines()[1:]
    assert len(worst) == 10 and all("999" in line for line in worst[:8])
    against_floor = sample.text(found, of_floor=True)
    assert "against the floor: geometric mean 0.50" in against_floor
    page = "\n".join(sample.markdown(found))
    assert "| seed | 7 | 16 |" in page and "| rows | rows not of whole vectors | 8 | 0.50 |" in page


def test_without_a_baseline_there_is_the_floor_alone():
    row = made_up.row("amax x=bf16[8,64] amax=fp32[1]", "vectors", "weft", 2.0, seed=7)
    found = comparisons([made_up.ENVIRONMENT, row])
    assert sample.text(found) == "no drawn case has the best baseline of each"
    assert "1 drawn cases against the floor" in sample.text(found, of_floor=True)
    assert "| seed | 7 | 1 |" in "\n".join(sample.markdown(found))
