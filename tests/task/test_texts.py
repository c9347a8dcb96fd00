"""What is told of measured rows: tables, headlines, roofs, choices and the pages of them, word by word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from weft.report.pack import Row
from weft.task import bench, chain, dispatch
from weft.task.bench import cold, headline, pairs, table
from weft.task.outcome import Outcome, Refusal, Usage
from weft.task.spec import Task, load

TOML = """
[task]
name = "mod"
device = "cpu"
[spec]
reference = "reference.py:mod"
inputs = [
    { name = "x", dtype = "T", shape = "S 2*D" },
    { name = "y", dtype = "fp32", shape = "D K" },
]
outputs = [{ name = "out", dtype = "T", shape = "S" }, { name = "more", dtype = "T", shape = "S" }]
options = { eps = 0.5 }
[tolerance]
out = {}
more = {}
[[dispatch]]
bucket = "small"
when = "S <= 4 and T == 'fp32'"
[[dispatch]]
bucket = "wide"
when = "K > 8"
[[dispatch]]
bucket = "rest"
when = "1 == 1"
[[workloads]]
name = "a"
S = 4
D = 2
K = 1
T = "fp32"
[[workloads]]
name = "b"
S = 2
D = 2
K = 16
T = "fp32"
[[workloads]]
name = "c"
S = 8
D = 2
K = 16
T = "bf16"
[[workloads]]
name = "d"
S = 8
D = 2
K = 2
T = "fp32"
[baseline]
language = "python"
entry = "baseline/entry.py:run"
[candidates.one]
language = "python"
entry = "solution/one.py:run"
[candidates.two]
language = "cuda"
entry = "solution/two.cu:run"
"""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    (tmp_path / "task.toml").write_text(TOML)
    return load(tmp_path)


BASELINE = "unrecorded (python)"


def row(workload: str, side: str, name: str, us: float | None, **changes: Any) -> Row:
    times = None
    if us is not None:
        times = {"median": us, "mean": us, "std": 0.0, "min": 0.9 * us, "p10": 0.98 * us, "p90": 1.02 * us}
    return {
        "run": "r1", "case": f"mod {workload}", "workload": workload, "side": side, "name": name, "us": times,
        "time": "device", "cache": "cold", "env": "e1", "floor_us": 1.0, "bytes": 4e6, "flops": 8e6,
        "checked": us is not None, "samples": 9, **({} if us is not None else {"why": "out[0]: got 1"}), **changes,
    }  # fmt: skip


def measured() -> list[Row]:
    """`a`: one wins by the most. `b`: level. `c`: two is faster. `d`: nobody is."""
    times = {"a": (8.0, 4.0, 5.0), "b": (4.0, 4.0, 4.0), "c": (9.0, 6.0, 3.0), "d": (2.0, 4.0, 2.5)}
    rows = []
    for workload, (theirs, one, two) in times.items():
        rows += [
            row(workload, "baseline", BASELINE, theirs),
            row(workload, "weft", "one (python)", one),
            row(workload, "weft", "two (cuda)", two),
        ]
    return rows


def test_the_table_of_a_bench() -> None:
    rows = [
        row("a", "baseline", "theirs", 8.0), row("a", "weft", "ours", 4.0),
        row("a", "baseline", "theirs", 1234.5, cache="hot"), row("a", "weft", "ours", 1234.5, cache="hot"),
        row("a", "baseline", "theirs", 8.0, time="eager", cache="hot"),
        row("a", "weft", "ours", 16.0, time="eager", cache="hot", floor_us=0),
        row("a", "weft", "ours", 16.0, time="eager"),
        row("b", "baseline", "theirs", None, why="failed: no"), row("b", "weft", "ours", 2.0),
        row("c", "baseline", "theirs", 2.0), row("c", "weft", "ours", None),
    ]  # fmt: skip
    assert [" ".join(line.split()) for line in table(rows)] == [
        "a device cold baseline 8.00 us, candidate 4.00 us: 2.000x wins, 25 % of the floor",
        "a device hot baseline 1234.50 us, candidate 1234.50 us: 1.000x level, 0 % of the floor",
        "a eager hot baseline 8.00 us, candidate 16.00 us: 0.500x loses",
        "b device cold baseline none, candidate 2.00 us: not comparable, 50 % of the floor; theirs: failed: no",
        "c device cold baseline 2.00 us, candidate none: not comparable; ours: out[0]: got 1",
    ]
    assert table(rows)[1][:61] == f"  {'a':28} {'device hot':11} baseline   1234.50"
    assert len(table(rows, ("device cold",))) == 3
    assert headline(cold(rows)) == (
        "geometric mean 2.000x over 1 rows, worst 2.000x (a); 1 wins, 0 loses, 0 level"
    )
    assert headline([]) == headline(cold(rows[7:9])) == "nothing to compare"
    outcome = Outcome("bench")
    bench.judge_rows(rows, outcome)
    assert outcome.refused == [
        "every timed result is right: b: theirs: failed: no",
        "every timed result is right: c: ours: out[0]: got 1",
    ]
    assert outcome.notes == [headline(cold(rows))] and outcome.checked == []
    fine = Outcome("bench")
    bench.judge_rows(measured(), fine)
    assert fine.checked == ["every result was right before and after it was timed"] and fine.code == 0


def test_a_headline_of_several() -> None:
    assert headline(cold(measured())) == (
        "geometric mean 1.107x over 4 rows, worst 0.500x (d); 2 wins, 1 loses, 1 level"
    )


def test_what_measures_again(task: Task) -> None:
    assert bench.again(task, "bench --in-chain --candidate one", "a", 7) == (
        "weft task bench mod --in-chain --candidate one --only a --seed 7"
    )
    assert bench.again(task, "dispatch", "", 1) == "weft task dispatch mod --seed 1"
    assert [r.name for r in bench.chosen_rows(task, "")] == ["a", "b", "c", "d"]
    assert [r.name for r in bench.chosen_rows(task, "c")] == ["c"]
    with pytest.raises(Refusal, match=r"^no workload row has 'z' in its name$"):
        bench.chosen_rows(task, "z")
    assert bench.title(task, task.baseline) == BASELINE
    assert bench.title(task, task.candidates["two"]) == "two (cuda)"


def test_buckets(task: Task) -> None:
    assert dispatch.buckets(task) == [
        ("small", "S <= 4 and T == 'fp32'"),
        ("wide", "K > 8"),
        ("rest", "1 == 1"),
    ]
    assert [dispatch.bucket_of(task, r) for r in task.rows] == ["small", "small", "wide", "rest"]
    task.raw["dispatch"].pop()
    with pytest.raises(Refusal) as raised:
        dispatch.bucket_of(task, task.rows[3])
    assert str(raised.value) == (
        "row 'd' is in no bucket: the last one's condition is to hold for all rows ('1 == 1')"
    )
    task.raw["dispatch"] = []
    with pytest.raises(Usage, match=r"^task\.toml has no \[\[dispatch\]\] with bucket and when$"):
        dispatch.buckets(task)


def test_what_is_picked_from(task: Task) -> None:
    assert [side.name for side in dispatch.candidates(task)] == ["one", "two"]
    task.candidates["dispatch"] = task.candidates["one"].__class__(
        **{**task.candidates["one"].__dict__, "name": "dispatch"}
    )
    assert [side.name for side in dispatch.candidates(task)] == ["one", "two"]
    del task.candidates["two"]
    assert [side.name for side in dispatch.candidates(task)] == ["one"], "it may lose in a bucket"
    del task.raw["dispatch"][1:]
    with pytest.raises(
        Refusal, match=r"^one candidate in one bucket leaves nothing to pick: weft task bench compares"
    ):
        dispatch.candidates(task)
    del task.candidates["one"]
    with pytest.raises(Refusal, match=r"^task\.toml has no candidate besides the dispatcher$"):
        dispatch.candidates(task)


def near(value: float) -> Any:
    return pytest.approx(value)


def choices(task: Task) -> list[dispatch.Choice]:
    return dispatch.choose(task, measured())


def test_the_fastest_of_each_bucket(task: Task) -> None:
    small, wide, rest = choices(task)
    root = 2**0.5
    assert small == dispatch.Choice(
        "small", "S <= 4 and T == 'fp32'", "one", near(4.0), near(4 * root), near(root), 1.0,
        "the fastest of one 1.414x, two 1.265x", ("a", "b"),
    )  # fmt: skip
    assert wide == dispatch.Choice(
        "wide", "K > 8", "two", near(3.0), near(9.0), near(3.0), 3.0,
        "the fastest of one 1.500x, two 3.000x", ("c",),
    )  # fmt: skip
    assert rest == dispatch.Choice(
        "rest", "1 == 1", "baseline", near(2.0), near(2.0), 1.0, 1.0,
        "no candidate is faster: one 0.500x, two 0.800x", ("d",),
    )  # fmt: skip


def test_what_is_level_is_not_picked(task: Task) -> None:
    rows = measured()
    for at in rows:
        if at["workload"] in ("a", "b"):
            at["us"] = row("a", "weft", "", 4.0 if at["side"] == "baseline" else 3.99)["us"]
    assert choices(task)[0].reason == "the fastest of one 1.414x, two 1.265x"
    small = dispatch.choose(task, rows)[0]
    assert (small.entry, small.reason) == (
        "baseline",
        "no candidate is faster: one 1.003x (level), two 1.003x (level)",
    )


def test_what_has_no_time_is_not_picked(task: Task) -> None:
    rows = measured()
    rows[1] = row("a", "weft", "one (python)", None)
    small = dispatch.choose(task, rows)[0]
    assert (small.entry, small.reason) == ("two", "the fastest of one has no time in every row, two 1.265x")
    rows[0] = row("a", "baseline", BASELINE, None)
    with pytest.raises(Refusal, match=r"^bucket small: the baseline has no time in every row$"):
        dispatch.choose(task, rows)
    task.raw["dispatch"].insert(0, {"bucket": "none", "when": "S == 77"})
    with pytest.raises(
        Refusal, match=r"^bucket none has no workload row: what nobody measures is not dispatched$"
    ):
        dispatch.choose(task, measured())


CODE = '''\
"""Picks the entry of mod by its bucket. Rendered by `weft task dispatch`, with docs/dispatch.md."""

from pathlib import Path

from weft.task.entries import load_entry
from weft.task.spec import load
from weft.torch import NAMES as _NAMES  # noqa: F401 - for conditions on dtypes

_TASK = load(Path(__file__).resolve().parents[1])
_ONE = load_entry(_TASK, _TASK.candidate('one'))
_TWO = load_entry(_TASK, _TASK.candidate('two'))
_BASELINE = load_entry(_TASK, _TASK.baseline)


def entry_of(x, y):
    S = x.shape[0]
    T = _NAMES[x.dtype]
    K = y.shape[1]
    if S <= 4 and T == 'fp32':  # small
        return _ONE
    if K > 8:  # wide
        return _TWO
    return _BASELINE  # rest


def run(x, y, eps, out, more):
    entry_of(x, y)(x, y, eps, out, more)
'''
PAGE = """\
# Dispatch of mod

