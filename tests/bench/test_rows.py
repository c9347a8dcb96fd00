"""Evidence: what is stored is right, and what is wrong with a row is found."""

from __future__ import annotations

import copy
import json
import subprocess
import time
from pathlib import Path

import pytest
from weft.report import html, markdown, steps
from weft.report.__main__ import case_problem
from weft.report.chain import HEADS, lost_files
from weft.report.compare import comparisons, refusal, summary, worst_first
from weft.report.pack import pack, unpack
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
    assert lost_files(ROOT / "evidence") == []


def test_packing_lost_no_row():
    """Each file's first step says what it was made of; where the history is here, that file proves it."""
    for path in sorted((ROOT / "evidence").glob("*/*.jsonl")):
        before = [line["before"]["sha256"] for line in map(json.loads, path.open()) if "step" in line]
        log = ["git", "log", "--format=%H", "--", str(path)]
        commits = subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
        for commit in commits:
            show = ["git", "show", f"{commit}:{path.relative_to(ROOT)}"]
            old = subprocess.run(show, cwd=ROOT, capture_output=True, check=False).stdout
            if steps.digest(old) in before:
                assert steps.proof_problems(old, path) == ""
                before.remove(steps.digest(old))
        if len(commits) > 1:
            assert before == [], "a step of the file names what no commit has"


def test_a_row_of_each_workload_case_stays_small_and_quick_to_render(tmp_path):
    """380 cases, each by weft and eight others: what the issue allows for all workloads is 10 MB and seconds."""
    common = {"checked_on": "8 parts (16 of 4096 ...)", "sm_mhz": 1980.0, "power_capped": 3}
    rows = [made_up.ENVIRONMENT]
    for number in range(380):
        case = CASE.replace("4,", f"{number + 1},")
        for side, name in [
            ("weft", "rows lanes=32 vectors=8"),
            *(("baseline", f"peer {i}.11.0+cu130") for i in range(8)),
        ]:
            for at in ("device", "cold"), ("device", "hot"), ("eager", "cold"), ("eager", "hot"):
                us = made_up.statistics(2.269726771853234 + number, 0.0226625586)
                speedup = {"ratio": 1.2345678901234567, "low": 1.2245678901234567, "high": 1.2445678901234567}
                rows.append(
                    made_up.row(
                        case, name, side, 1.0, time=at[0], cache=at[1], weft_speedup=speedup, **common
                    )
                    | {"us": us}
                )
    add_rows(tmp_path / "h200" / "all.jsonl", rows, chained=True)
    assert (tmp_path / "h200" / "all.jsonl").stat().st_size < 10e6 / 2, "the other half is for samples"
    begin = time.process_time()
    assert problems(tmp_path / "h200" / "all.jsonl", lambda line: "") == []
    assert len(markdown.render(tmp_path)) > 380 * 80
    assert len(html.records(tmp_path)) == 380 * 4
    assert time.process_time() - begin < 20


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
        ({"us": made_up.statistics(float("nan"), 0.1)}, "a time is no finite number above 0"),
        ({"us": made_up.statistics(float("inf"), 0.1)}, "a time is no finite number above 0"),
        ({"us": made_up.statistics(-2.0, -0.1)}, "a time is no finite number above 0"),
        ({"us": made_up.statistics(2.0, 0.1) | {"min": 0}}, "a time is no finite number above 0"),
        ({"us": made_up.statistics(2.0, 0.1) | {"std": -0.1}}, "a time is no finite number above 0"),
        ({"bytes": "many"}, "bytes is 'many'"),
        ({"bytes": -1.0}, "bytes is -1.0, expected a finite number"),
        ({"floor_us": float("nan")}, "floor_us is nan, expected a finite number"),
        ({"sm_mhz": float("inf")}, "sm_mhz is inf, expected a finite number"),
        ({"samples": -15}, "samples is -15, expected a finite number"),
        ({"weft_speedup": {"ratio": float("nan"), "low": 1.0, "high": 1.0}}, "weft_speedup is {'ratio': nan"),
        ({"weft_speedup": {"ratio": 1.0, "low": 2.0, "high": 1.0}}, "weft_speedup's interval is none"),
        ({"weft_speedup": {"ratio": 1.0}}, "weft_speedup is {'ratio': 1.0}"),
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
    for folder, case in ("c", CASE), ("d", CASE.replace("4,", "5,")):
        row = made_up.row(case, "rows", "weft", 2.0, env="e2")
        moved = stored(tmp_path / folder, [*right(), made_up.ENVIRONMENT | {"env": "e2"}, row])
        assert "its run was in another environment" in problems(moved, case_problem)[0]


OTHER = "rms_norm x=bf16[5,64]"


def several() -> list[made_up.Row]:
    """Lines of an environment and three cases."""
    cases = OTHER, OTHER + " eps=1e-05"
    return [*right(), *(made_up.row(case, "rows", "weft", 2.0) for case in cases)]


def unchained(lines: list[str]) -> None:
    lines[:] = [line[: line.rindex(',"chain"')] + "}" for line in lines]


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
        (lambda lines: replace(lines, 1, '"us":[2.0', '"us":[1.97'), 2),
        (lambda lines: replace(lines, 3, '"us":[2.0', '"us":[1.98'), 4),  # the last row too
        (lambda lines: lines.pop(1), 2),
        (lambda lines: lines.insert(1, lines[1]), 3),
        (lambda lines: lines.reverse(), 1),
        (lambda lines: lines.append(json.dumps(right()[1])), 5),
        (unchained, 1),
        (lambda lines: lines.pop(), 3),  # the last one cut off
        (lambda lines: lines.clear(), 0),
    ],
)
def test_a_row_that_is_edited_removed_or_slipped_in_breaks_the_chain(tmp_path, change, line):
    found = edited(stored(tmp_path, several()), change)
    assert any(f":{line}: " in problem and "chain" in problem for problem in found), found


