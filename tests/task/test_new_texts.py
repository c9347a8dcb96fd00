"""`weft task new`, whole: every file of folders that were made from a contract, a function and questions.

The expected files are tests/task/expected/new-*.txt. WEFT_RECORD_PAGES=1 writes them anew; what changed is then to be
read.
"""

from __future__ import annotations

import builtins
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import weft
from weft.task import scaffold
from weft.task.judge import Judge
from weft.task.operands import Contents
from weft.task.outcome import Outcome, Usage
from weft.task.spec import load

from tests.task.made import call, told

EXPECTED = Path(__file__).with_name("expected")
FUNCTION = "def f(x, y, *, eps=1e-6, n=2, fast=True):\n    return x\n"
OPERANDS = [
    "--input",
    "x=bf16[S,D]",
    "--input",
    "y=T[ D ]",
    "--output",
    "out=fp16[S,D]",
    "--output",
    "more=T[S]",
]
ROWS = ["--row", "S=4096,D=30,T=fp32,source=a model, of 2026", "--row", "S=7, D=5,T=bf16"]


def held(name: str, folder: Path) -> None:
    parts = [
        f"=== {path.relative_to(folder)}\n{path.read_text()}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    text = "\n".join(parts).replace(str(folder.parent), "FOLDER")
    expected = EXPECTED / f"new-{name}.txt"
    if os.environ.get("WEFT_RECORD_PAGES"):
        expected.write_text(text)
    assert text == expected.read_text()
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == [
        "baseline",
        "bench",
        "docs",
        "solution",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cuda", ["--language", "cuda"]),
        ("exact", ["--tolerance", "exact", "--device", "cpu"]),
        ("near", ["--tolerance", "atol=2e-2,rtol=1", "--language", "triton"]),
    ],
)
def test_from_a_function(tmp_path: Path, name: str, words: list[str]) -> None:
    (tmp_path / "f.py").write_text(FUNCTION)
    outcome = call(
        "new", tmp_path / "made", "--reference", f"{tmp_path / 'f.py'}:f", *OPERANDS, *ROWS, *words
    )
    assert outcome.code == 0, told(outcome)
    held(name, tmp_path / "made")
    rows = 4 if name != "" else 0
    assert (
        outcome.checked[0].startswith(f"{tmp_path / 'made'}/task.toml is read back: 2 workload rows, ")
        and rows
    )
    assert outcome.data["line"][1] == (
        "made x=bf16[7,5] y=bf16[5] out=fp16[7,5] more=bf16[7] eps=1e-06 n=2 fast=True"
    )
    assert outcome.notes == [
        "Next: weft task baseline; then the two entries; then weft task lock, check, verify, bench."
    ]


def test_from_a_contract(tmp_path: Path) -> None:
    lines = [
        f"rms_norm x=bf16[{size},64] weight=bf16[64] residual=bf16[{size},64] out=fp8_e4m3[{size},64] "
        f"residual_out=bf16[{size},64] scale=fp32[1] eps=0.5"
        for size in (6, 3)
    ]
    outcome = call("new", tmp_path / "made", "--op", lines[0], "--op", lines[1], "--device", "cpu")
    assert outcome.code == 0, told(outcome)
    held("contract", tmp_path / "made")
    other = call("new", tmp_path / "other", "--op", lines[0], "--op", "softmax x=bf16[4,4]")
    assert told(other) == "all case lines are of one op, with the same operands" and other.code == 2
    fewer = call("new", tmp_path / "other", "--op", lines[0], "--op", "rms_norm x=bf16[4,64]")
    assert told(fewer) == told(other) and not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("line", "order"),
    [
        (
            "rms_norm x=fp32[6,64] residual=fp32[6,64] residual_out=fp32[6,64] out=fp32[6,64]",
            ["residual_out", "out"],
        ),
        (
            "qkv_split_rope qkv=fp32[5,64] q=fp32[5,2,16] k_cache=fp32[9,1,16] v_cache=fp32[9,1,16] cache_offset=3",
            ["k_cache", "v_cache", "q"],
        ),
    ],
)
def test_the_reference_of_a_contract_gives_what_the_spec_writes_in_its_order(
    tmp_path: Path, line: str, order: list[str]
) -> None:
    outcome = call("new", tmp_path / "made", "--op", line, "--device", "cpu")
    assert outcome.code == 0, told(outcome)
    task = load(tmp_path / "made")
    assert [f.name for f in task.written] == order
    contents = Contents(task, task.rows[0], "cpu", 1)
    given = {name: tensor.clone() for name, tensor in contents.inputs.items()}
    options = {name: value for name, value in task.options.items() if name != "eps"}
    asked = {f.name: True for f in task.outputs if f.name == "residual_out"}
    results = getattr(weft, line.split(" ", 1)[0])(**given, **options, **asked)
    (right,) = Judge(contents).right
    for name in order:
        assert torch.allclose(right[name].float(), getattr(results, name).float(), atol=1e-6), name