Rendered by `weft task dispatch` from run `r9`; `solution/dispatch.py` picks by the same conditions, the first that \
holds. No entry approximates another: all passed `weft task verify`.

| bucket | condition | entry | us | baseline us | speedup | worst row | rows | reason |
|---|---|---|---:|---:|---:|---:|---|---|
| small | `S <= 4 and T == 'fp32'` | one | 4.00 | 5.66 | 1.414 | 1.000 | a, b | the fastest of one 1.414x, two 1.265x |
| wide | `K > 8` | two | 3.00 | 9.00 | 3.000 | 3.000 | c | the fastest of one 1.500x, two 3.000x |
| rest | `1 == 1` | baseline | 2.00 | 2.00 | 1.000 | 1.000 | d | no candidate is faster: one 0.500x, two 0.800x |
"""


def test_the_code_and_the_page_of_a_dispatch(task: Task) -> None:
    assert dispatch.code(task, choices(task)) == CODE
    assert dispatch.render(task, choices(task), "r9") == PAGE


def test_verdicts_of_a_chain() -> None:
    def way(workload: str, name: str, us: float | None, **changes: Any) -> Row:
        return row(workload, changes.pop("side", "baseline"), name, us, **changes)

    rows = [
        way("a", "eager, plain function", 6.0), way("a", "eager, baseline", 4.0),
        way("a", "eager, candidate", 2.0, side="weft"),
        way("a", "compiled, plain function", 3.0), way("a", "compiled, candidate opaque", 4.0, side="weft"),
        way("a", "eager, baseline", 1.0, cache="hot"), way("a", "eager, baseline", 1.0, side="noise"),
        way("b", "eager, plain function", None), way("b", "compiled, plain function", 3.0),
        way("c", "compiled, candidate opaque", 3.0, side="weft"), way("d", "eager, plain function", None),
    ]  # fmt: skip
    assert chain.verdicts(rows) == [
        "  a                            eager    plain function 6.00 us, baseline 4.00 us, candidate 2.00 us: "
        "2.000x of the best without it",
        "  a                            compiled plain function 3.00 us, candidate opaque 4.00 us: "
        "0.750x of the best without it",
        "  b                            compiled plain function 3.00 us",
        "  c                            compiled candidate opaque 3.00 us",
    ]


def test_the_baseline_s_time_is_the_faster_of_two() -> None:
    rows = [
        row("a", "baseline", "theirs", 8.0),
        row("a", "weft", "ours", 4.0),
        row("a", "noise", "theirs", None),
    ]
    assert pairs(rows)[0].ratio(pairs(rows)[0].best) == 2.0
    rows[2] = row("a", "noise", "theirs", 8.0)
    assert pairs(rows)[0].best is rows[0]
