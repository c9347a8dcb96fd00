"""What commands of a task do beside their words: seeds, modes, rows and second calls that no page shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from weft.task import bench, chain, check, dispatch, entries, module, record, source, spec, verify
from weft.task.gate import Gate
from weft.task.outcome import Outcome
from weft.task.spec import Task

from tests.task.made import CANDIDATE, Made, call, told
from tests.task.test_rule_texts import one, task_of
from tests.task.test_texts import measured, task

__all__ = ["task"]  # a fixture
ENTRY = "def run(x, out):\n    out.copy_(x)\n"
CHAIN = "import torch\n\n\ndef chain(op, x, scale, shift):\n    return torch.relu(op(x, scale, shift))\n"


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("fp32", 32), ("bf16", 16), ("fp16", 16), ("fp8_e4m3", 8), ("fp8_e5m2", 8), ("int8", 8), ("uint8", 8),
     ("int32", 32), ("int64", 64)],
)  # fmt: skip
def test_bytes_of_each_dtype(task: Task, dtype: str, bits: int) -> None:
    field = spec.Field("x", dtype, ("S", "64"))
    assert task._bytes(field, task.rows[0]) == 4 * 64 * bits // 8
    assert len(spec.BITS) == 9


def test_rows_that_are_verified(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    task.rows.append(spec.Row("smaller", {"S": 1}))

    def kinds() -> list[tuple[str, str, bool]]:
        return [(kind, row.name, special) for kind, row, special in verifier.contents()]

    verifier = verify.Verifier(task, Outcome("verify"), 1, "cpu")
    plain = [("production", "a", False), ("production", "smaller", False)]
    plain += [("grid", f"grid S={size}", False) for size in (1, 2, 3)]
    assert kinds() == [*plain, ("special values", "smaller", True)]
    task.raw["verify"] = {"special": False}
    assert kinds() == plain
    task.raw["verify"] = {"special": "nonfinite"}
    assert len(kinds()) == len(plain) + 1


def test_what_a_verification_tells(made: Made) -> None:
    outcome = made.locked().call("verify")
    right = re.compile(r"(\w+) is right: 12 rows with two poisons each, worst \d\.\d\d of the tolerance")
    found = [match[1] for what in outcome.checked if (match := right.fullmatch(what))]
    assert found == ["baseline", "first"], outcome.checked


@pytest.mark.parametrize("deterministic", [True, False])
def test_other_bits_of_a_second_call(made: Made, deterministic: bool) -> None:
    """The candidate's results differ from call to call by less than is allowed."""
    said = f"deterministic = {str(deterministic).lower()}\n"
    made.edit("task.toml", 'precision = "double"', said + 'precision = "double"')
    lines = (
        "\n\nCALLS = []\n"
        + CANDIDATE.split("\n\n\n")[1]
        + "    CALLS.append(1)\n    out.add_(1e-6 * len(CALLS))\n"
    )
    made.write("solution/kernel.py", "import torch\n" + lines).locked()
    task = made.task
    session = bench.Session(task, task.rows[0], 1, 0)
    try:
        entry = entries.load_entry(task, task.candidate())
        wrong = []
        for _ in range(2):
            entry(*session.operands(0))
            wrong.append(session.compare("first", 0))
    finally:
        session.close()
    assert wrong == ["", "two calls gave different bits" if deterministic else ""]


def test_sources_of_python_are_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(check, "_compile", lambda task, side, outcome: compiled.append(side.name))
    for words, names in (
        ({}, []),
        ({"language": "cuda", "solution": "x"}, ["one"]),
        ({"language": "kit", "baseline": "cuda", "solution": "x", "entry": "x"}, ["baseline", "one"]),
    ):
        given: dict[str, Any] = {"solution": ENTRY, "entry": ENTRY, **words}
        task = task_of(tmp_path, **given)
        check.check(task, Outcome("check"), compile_sources=True)
        assert compiled == names
        compiled.clear()


def test_a_mean_of_one_is_no_win(task: Task) -> None:
    rows = measured()
    for at in rows:
        if at["workload"] == "a" and at["name"] == "one (python)":
            at["us"] = {**at["us"], "median": 4.0, "p10": 3.9, "p90": 4.1}
        if at["workload"] == "b" and at["name"] == "one (python)":
            at["us"] = {**at["us"], "median": 8.0, "p10": 7.9, "p90": 8.1}
        if at["name"] == "two (cuda)" and at["workload"] in ("a", "b"):
            at["us"] = {**at["us"], "median": 80.0, "p10": 79.0, "p90": 81.0}
    small = dispatch.choose(task, rows)[0]
    assert (small.entry, small.reason) == ("baseline", "no candidate is faster: one 1.000x, two 0.071x")


