"""weft task new: from a contract, from a function, by questions; and what its files hold."""

from __future__ import annotations

import builtins
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from weft.task import teach
from weft.task.__main__ import arguments
from weft.task.spec import load

from tests.task.made import Made, call, told

ROOT = Path(__file__).resolve().parents[2]


def test_from_a_contract(tmp_path: Path) -> None:
    lines = [
        "layer_norm x=bf16[6,64] weight=bf16[64] bias=bf16[64]",
        "layer_norm x=bf16[3,32] weight=bf16[32] bias=bf16[32]",
    ]
    outcome = call("new", tmp_path / "ln", "--op", lines[0], "--op", lines[1], "--device", "cpu")
    assert outcome.code == 0, told(outcome)
    task = load(tmp_path / "ln")
    assert [f.name for f in task.inputs] == ["x", "weight", "bias"] and task.options["eps"] == 1e-5
    assert [task.shape(task.inputs[0], row) for row in task.rows] == [(6, 64), (3, 32)]


def test_its_reference_is_the_executable_specification(tmp_path: Path) -> None:
    folder = tmp_path / "sm"
    assert call("new", folder, "--op", "softmax x=fp32[6,64]", "--device", "cpu").code == 0
    entry = "import torch\n\n\ndef run(x, scale, out):\n    torch.softmax(x, -1, out=out)\n"
    text = (folder / "solution" / "kernel.py").read_text()
    entry = entry.replace("x, scale, out", text.partition("run(")[2].partition(")")[0])
    (folder / "solution" / "kernel.py").write_text(entry)
    (folder / "baseline" / "entry.py").write_text(entry)
    toml = (folder / "task.toml").read_text().replace('language = "weft"', 'language = "python"')
    (folder / "task.toml").write_text(toml)
    assert call("lock", folder).code == 0
    outcome = call("verify", folder)
    assert outcome.code == 0, told(outcome)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("cuda", "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run)"),
        ("triton", "NotImplementedError"),
        ("kit", "TVMFFIEnvGetStream"),
    ],
)
def test_from_a_function(tmp_path: Path, language: str, text: str) -> None:
    (tmp_path / "f.py").write_text("def f(x, *, eps=1e-6, n=2):\n    return x\n")
    words = ["--reference", f"{tmp_path / 'f.py'}:f", "--input", "x=bf16[S,D]", "--output", "out=bf16[S,D]"]
    outcome = call(
        "new", tmp_path / "t", *words, "--row", "S=2,D=3", "--language", language, "--tolerance", "exact"
    )
    assert outcome.code == 0, told(outcome)
    task = load(tmp_path / "t")
    assert task.options == {"eps": 1e-6, "n": 2} and task.tolerance("out").exact
    assert text in task.candidate().path.read_text()


def test_by_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["x=fp32[S,D]", "", "out=fp32[S,D]", "", "eps=1e-6", "S=4,D=8", "", "atol=1e-3,rtol=0"])
    monkeypatch.setattr(builtins, "input", lambda _: next(answers))
    outcome = call("new", tmp_path / "asked", "--device", "cpu")
    assert outcome.code == 0, told(outcome)
    task = load(tmp_path / "asked")
    assert task.line(task.rows[0]) == "asked x=fp32[4,8] out=fp32[4,8] eps=1e-06"
    assert task.tolerance("out").atol == 1e-3


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--input", "x"], "expected NAME=DTYPE[AXIS,...]"),
        (["--input", "x=fp64[S]"], "there is no dtype fp64"),
        (["--row", "S"], "expected NAME=VALUE"),
        (["--row", "Q=3"], "there is no S in the row"),
    ],
)
def test_what_is_not_understood(tmp_path: Path, words: list[str], refusal: str) -> None:
    (tmp_path / "f.py").write_text("def f(x):\n    return x\n")
    given = {"--input": "x=fp32[S]", "--output": "out=fp32[S]", "--row": "S=2"} | {words[0]: words[1]}
    flat = [part for pair in given.items() for part in pair]
    outcome = call("new", tmp_path / "t", "--reference", f"{tmp_path / 'f.py'}:f", *flat)
    assert outcome.code == 2 and refusal in told(outcome)


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ("[grid]", "[gird]", "task.toml has [gird], which nobody reads"),
        ("rounds = 2", "rounds = 2\nsamples = 2", "[timing] has samples, which nobody reads"),
        ("out = { atol", "out = { abs", "the tolerance of out is"),
        ('[baseline]\nlanguage = "python"', '[baseline]\nlanguage = "perl"', "expected one of cuda, kit"),
        ("[candidates.first]", "[candidates.first]\nflag = []", "[first] has flag, which nobody reads"),
        ('name = "row1"', "", "every [[workloads]] has a name"),
        ('name = "row1"', 'name = "row2"', "two workload rows have one name"),
    ],
)
def test_what_nobody_reads(made: Made, old: str, new: str, refusal: str) -> None:
    made.edit("task.toml", old, new)
    outcome = made.call("check")
    assert outcome.code == 2 and refusal in told(outcome)


def test_json_stands_before_the_command_or_behind() -> None:
    for words in (["--json", "check", "t"], ["check", "t", "--json"], ["new", "t", "--json"]):
        assert arguments().parse_args(words).json
    assert not arguments().parse_args(["check", "t"]).json


def test_help_teaches() -> None:
    commands = set(re.findall(r"^  ([a-z][a-z-]*)  ", arguments().format_help(), re.MULTILINE))
    assert commands == set(teach.OF)
    for name, text in teach.OF.items():
        assert f"\n  weft task {name} " in text, name


def test_a_folder_that_is_there(made: Made) -> None:
    assert "is there already" in told(call("new", made.folder))


def test_no_task(tmp_path: Path) -> None:
    outcome = call("check", tmp_path)
    assert outcome.code == 2 and "weft task new NAME makes one" in told(outcome)


@pytest.mark.skipif("WEFT_TOOL" not in os.environ, reason="WEFT_TOOL names no tool")
def test_the_tool_hands_over(tmp_path: Path) -> None:
    environment = {**os.environ, "WEFT_PYTHON": sys.executable, "WEFT_ROOT": str(ROOT)}
    command = [os.environ["WEFT_TOOL"], "task", "--json", "check", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2 and '"command": "check"' in done.stdout
    missing = subprocess.run(
        command, capture_output=True, text=True, env={**environment, "WEFT_PYTHON": "/none"}, check=False
    )
    assert missing.returncode == 3 and "/none can't be started" in missing.stderr
