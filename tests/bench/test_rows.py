"""Evidence: what is stored is right, and what is wrong with a row is found."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from weft.report import markdown
from weft.report.__main__ import case_problem
from weft.report.compare import comparisons, refusal, summary, worst_first
from weft.report.rows import add_rows, problems, read, read_all

from tests.bench import made_up

ROOT = Path(__file__).resolve().parents[2]
CASE = "rms_norm x=bf16[4,64] weight=bf16[64]"


def stored(folder: Path, rows: list[made_up.Row], chained: bool = True) -> Path:
    path = folder / "h200" / "cases.jsonl"
    add_rows(path, rows, chained)
    return path


def right() -> list[made_up.Row]:
    weft = made_up.row(CASE, "rows", "weft", 2.0)
    other = made_up.row(CASE, "torch 2.11.0 eager", "baseline", 4.0)
    return copy.deepcopy([made_up.ENVIRONMENT, weft, other])


def test_the_evidence_is_right():
    files = sorted((ROOT / "evidence").glob("*/*.jsonl"))
    assert files
    assert [problem for path in files for problem in problems(path, case_problem)] == []


def test_the_tables_are_rendered_from_the_evidence():
    page = ROOT / "docs" / "performance.md"
    assert page.read_text() == markdown.render(ROOT / "evidence"), "render it again: ./weft report --docs"


def test_right_rows_have_no_problem(tmp_path):
    assert problems(stored(tmp_path, right()), case_problem) == []
    made_up.evidence(tmp_path)
    assert [p for path, _ in read_all(tmp_path) for p in problems(path, case_problem)] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"case": "rms_norm x=bf17[4,64]"}, "its case is none"),
        ({"side": "rival"}, "side is 'rival', expected one of baseline, noise, weft"),
        ({"cache": "warm"}, "cache is 'warm'"),
        ({"env": "e2"}, "its environment 'e2' is not in the file before it"),
        ({"checked": False}, "has times, but was not checked"),
        ({"us": None}, "has no times, but is not said to be wrong"),
        ({"samples": 0}, "has times of no samples"),
        ({"samples": True}, "samples is True"),
        ({"us": made_up.statistics(2.0, 0.1) | {"p10": 3.0}}, "out of order"),
        ({"us": {"median": 1.0}}, "us holds median"),
        ({"us": made_up.statistics(float("nan"), 0.1)}, "a time is no number"),
        ({"bytes": "many"}, "bytes is 'many'"),
        ({"colour": "red"}, "has a field colour that the schema lacks"),
    ],
)
def test_each_fault_of_a_row_is_found(tmp_path, change, said):
    rows = right()
    rows[1].update(change)
    found = problems(stored(tmp_path, rows), case_problem)
    assert any(said in problem and ":2: " in problem for problem in found), found


@pytest.mark.parametrize("field", ["run", "name", "us", "floor_us", "env", "workload"])
def test_a_lacking_field_is_found(tmp_path, field):
    rows = right()
    del rows[1][field]
    assert problems(stored(tmp_path, rows), case_problem)


def test_environments_are_looked_at(tmp_path):
    rows = right()
    del rows[0]["driver"]
    assert "an environment without driver" in problems(stored(tmp_path, rows), case_problem)[0]
    other = stored(tmp_path / "b", [made_up.ENVIRONMENT | {"gpu": "NVIDIA H100"}])
    assert "is of a NVIDIA H100, in the folder of h200" in problems(other, case_problem)[0]
    moved = [*right(), made_up.ENVIRONMENT | {"env": "e2"}, made_up.row(CASE, "rows", "weft", 2.0, env="e2")]
    assert "its run was in another environment" in problems(stored(tmp_path / "c", moved), case_problem)[0]


def edited(path: Path, change) -> list[str]:
    lines = path.read_text().splitlines()
    change(lines)
    path.write_text("".join(line + "\n" for line in lines))
    return problems(path, case_problem)


def replace(lines: list[str], number: int, old: str, new: str) -> None:
    assert old in lines[number]
    lines[number] = lines[number].replace(old, new)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: replace(lines, 1, '"median": 2.0', '"median": 1.97'), 2),
        (lambda lines: replace(lines, 2, '"median": 4.0', '"median": 4.01'), 3),  # the last row too
        (lambda lines: lines.pop(1), 2),
        (lambda lines: lines.insert(1, lines[1]), 3),
        (lambda lines: lines.reverse(), 1),
        (lambda lines: lines.append(json.dumps(right()[1])), 4),
    ],
)
def test_a_row_that_is_edited_removed_or_slipped_in_breaks_the_chain(tmp_path, change, line):
    found = edited(stored(tmp_path, right()), change)
    assert any(f":{line}: " in problem and "chain" in problem for problem in found), found


def test_the_chain_begins_with_what_is_there(tmp_path):
    path = stored(tmp_path, right(), chained=False)
    before = path.read_bytes()
    assert problems(path, case_problem) == []
    stored(tmp_path, [right()[1]])
    stored(tmp_path, [right()[2]])
    assert path.read_bytes().startswith(before), "rows that are there are not touched"
    assert problems(path, case_problem) == []
    found = edited(path, lambda lines: replace(lines, 1, '"median": 2.0', '"median": 1.97'))
    assert any("chain breaks" in problem for problem in found)


def test_a_line_without_an_end_and_one_without_sense_are_found(tmp_path):
    path = stored(tmp_path, right(), chained=False)
    path.write_text(path.read_text() + "{")
    found = problems(path, case_problem)
    assert any("does not end" in problem for problem in found) and len(found) == 1
    path.write_text(path.read_text() + "\n")
    assert any("is no JSON" in problem for problem in problems(path, case_problem))


def test_only_rows_of_one_run_are_compared(tmp_path):
    first, again = right(), right()
    again[1]["run"] = again[2]["run"] = "r2"
    again[1]["us"] = made_up.statistics(1.0, 0.02)
    (found,) = comparisons([*first, *again[1:]])
    assert found.run == "r2"
    assert found.ratio(found.best) == 4.0
    (alone,) = comparisons([*first, again[1]])
    assert alone.best is None, "the baseline is of another run"


def test_a_win_needs_intervals_apart():
    rows = right()
    rows[2]["us"] = made_up.statistics(2.05, 0.02)
    (found,) = comparisons(rows)
    assert found.verdict(found.best) == "level"
    rows[2]["us"] = made_up.statistics(1.0, 0.02)
    (found,) = comparisons(rows)
    assert found.verdict(found.best) == "loses"


def test_cards_own_rates_are_no_rivals_and_wrong_baselines_are_told():
    rows = [
        *right()[:2],
        made_up.row(CASE, "card copy", "baseline", 1.0),
        made_up.row(CASE, "liger 0.8.5", "baseline", None),
    ]
    (found,) = comparisons(rows)
    assert found.best is None
    assert [row["name"] for row in found.wrong] == ["liger 0.8.5"]
    assert refusal(found.wrong[0]) == "wrong: out[0,0]: got nan, expected 1"
    assert refusal({"why": "failed: out of memory: " + "more " * 99}).startswith(
        "failed: out of memory: more more "
    )
    assert len(refusal({"why": "failed: " + "more " * 99})) <= 160
    assert found.share == 0.5


def test_cases_of_one_workload_row_are_told_apart_and_the_card_stands_where_no_rival_ran():
    cases = ["gemm a=bf16[8,16] b=bf16[8,16]", "gemm a=fp8_e4m3[8,16] b=fp8_e4m3[8,16] a_scale=fp32[1]"]
    cases.append("gemm a=bf16[8,16] b=bf16[8,16] up=bf16[8,16] activation=silu")
    rows = [made_up.row(case, "fma", "weft", 2.0, workload="gemm/row") for case in cases]
    rows.append(made_up.row(cases[0], "card copy", "baseline", 1.0, workload="gemm/row"))
    found = comparisons(rows)
    assert [c.title for c in found] == [
        "gemm/row bf16",
        "gemm/row fp8_e4m3",
        "gemm/row bf16 up activation=silu",
    ]
    assert [row["name"] for row in found[0].card] == ["card copy"]


def test_slow_and_wrong_cases_come_first_and_are_counted():
    rows = right()
    for number, (ours, theirs) in enumerate([(2.0, 8.0), (4.0, 2.0), (None, 3.0)]):
        case = f"softmax x=bf16[{number + 1},64]"
        rows += [made_up.row(case, "rows", "weft", ours), made_up.row(case, "other 1", "baseline", theirs)]
    found = worst_first(comparisons(rows))
    assert [c.ratio(c.best) for c in found] == [None, 0.5, 2.0, 4.0]
    text = summary(found)
    assert "4 cases, 1 of weft's results wrong" in text
    assert "geometric mean 1.59x, worst 0.50x" in text
    assert "2 won, 1 lost, 0 level" in text


def test_rows_are_read_as_they_were_written(tmp_path):
    path = stored(tmp_path, right())
    assert [{k: v for k, v in row.items() if k != "chain"} for row in read(path)] == right()