def test_a_gate_that_is_open_is_gone_through(task: Task) -> None:
    """The chain runs twice: what the gate let in is called as a model calls it."""
    used: list[str] = []

    def ours(x: torch.Tensor) -> torch.Tensor:
        used.append("candidate")
        return x + 1

    gate = Gate(ours, lambda x: x + 1)
    made: Any = SimpleNamespace(chain=lambda op, x, y: op(x), gate=gate, row=task.rows[0])
    outcome = Outcome("bench")
    chain.gate_rows(task, one_of(task), made, outcome, 1)
    assert used == ["candidate", "candidate"]
    assert outcome.checked == ["one passes the gate of first sight on float32[4, 4]"]


def one_of(task: Task) -> spec.Side:
    return task.candidates["one"]


def test_results_of_a_chain_have_names_of_their_own(task: Task) -> None:
    outer = chain._outer(task, [torch.zeros(2, 3), torch.zeros(4, dtype=torch.int32)])
    assert outer.outputs == [spec.Field("chain", "fp32", ("2", "3")), spec.Field("chain1", "int32", ("4",))]
    assert outer.raw["tolerance"] == {name: {"atol": 0.05, "rtol": 0.05} for name in ("chain", "chain1")}
    assert outer.spec["deterministic"] is False and outer.spec["precision"] == "given"
    task.raw["chain"] = {"atol": 1.0}
    assert chain._outer(task, [torch.zeros(2)]).tolerance("chain") == spec.Tolerance(1.0, 0.05)


@pytest.mark.parametrize(
    ("words", "made_again"),
    [
        (["bench", "--seed", "7"], "weft task bench mod --candidate first --seed 7"),
        (
            ["bench", "--in-chain", "--seed", "7", "--only", "row1"],
            "weft task bench mod --in-chain --candidate first --only row1 --seed 7",
        ),
    ],
)
def test_a_seed_that_is_given_is_used(
    made: Made, monkeypatch: pytest.MonkeyPatch, words: list[str], made_again: str
) -> None:
    monkeypatch.setattr(chain.Chain, "_compiled", lambda self, op: self._with(op))
    made.locked().write("chain.py", CHAIN).good("verify")
    outcome = made.call(*words)
    assert outcome.code == 0, told(outcome)
    command = [row["command"] for row in record.rows(made.task) if "command" in row][-1]
    assert command == made_again


def test_a_dispatch_names_no_candidate(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop(Exception):
        pass

    asked: list[str] = []

    def environment(task: Task, sides: list[spec.Side], command: str) -> Any:
        asked.append(command)
        raise Stop

    monkeypatch.setattr("weft.task.bench.card.wait_idle", lambda *_: {})
    monkeypatch.setattr(bench, "environment_row", environment)
    for command in ("dispatch", "bench"):
        with pytest.raises(Stop):
            bench.run(
                task, [task.baseline, one_of(task)], {"lock": "l"}, Outcome("x"), command=command, seed=3
            )
    assert asked == ["weft task dispatch mod --seed 3", "weft task bench mod --candidate one --seed 3"]


def test_a_repository_is_asked_again_by_its_recorded_address(made: Made) -> None:
    address = made.upstream.as_uri()
    assert made.call("baseline", "--git", address, "--file", "ops.py").code == 0
    assert source.read(made.task)["url"] == address
    copy = made.folder / "baseline" / "ops.py"
    kept = copy.read_text()
    copy.unlink()
    outcome = made.call("baseline", "--restore")
    assert outcome.code == 0, told(outcome)
    assert copy.read_text() == kept
    copy.unlink()
    made.upstream.rename(made.root / "moved")
    assert made.call("baseline", "--restore").code == 1 and not copy.exists()
    assert call("baseline", made.folder, "--restore", "--git", (made.root / "moved").as_uri()).code == 0


def test_files_of_one_name_are_modules_of_their_own(tmp_path: Path) -> None:
    made = []
    for folder in ("a", "b"):
        path = tmp_path / folder / "kernel.py"
        path.parent.mkdir()
        path.write_text(f"NAME = {folder!r}\n")
        made.append(module.load_module(path, "a side"))
    assert [at.NAME for at in made] == ["a", "b"] and made[0].__name__ != made[1].__name__
    assert all(sys.modules[at.__name__] is at for at in made)


def test_what_is_compiled_is_compiled_for_each_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def compiled(function: Any, **how: Any) -> Any:
        asked.append(how)
        return function

    monkeypatch.setattr(torch, "compile", compiled)
    config: Any = torch._dynamo.config
    for name in ("recompile_limit", "fail_on_recompile_limit_hit"):
        monkeypatch.setattr(config, name, getattr(config, name))
    task = task_of(tmp_path, language="torch", solution="def run(x):\n    return [x + 1]\n")
    side = one(task)
    out = torch.zeros(3)
    entries.load_entry(task, side)(torch.ones(3), out)
    assert out.tolist() == [2.0] * 3 and asked == []
    entries.load_entry(task, type(side)(**{**side.__dict__, "compiled": True}))(torch.zeros(3), out)
    assert out.tolist() == [1.0] * 3
    assert asked == [{"dynamic": False, "mode": "max-autotune-no-cudagraphs"}]
    assert config.recompile_limit == 1000 and config.fail_on_recompile_limit_hit is True
