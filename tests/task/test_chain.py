"""The candidate between the ops before and after it, and the gate of first sight."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from weft.task import chain, finish, record
from weft.task.gate import Gate

from tests.task.made import Made, told

CHAIN = """import torch


def chain(op, x, scale, shift):
    return torch.relu(op(x + x, scale, shift))
"""


class TestGate:
    def gate(self, candidate: Any, **tolerance: float) -> tuple[Gate, list[str]]:
        used: list[str] = []

        def ours(x: torch.Tensor) -> Any:
            used.append("candidate")
            return candidate(x)

        def theirs(x: torch.Tensor) -> Any:
            used.append("fallback")
            return x * 2

        return Gate(ours, theirs, **tolerance), used

    def test_what_is_equal_is_used_from_then_on(self) -> None:
        gate, used = self.gate(lambda x: x + x)
        for _ in range(3):
            assert torch.equal(gate(torch.ones(4)), torch.full((4,), 2.0))
        assert used == ["fallback", "candidate", "candidate", "candidate"]
        assert list(gate.report().values()) == [""]

    def test_what_differs_in_a_bit_is_never_used(self) -> None:
        gate, used = self.gate(lambda x: torch.nextafter(x + x, torch.tensor(9.0)))
        for _ in range(3):
            gate(torch.ones(4))
        assert used == ["fallback", "candidate", "fallback", "fallback"]
        assert list(gate.report().values()) == ["result 0 has other bits"]

    def test_a_tolerance(self) -> None:
        near, _ = self.gate(lambda x: x * 2.001, atol=0.01, rtol=0)
        far, _ = self.gate(lambda x: x * 2.1, atol=0.01, rtol=0)
        near(torch.ones(4)), far(torch.ones(4))
        assert list(near.report().values()) == [""]
        assert "differs by up to 0.1" in next(iter(far.report().values()))

    def test_a_candidate_that_fails(self) -> None:
        gate, _ = self.gate(lambda x: x.no_such_thing)
        assert torch.equal(gate(torch.ones(2)), torch.full((2,), 2.0))
        assert "it failed: AttributeError" in next(iter(gate.report().values()))

    def test_each_signature_by_itself(self) -> None:
        gate, used = self.gate(lambda x: x + x)
        gate(torch.ones(4)), gate(torch.ones(5)), gate(torch.ones(4, dtype=torch.float64))
        assert used.count("fallback") == 3 and len(gate.seen) == 3

    def test_nothing_is_compared_while_a_model_is_compiled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gate, used = self.gate(lambda x: x + x)
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
        gate(torch.ones(4))
        assert used == ["fallback"] and not gate.seen


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile without a compiler behind it: its graphs as they are."""
    monkeypatch.setattr(
        chain.Chain,
        "_compiled",
        lambda self, op: chain.compiled(self._with(op), backend="eager"),  # type: ignore[attr-defined]
    )


@pytest.mark.usefixtures("quickly")
class TestChain:
    def test_every_way_is_measured_and_told(self, made: Made) -> None:
        outcome = made.measured().write("chain.py", CHAIN).call("bench", "--in-chain")
        assert outcome.code == 0, told(outcome)
        assert any("passes the gate of first sight" in what for what in outcome.checked)
        rows = chain.latest(made.task, made.task.candidate())
        assert {row["name"] for row in rows if row["side"] != "noise" and not row["name"].startswith("card")} == {
            "eager, plain function", "eager, baseline", "eager, candidate", "compiled, plain function",
            "compiled, baseline opaque", "compiled, candidate opaque",
        }  # fmt: skip
        assert any("of the best without it" in note for note in outcome.notes)
        made.good("profile", "report")
        assert "## In a chain" in (made.folder / "docs" / "results.md").read_text()
        assert not any("in-chain" in wrong for _, wrong in finish.bar(made.task, made.task.candidate()))

    def test_times_of_a_chain_are_not_those_of_the_op(self, made: Made) -> None:
        made.measured().write("chain.py", CHAIN).good()
        before = len(record.measured(made.task, made.task.candidate()))
        made.call("bench", "--in-chain", "--only", "row1")
        assert len(record.measured(made.task, made.task.candidate())) == before

    def test_a_chain_that_was_edited_is_another(self, made: Made) -> None:
        made.measured().write("chain.py", CHAIN).good("profile").call("bench", "--in-chain", "--only", "row1")
        assert chain.latest(made.task, made.task.candidate())
        made.edit("chain.py", "x + x", "x * x")
        assert not chain.latest(made.task, made.task.candidate())
        assert "`weft task bench --in-chain`" in told(made.call("done"))

    def test_the_card_is_watched(self, made: Made) -> None:
        made.measured().write("chain.py", CHAIN).call("bench", "--in-chain", "--only", "row1")
        run = chain.latest(made.task, made.task.candidate())[0]["run"]
        states = [row["when"] for row in record.of_kind(made.task, "state") if row["of_run"] == run]
        assert states == ["before", "during", "after"]
        commands = [row["command"] for row in record.rows(made.task) if "command" in row]
        assert " --in-chain --candidate first --only row1 --seed " in commands[-1]

    def test_a_chain_that_never_calls_the_op(self, made: Made) -> None:
        made.measured().write("chain.py", "def chain(op, x, scale, shift):\n    return x\n")
        assert "chain() never calls the op" in told(made.call("bench", "--in-chain"))

    def test_a_gate_that_stays_shut_is_a_refusal(self, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(chain, "_tolerance", lambda _: (0.0, 0.0))
        other = "    torch.mul(x, scale, out=out)\n    out.add_(shift)\n    out.mul_(1.0000001)\n"
        made.write("solution/kernel.py", "import torch\n\n\ndef run(x, scale, shift, out):\n" + other)
        outcome = made.measured().write("chain.py", CHAIN).call("bench", "--in-chain")
        assert outcome.code == 1 and "has other bits" in told(outcome)