def test_a_chain_taken_off_and_a_file_cut_short_are_found_in_the_real_evidence(tmp_path):
    for path in sorted((ROOT / "evidence" / "h200").glob("*.jsonl")):
        for change, said in (
            (unchained, "is not chained"),
            (lambda lines: lines.__delitem__(slice(-2, None)), "lines were cut off"),
        ):
            copied = tmp_path / path.stem / "h200" / path.name
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(path.read_bytes())
            (copied.parent.parent / HEADS).write_bytes((ROOT / "evidence" / HEADS).read_bytes())
            found = edited(copied, change)
            assert any(said in problem for problem in found), (path, found)


def test_a_file_that_is_gone_or_came_by_hand_is_found(tmp_path):
    path = stored(tmp_path, right())
    stray = path.with_name("stray.jsonl")
    stray.write_bytes(path.read_bytes())
    assert any("has no head" in problem for problem in problems(stray, case_problem))
    path.unlink()
    assert lost_files(tmp_path) == [f"{path}:1: is gone, but {HEADS} names it"]


def test_rows_are_added_behind_those_that_are_there(tmp_path):
    path = stored(tmp_path, right())
    before = path.read_bytes()
    stored(tmp_path, several()[3:])
    assert path.read_bytes().startswith(before), "rows that are there are not touched"
    assert problems(path, case_problem) == []


def test_packing_keeps_every_row_and_says_what_was_packed(tmp_path):
    made_up.evidence(tmp_path)
    path = tmp_path / "h200" / "norms.jsonl"
    rows = read(path)
    assert [row for line in pack(rows) for row in unpack(line)] == rows
    assert len(list(pack(rows))) < len(rows) / 10
    old = path.read_bytes()
    steps.repack(path)
    assert problems(path, case_problem) == [] and read(path) == rows
    assert steps.proof_problems(old, path) == ""
    assert "no step" in steps.proof_problems(old.replace(b"2026", b"2027"), path)
    changed = path.read_bytes().replace(b'"samples":15', b'"samples":14', 1)
    path.write_bytes(changed)
    assert "its rows are not those" in steps.proof_problems(old, path)


def test_a_line_that_is_no_packed_row_is_found(tmp_path):
    found = edited(stored(tmp_path, right()), lambda lines: replace(lines, 1, '"device cold"', '"device"'))
    assert any(":2: is no packed row" in problem for problem in found), found


def test_what_a_later_run_measured_again_may_be_dropped_and_is_told(tmp_path):
    path = stored(tmp_path, several())
    again = [row | {"run": "r2"} for row in right()[1:]]
    failed = made_up.row(OTHER, "rows", "weft", None, run="r2")
    stored(tmp_path, [*again, failed])
    old = path.read_bytes()
    assert steps.drop_superseded(path) == 1, "a later run without a time supersedes nothing"
    assert problems(path, case_problem) == []
    assert {(row["run"], row["case"]) for row in read(path) if "run" in row} == {
        ("r2", CASE),
        ("r1", OTHER),
        ("r1", OTHER + " eps=1e-05"),
        ("r2", OTHER),
    }
    assert steps.proof_problems(old, path) == ""
    assert steps.drop_superseded(path) == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[-1]["dropped"].append(["r1", "softmax x=bf16[4,64]", None])
    found = [what for _, what in steps.step_problems(lines)]
    assert found == ["dropped run r1 of 'softmax x=bf16[4,64]', which no other run has measured"]


def test_a_line_without_an_end_and_one_without_sense_are_found(tmp_path):
    path = stored(tmp_path, right())
    path.write_text(path.read_text() + "{")
    assert any(":3: the last line does not end" in problem for problem in problems(path, case_problem))
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


def test_the_first_of_weft_s_rows_is_compared():
    rows = right()
    rows.append(made_up.row(CASE, "another way", "weft", 8.0))
    (found,) = comparisons(rows)
    assert found.weft is rows[1]
    assert found.ratio(found.best) == 2.0


def test_a_win_needs_intervals_apart():
    rows = right()
    rows[2]["us"] = made_up.statistics(2.05, 0.02)
    (found,) = comparisons(rows)
    assert found.verdict(found.best) == "level"
    rows[2]["us"] = made_up.statistics(1.0, 0.02)
    (found,) = comparisons(rows)
    assert found.verdict(found.best) == "loses"
    for median, verdict in ((1.99, "loses"), (2.01, "wins")):  # by little, but apart
        rows[1]["us"] = made_up.statistics(2.0, 0.001)
        rows[2]["us"] = made_up.statistics(median, 0.001)
        (found,) = comparisons(rows)
        assert found.verdict(found.best) == verdict


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


def test_a_baseline_that_rounds_in_between_is_told(tmp_path):
    rows = right()
    rows[2]["rounds_between"] = True
    assert problems(stored(tmp_path, rows), case_problem) == []
    assert "| torch 2.11.0 eager (rounds in between) 4.00 |" in markdown.render(tmp_path)
    (record,) = html.records(tmp_path)
    assert record["rival"] == "torch 2.11.0 eager (rounds in between)"
    assert "against torch 2.11.0 eager (rounds in between)" in summary(comparisons(rows))


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