def test_by_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(
        [" x=fp32[S] ", "y=fp32[S]", "", "out=fp32[S]", "", "eps=1e-6", "S=4", "S=5,source=there", "", ""]
    )
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr(builtins, "input", answer)
    assert call("new", tmp_path / "made").code == 0
    held("asked", tmp_path / "made")
    assert list(dict.fromkeys(asked)) == [
        "an input, as x=bf16[S,D] (empty: no more): ",
        "an output, as out=bf16[S,D] (empty: no more): ",
        "options with their values, as eps=1e-6 (empty: none): ",
        "a row of production, as S=4096,D=3072,source=its model (empty: no more): ",
        "tolerance, as atol=1e-2,rtol=1e-2, or exact (empty: by dtype): ",
    ]
    monkeypatch.setattr(builtins, "input", lambda _: "")
    assert told(call("new", tmp_path / "none")) == "a task has an input, an output and a workload row"

    def ended(_: str) -> str:
        raise EOFError

    monkeypatch.setattr(builtins, "input", ended)
    outcome = call("new", tmp_path / "none")
    said = "the questions end before their answers: give --op or --reference, or answer all"
    assert (told(outcome), outcome.code) == (said, 2) and not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("function", "text", "value"),
    [
        (scaffold.operand, "x=bf16[S,D]", {"name": "x", "dtype": "bf16", "shape": "S D"}),
        (scaffold.operand, " x=T[ S , 2*D ] ", {"name": "x", "dtype": "T", "shape": "S 2*D"}),
        (scaffold.operand, "x=T[]", {"name": "x", "dtype": "T", "shape": ""}),
        (scaffold.value_of, "3", 3), (scaffold.value_of, "3.5", 3.5), (scaffold.value_of, "1e-6", 1e-6),
        (scaffold.value_of, "true", True), (scaffold.value_of, "false", False), (scaffold.value_of, "bf16", "bf16"),
        (scaffold.row_of, "S=1,source= a, b ", {"S": 1, "source": "a, b"}), (scaffold.row_of, "S=1,source=", {"S": 1}),
        (scaffold.pairs, " a = 1 , b=c=d,", {"a": 1, "b": "c=d"}),
        (scaffold.toml, {"a": [1, "b"], "c": True}, '{ a = [1, "b"], c = true }'),
    ],
)  # fmt: skip
def test_words_are_read(function: Any, text: Any, value: object) -> None:
    assert function(text) == value


@pytest.mark.parametrize(
    ("function", "text", "said"),
    [
        (scaffold.operand, "x[S]", "'x[S]': expected NAME=DTYPE[AXIS,...], as in x=bf16[S,D]"),
        (scaffold.operand, "x=bf16[S] y", "'x=bf16[S] y': expected NAME=DTYPE[AXIS,...], as in x=bf16[S,D]"),
        (scaffold.pairs, "a=1,b", "'a=1,b': expected NAME=VALUE,..."),
        (scaffold.pairs, " , ", "' , ': expected NAME=VALUE,..."),
    ],
)
def test_what_is_said_of_words(function: Any, text: str, said: str) -> None:
    with pytest.raises(Usage) as raised:
        function(text)
    assert str(raised.value) == said


def test_what_is_said_of_a_function_without_shapes(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(FUNCTION)
    given = dict(zip(OPERANDS[::2], OPERANDS[1::2], strict=True)) | {"--row": "S=2,D=3,T=fp32"}
    for lacking in ("--input", "--output", "--row"):
        flat = [part for pair in given.items() if pair[0] != lacking for part in pair]
        outcome = call("new", tmp_path / "made", "--reference", f"{tmp_path / 'f.py'}:f", *flat)
        assert told(outcome) == (
            "--reference needs --input, --output and --row: what it takes, what it gives, a shape of each name"
        )
    assert told(call("new", tmp_path)) == f"{tmp_path} is there already"


def test_a_folder_that_cannot_be_written_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(plan: scaffold.Plan) -> str:
        raise OSError("no space left")

    monkeypatch.setattr(scaffold, "task_toml", broken)
    with pytest.raises(OSError, match="no space left"):
        scaffold._write(tmp_path / "made", scaffold.Plan("made"))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("words", "rank", "names"),
    [
        (["rows", "dim"], 2, ["rows", "dim"]), (["...", "dim"], 1, ["dim"]), (["...", "dim"], 2, ["rows", "dim"]),
        (["a", "...", "dim"], 4, ["a", "rows0", "rows1", "dim"]),
    ],
)  # fmt: skip
def test_axes_of_a_contract_have_names(words: list[str], rank: int, names: list[str]) -> None:
    assert scaffold._axis_names(words, rank) == names


@pytest.mark.parametrize(
    ("word", "axis"),
    [
        ("dim", "dim"), ("1", "1"), ("(heads+2*dim)*3", "(heads+2*dim)*3"), ("heads*group", "own"),
        ("ceil(dim/16)", "own"),
    ],
)  # fmt: skip
def test_axes_that_follow_from_names(word: str, axis: str) -> None:
    assert scaffold._axis(word, "own", {"dim", "heads"}) == axis


def test_an_outcome_in_words_and_as_json() -> None:
    outcome = Outcome("check")
    assert outcome.check("a rule") and outcome.text() == "ok       a rule\nweft task check: passed"
    outcome.require()
    assert not outcome.check("another", "it is broken")
    outcome.note("a note")
    outcome.data["k"] = 1
    assert outcome.text().splitlines() == [
        "ok       a rule", "REFUSED  another: it is broken", "a note", "weft task check: refused",
    ]  # fmt: skip
    assert outcome.json() == (
        '{"command": "check", "passed": false, "code": 1, "checked": ["a rule"], '
        '"refused": ["another: it is broken"], "notes": ["a note"], "data": {"k": 1}}'
    )
    for code, said in ((2, "not started"), (3, "not possible here")):
        assert Outcome("lock", code=code).text() == f"weft task lock: {said}"
    assert '"passed": true, "code": 0' in Outcome("lock").json()
