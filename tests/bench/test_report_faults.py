"""What is said of evidence that is wrong: all of it, word by word."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from weft.report import chain, drawings, pack, rows, sample, steps
from weft.report.__main__ import case_problem
from weft.report.compare import comparisons
from weft.report.rows import add_rows, problems

from tests.bench import made_up
from tests.bench.test_rows import CASE, right, several, stored

# A field: a value that it may have, and some that it may not.
FIELDS: dict[str, tuple[object, list[object]]] = {
    "run": ("r1", [1, None]),
    "case": (CASE, [1, None]),
    "workload": (None, [1, False]),
    "side": ("weft", [1, "rival"]),
    "name": ("rows", [None]),
    "time": ("device", ["host"]),
    "cache": ("cold", ["warm"]),
    "us": (made_up.statistics(2.0, 0.1), [3.0, [1.0, 2.0]]),
    "samples": (15, [1.5, True, -1]),
    "floor_us": (1.5, ["1", True, None, -1.0, float("nan")]),
    "bytes": (3, [None, -1]),
    "flops": (0, ["", -1]),
    "checked": (True, [1, None]),
    "env": ("e1", [1]),
    "why": ("failed", [1]),
    "checked_on": ("a part", [1]),
    "rounds_between": (True, [1]),
    "error": (0.5, [True, float("inf")]),
    "seed": (3, [0.5, -1]),
    "weft_speedup": ({"ratio": 1.0, "low": 0.9, "high": 1.1}, [1.0]),
    "dropped": (0, [0.5]),
    "power_capped": (1, [None]),
    "sm_mhz": (1980, [True]),
}
LACKED = [name for name in FIELDS if name not in rows.OPTIONAL]


def of_row(**changes: object) -> list[str]:
    row = right()[1] | changes
    environments = {"e1": made_up.ENVIRONMENT}
    return list(rows._row_problems(row, environments, {}, "h200"))


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_has_its_types(name: str) -> None:
    value, wrong = FIELDS[name]
    assert of_row(**{name: value}) == []
    for other in wrong:
        found = of_row(**{name: other})
        number = isinstance(other, int | float) and not isinstance(other, bool)
        said = f"{name} is {other!r}"
        assert [what for what in found if what == said or what.startswith(said + ", expected")], (
            other,
            found,
        )
        if (
            number
            and name not in ("side", "time", "cache")
            and rows.NUMBER in (rows.MEASUREMENT.get(name), ())
        ):
            assert f"{said}, expected a finite number from 0 on" in found


def test_what_a_row_may_lack() -> None:
    assert set(LACKED) == set(rows.MEASUREMENT) and len(LACKED) == 14
    for name in LACKED:
        row = {key: value for key, value in right()[1].items() if key != name}
        found = list(rows._row_problems(row, {"e1": made_up.ENVIRONMENT}, {}, "h200"))
        if name == "run":
            assert found == [
                f"an environment without {', '.join(sorted(set(made_up.ENVIRONMENT) - {'env'}))}"
            ]
        else:
            assert f"lacks {name}" in found, name


@pytest.mark.parametrize("name", sorted(made_up.ENVIRONMENT))
def test_an_environment_lacks_nothing(name: str) -> None:
    row = {key: value for key, value in made_up.ENVIRONMENT.items() if key != name}
    assert list(rows._row_problems(row, {}, {}, "h200")) == [f"an environment without {name}"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"side": "rival"}, ["side is 'rival', expected one of baseline, noise, weft"]),
        ({"time": "host"}, ["time is 'host', expected one of device, eager"]),
        ({"cache": "warm"}, ["cache is 'warm', expected one of cold, hot"]),
        ({"checked": False}, ["has times, but was not checked"]),
        ({"us": None}, ["has no times, but is not said to be wrong with a reason"]),
        ({"us": None, "checked": False}, ["has no times, but is not said to be wrong with a reason"]),
        ({"us": None, "why": "x"}, ["has no times, but is not said to be wrong with a reason"]),
        ({"us": None, "checked": False, "why": "x"}, []),
        ({"us": {"median": 1.0, "mean": 1.0}}, ["us holds mean, median"]),
        ({"us": made_up.statistics(2.0, 0.1) | {"std": -0.1}}, ["a time is no finite number above 0"]),
        ({"us": made_up.statistics(2.0, 0.1) | {"min": 0}}, ["a time is no finite number above 0"]),
        ({"us": made_up.statistics(2.0, 0.1) | {"mean": True}}, ["a time is no finite number above 0"]),
        *(
            ({"us": made_up.statistics(2.0, 0.1) | change}, ["min, p10, median and p90 are out of order"])
            for change in ({"min": 1.9}, {"p10": 2.1}, {"median": 2.3}, {"p90": 1.9})
        ),
        ({"us": made_up.statistics(2.0, 0.0)}, []),
        ({"samples": 0}, ["has times of no samples"]),
        ({"weft_speedup": {"ratio": 1.0, "low": 1.0}}, ["weft_speedup is {'ratio': 1.0, 'low': 1.0}"]),
        (
            {"weft_speedup": {"ratio": -1.0, "low": 1.0, "high": 1.0}},
            ["weft_speedup is {'ratio': -1.0, 'low': 1.0, 'high': 1.0}"],
        ),
        ({"weft_speedup": {"ratio": 1.0, "low": 1.0, "high": 1.0}}, []),
        ({"weft_speedup": {"ratio": 1.0, "low": 0, "high": 1.0}}, ["weft_speedup's interval is none"]),
        ({"weft_speedup": {"ratio": 1.0, "low": 1.1, "high": 1.0}}, ["weft_speedup's interval is none"]),
        ({"env": "e2"}, ["its environment 'e2' is not in the file before it"]),
        ({"colour": "red"}, ["has a field colour that the schema lacks"]),
    ],
)
def test_what_is_said_of_a_row(changes: dict[str, object], said: list[str]) -> None:
    assert of_row(**changes) == said


def test_what_is_said_of_several_rows(tmp_path: Path) -> None:
    other = made_up.ENVIRONMENT | {"env": "e2"}
    moved = made_up.row(CASE, "rows", "weft", 2.0, env="e2")
    path = stored(
        tmp_path, [*right(), other | {"gpu": "NVIDIA H100"}, moved, moved | {"case": "rms x=bf16[4]"}]
    )
    assert problems(path, lambda case: "is odd" if case.startswith("rms ") else "") == [
        f"{path}:3: is of a NVIDIA H100, in the folder of h200",
        f"{path}:4: its run was in another environment",
        f"{path}:5: is odd",
        f"{path}:5: its run was in another environment",
    ]
    assert case_problem(CASE) == ""
    said = case_problem("rms_norm x=bf17[4,64]\nweight=bf16[64]")
    assert said.startswith("its case is none: case: expected a dtype (") and said.endswith(" at column 16:")


@pytest.mark.parametrize("suite", ["models", "pipelines"])
def test_cases_of_whole_models_are_no_case_lines(tmp_path: Path, suite: str) -> None:
    path = tmp_path / "h200" / f"{suite}.jsonl"
    add_rows(path, right(), chained=True)
    assert problems(path, lambda case: "is none") == []


def test_a_case_is_asked_about_once(tmp_path: Path) -> None:
    path, asked = stored(tmp_path, [*right(), *(row | {"run": "r2"} for row in right()[1:])]), []

    def ask(case: str) -> str:
        asked.append(case)
        return "is none"

    assert problems(path, ask) == [f"{path}:2: is none", f"{path}:3: is none"]
    assert asked == [CASE]


def test_what_is_said_of_the_end_of_a_file(tmp_path: Path) -> None:
    path = stored(tmp_path, several())
    last = json.loads(path.read_text().splitlines()[-1])["chain"]
    kept = path.read_bytes()
    lines = kept.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    before = json.loads(lines[-2])["chain"]
    names = f"but {chain.HEADS} says 4 and {last}: lines were cut off or added by hand"
    assert problems(path, case_problem) == [
        f"{path}:3: the chain ends here, after 3 lines in {before}, {names}"
    ]
    path.write_bytes(b"")
    said = [
        f"{path}:0: the chain ends here, after 0 lines in nothing, {names}",
        f"{path}:0: the last line does not end",
    ]
    assert problems(path, case_problem) == said
    path.write_bytes(kept[:-1])
    assert problems(path, case_problem) == [f"{path}:4: the last line does not end"]
    path.write_bytes(kept.replace(lines[1], b"[\n"))
    (broken, lost, *_) = problems(path, case_problem)
    assert broken.startswith(f"{path}:2: is no JSON: ")
    assert lost == f"{path}:2: is not chained to the rows before it: rows come in by weft report --add"
    (path.parent.parent / chain.HEADS).unlink()
    path.write_bytes(kept)
    said = [f"{path}:4: has no head in {chain.HEADS}: rows come in by weft report --add"]
    assert problems(path, case_problem) == said


def test_the_chain_and_its_heads(tmp_path: Path) -> None:
    """By hand: what each line ends in, and what heads.json holds, sorted."""
    made, text = [], b""
    for line in ('{"b":1', '{"a":[2,3]'):
        text += line.encode()
        made.append(hashlib.sha256(text).hexdigest()[:16])
        text += f',"chain":"{made[-1]}"}}\n'.encode()
    for folder in ("y", "x"):
        chain.append(tmp_path_of(tmp_path, folder), [{"b": 1}])
        chain.append(tmp_path_of(tmp_path, folder), [{"a": [2, 3]}])
        assert tmp_path_of(tmp_path, folder).read_bytes() == text
    ends = {"chain": made[1], "lines": 2}
    expected = {"x/rows.jsonl": ends, "y/rows.jsonl": ends}
    assert (tmp_path / chain.HEADS).read_text() == json.dumps(expected, indent=1) + "\n"
    lines = chain.lines_of(tmp_path_of(tmp_path, "x"))
    assert list(chain.chain_problems(lines)) == []
    broken = "the chain breaks here: this row, or one before it, was edited, removed or slipped in"
    assert list(chain.chain_problems(lines[1:])) == [(1, broken)]
    assert list(chain.chain_problems([*lines, b"{}", b"{}"])) == [
        (number, "is not chained to the rows before it: rows come in by weft report --add")
        for number in (3, 4)
    ]


def tmp_path_of(folder: Path, name: str) -> Path:
    (folder / name).mkdir(exist_ok=True)
    return folder / name / "rows.jsonl"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sides": 3}, "is no packed row: TypeError: 'int' object is not iterable"),
        ({"sides": [3]}, "is no packed row: AttributeError: 'int' object has no attribute 'items'"),
        ({"sides": [{"side": "weft"}]}, "is no packed row: KeyError: 'times'"),
        ({"sides": [{"times": {"device": {}}}]}, "is no packed row: ValueError: not enough values to unpack"),
        ({"sides": [{"times": {"device cold": {}}}]}, "is no packed row: KeyError: 'us'"),
    ],
)
def test_what_is_said_of_a_line_that_is_not_packed(change: dict[str, object], said: str) -> None:
    (line,) = pack.pack(right()[1:2])
    with pytest.raises(ValueError) as raised:
        list(pack.unpack(line | change))
    assert str(raised.value).startswith(said)


def test_a_packed_line_word_by_word() -> None:
    (line,) = pack.pack([row | {"chain": "c"} for row in right()[1:]])
    us = made_up.statistics(2.0, 0.02)
    assert line == {
        **{
            name: right()[1][name]
            for name in ("run", "case", "workload", "floor_us", "bytes", "flops", "env")
        },
        "sides": [
            {
                "side": side,
                "name": name,
                "checked": True,
                "times": {"device cold": {"us": [factor * us[at] for at in pack.STATISTICS], "samples": 15}},
            }
            for side, name, factor in (("weft", "rows", 1), ("baseline", "torch 2.11.0 eager", 2))
        ],
    }


def test_rows_of_one_time_twice_are_sides_of_their_own() -> None:
    twice = [right()[1], right()[1] | {"samples": 9, "sm_mhz": 1.0, "dropped": 1, "power_capped": 2}]
    odd = right()[1] | {"us": {"median": 1.0}, "weft_speedup": {"ratio": 2.0}, "error": 1.0, "why": "x"}
    for given in (
        twice,
        [*twice, odd],
        [odd, made_up.ENVIRONMENT, odd],
        [{"time": "device"}, odd, {"cache": "hot"}],
    ):
        assert [row for line in pack.pack(given) for row in pack.unpack(line)] == given
    assert [len(line["sides"]) for line in pack.pack(twice)] == [2]
    assert [len(list(pack.pack([row, made_up.ENVIRONMENT, row]))) for row in twice] == [3, 3]


@pytest.mark.parametrize(
    ("dtype", "whole"),
    [("fp32", 4), ("bf16", 8), ("fp16", 8), ("fp8_e4m3", 16), ("int8", 16), ("fp4_e2m1", 32), ("int4", 32)],
)
def test_rows_of_whole_vectors_by_dtype(dtype: str, whole: int) -> None:
    for dim in (whole, 3 * whole, whole // 2, whole + 1):
        case = f"quantize x={dtype}[4,{dim}] ids=int32[3] out={dtype}[4,{dim}] scale=fp32[1]"
        (found,) = comparisons([made_up.row(case, "rows", "weft", 2.0)])
        said = "rows not of whole vectors" if dim % whole else "whole vectors, dense"
        assert sample.features(found)["rows"] == said, dim


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (99999, "under 0.1 MB"),
        (1e5, "0.1 to 1 MB"),
        (999999, "0.1 to 1 MB"),
        (1e6, "1 to 10 MB"),
        (1e7, "10 to 100 MB"),
        (99999999, "10 to 100 MB"),
        (1e8, "over 100 MB"),
    ],
)
def test_sizes_of_a_case(size: float, said: str) -> None:
    (found,) = comparisons([made_up.row(CASE, "rows", "weft", 2.0, bytes=size)])
    assert sample.features(found)["size"] == said


def test_turns_are_written_in_words() -> None:
    """Of chunks that lie in one bank, and of those that lie in two."""

    def cell(tile: str, chunk: int, row: int, bank: int) -> drawings.Row:
        return {"tile": tile, "chunk": str(chunk), "row": str(row), "bank": str(bank), "byte": str(16 * bank)}

    same = [cell("plain", chunk, row, 0) for chunk in range(3) for row in range(2)]
    apart = [cell("padded", chunk, row, row) for chunk in range(3) for row in range(2)]
    text = drawings.swizzle([*same, *apart])
    assert text.count(">8 chunks in 2 turns</text>") == 1 and text.count(">8 chunks in 1 turn</text>") == 1
    assert ">16 bytes</text>" in text and ">32 bytes</text>" in text


def test_what_is_said_of_steps(tmp_path: Path) -> None:
    row, step = right()[1], {"step": "superseded", "before": {}}
    packed = list(pack.pack([row]))
    said = f"dropped run r1 of {CASE!r}, which no other run has measured"
    assert list(steps.step_problems([*packed, step | {"dropped": [["r1", CASE, None]]}])) == [(2, said)]
    assert list(steps.step_problems([*packed, step | {"dropped": [["r0", CASE, None]]}])) == []
    for broken in ({"step": "packed"}, {"step": "packed", "before": 1}, {"step": "edited", "before": {}}):
        assert list(steps.step_problems([broken])) == [(1, "is no step that weft report makes")]
