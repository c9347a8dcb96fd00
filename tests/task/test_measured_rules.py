"""Rules that a measurement keeps: each is broken once, and the refusal says how."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from weft.task import bench, card, record
from weft.task.outcome import Outcome, Refusal

from tests.task.made import CANDIDATE, Made, told

RUN = "import torch\n\nCALLS = []\n\n\ndef run(x, scale, shift, out):\n    CALLS.append(1)\n"
RIGHT = "    torch.addcmul(shift, x, scale, out=out)\n"


class TestLock:
    def test_nothing_is_measured_without_one(self, made: Made) -> None:
        made.baseline()
        assert "nothing is locked yet" in told(made.call("verify"))
        assert "nothing is locked yet" in told(made.call("bench"))

    @pytest.mark.parametrize(
        ("old", "new", "section"),
        [
            ("atol = 1e-05", "atol = 1e-02", "tolerance"),
            ("S = [1, 4, 7]", "S = [1]", "grid"),
            ("\n[grid]\n", '\n[verify]\nspecial = "nonfinite"\n\n[grid]\n', "tolerance"),
            ("D = 16", "D = 32", "workloads"),
            ("rounds = 2", "rounds = 3", "timing"),
            ('"-O3"', '"-O2"', "flags"),
            ('precision = "double"', 'precision = "given"', "spec"),
        ],
    )
    def test_what_moved_stops_the_bench(self, made: Made, old: str, new: str, section: str) -> None:
        made.locked().good("verify").edit("task.toml", old, new)
        assert f"{section} changed since the lock" in told(made.call("bench"))

    def test_the_reference_is_frozen_too(self, made: Made) -> None:
        made.locked().edit("reference.py", "+ shift", "- shift")
        assert "reference changed since the lock" in told(made.call("verify"))

    def test_a_new_lock_has_a_reason_and_needs_both_sides_again(self, made: Made) -> None:
        made.measured().edit("task.toml", "atol = 1e-05", "atol = 1e-04")
        assert "a new lock needs --reason WHY" in told(made.call("lock"))
        outcome = made.call("lock", "--reason", "fp32 sums in another order")
        assert outcome.code == 0 and "of another lock now" in outcome.notes[0]
        assert "have not passed `weft task verify` under this lock" in told(made.call("bench"))
        assert "no times of first under this lock" in told(made.call("report"))
        made.good("verify", "bench", "report")
        assert "| another lock |" in (made.folder / "docs" / "results.md").read_text()

    def test_locking_again_changes_nothing(self, made: Made) -> None:
        before = (made.locked().folder / "lock.json").read_text()
        assert made.call("lock").code == 0 and (made.folder / "lock.json").read_text() == before


class TestVerify:
    def wrong(self, made: Made, candidate: str) -> str:
        made.locked().write("solution/kernel.py", candidate)
        outcome = made.call("verify")
        assert outcome.code == 1 and record.verified(made.task, made.task.candidate()) is None
        return told(outcome)

    def test_one_element(self, made: Made) -> None:
        assert "out[0,5]: got" in self.wrong(made, RUN + RIGHT + "    out[0, 5] += 0.001\n")

    def test_one_element_of_the_last_grid_row(self, made: Made) -> None:
        text = self.wrong(made, RUN + RIGHT + "    out[-1, -1] += float(x.shape[0] == 7)\n")
        assert "grid row 'grid S=7" in text

    def test_an_element_that_is_not_written(self, made: Made) -> None:
        text = self.wrong(
            made, RUN + "    torch.addcmul(shift, x, scale, out=out)\n    out[1:2].fill_(float('nan'))\n"
        )
        assert "got nan" in text

    def test_it_reads_what_the_output_held_before(self, made: Made) -> None:
        text = self.wrong(
            made,
            RUN + "    was = float(out.view(-1)[0])\n" + RIGHT + "    out.mul_(1 + (was == was) * 1e-6)\n",
        )
        assert "other bits where the outputs held something else" in text or "got" in text

    def test_it_throws(self, made: Made) -> None:
        text = self.wrong(made, RUN + "    raise RuntimeError('no such shape')\n")
        assert "production row 'row1': it failed: RuntimeError: no such shape" in text

    def test_it_has_another_entry(self, made: Made) -> None:
        text = self.wrong(made, CANDIDATE.replace("x, scale, shift, out):", "x, out):"))
        assert "it failed: TypeError: run() takes 2 positional arguments but 4 were given" in text

    def test_it_can_not_be_loaded(self, made: Made) -> None:
        made.locked().write("solution/kernel.py", "run = 1 / 0\n")
        outcome = made.call("verify")
        assert outcome.code == 2 and "kernel.py can't be loaded: ZeroDivisionError" in told(outcome)

    def test_a_reference_that_is_not_written_yet(self, made: Made) -> None:
        made.write(
            "reference.py", "def modulate(*inputs):\n    raise NotImplementedError('later')\n"
        ).locked()
        outcome = made.call("verify")
        assert outcome.code == 2 and "the reference failed on row 'row1': NotImplementedError" in told(
            outcome
        )

    def test_the_emulator_runs_the_kit_alone(self, made: Made) -> None:
        outcome = made.locked().call("verify", "--emulator")
        assert outcome.code == 2 and "first is written in python" in told(outcome)

    def test_a_write_beside_the_output(self, made: Made) -> None:
        beside = "    torch.as_strided(out, (1,), (1,), out.storage_offset() + out.numel()).fill_(1)\n"
        assert "it wrote after out: the guard there is overwritten" in self.wrong(made, RUN + RIGHT + beside)

    def test_an_input_that_is_changed(self, made: Made) -> None:
        assert "the input x is changed" in self.wrong(made, RUN + RIGHT + "    x[0, 0] += 1\n")

    def test_nan_that_is_hidden(self, made: Made) -> None:
        text = self.wrong(made, RUN + RIGHT + "    torch.nan_to_num(out, out=out)\n")
        assert "special values row" in text and "expected nan" in text

    def test_a_baseline_that_is_wrong_ends_all(self, made: Made) -> None:
        made.locked().edit("reference.py", "x * scale", "x * scale * 1.5").call(
            "lock", "--reason", "other formula"
        )
        assert "the baseline fails the spec's reference" in told(made.call("verify"))

    def test_a_tolerance_that_refuses_nothing(self, made: Made) -> None:
        made.edit("task.toml", "atol = 1e-05", "atol = inf").locked()
        assert "one element off by twice the tolerance passes" in told(made.call("verify"))

    def test_a_tolerance_wider_than_the_values(self, made: Made) -> None:
        made.edit("task.toml", "atol = 1e-05", "atol = 1000.0").locked()
        assert "out of zeros passes" in told(made.call("verify"))

    def test_exact_is_to_the_last_bit(self, made: Made) -> None:
        exact = "out = { atol = 1e-05, rtol = 1e-05 }"
        made.edit("task.toml", exact, "out = { exact = true }").edit(
            "task.toml", '"double"', '"given"'
        ).locked()
        made.edit("reference.py", "x * scale + shift", "__import__('torch').addcmul(shift, x, scale)")
        made.call("lock", "--reason", "one rounding")
        made.good("verify")
        made.write("solution/kernel.py", RUN + RIGHT + "    out.view(__import__('torch').int32)[0, 0] ^= 1\n")
        assert "bit for bit" in told(made.call("verify"))

    def test_an_allocation_that_only_running_shows(self, made: Made) -> None:
        text = self.wrong(made, RUN + "    out.copy_(x * scale + shift)\n")
        assert "first alone allocates in the timed path (aten.mul" in text

    def test_a_candidate_for_a_gpu_is_absent_here(self, made: Made) -> None:
        made.edit(
            "task.toml", '[candidates.first]\nlanguage = "python"', '[candidates.first]\nlanguage = "triton"'
        )
        outcome = made.locked().call("verify")
        assert outcome.code == 3 and "which has no CPU" in told(outcome)


class TestBench:
    def test_it_needs_a_verification_of_these_sources(self, made: Made) -> None:
        made.locked().good("verify").write("solution/kernel.py", CANDIDATE + "\n")
        assert "have not passed `weft task verify`" in told(made.call("bench"))

    def test_it_keeps_the_rules_of_check(self, made: Made) -> None:
        made.locked().good("verify").edit("baseline/ops.py", "range", "tuple(range")
        assert "edited after it was copied" in told(made.call("bench"))

    @pytest.mark.parametrize(
        ("tail", "why"),
        [
            ("    if len(CALLS) > 1: out[0, 3] = 7\n", "after timing: out[0,3]: got 7"),
            # The bits of the first call never come again, however few calls a busy machine makes.
            ("    out[0, 3] *= 1 + 5e-6 / len(CALLS)\n", "two calls gave different bits"),
        ],
    )
    def test_right_in_the_first_run_only(
        self, made: Made, monkeypatch: pytest.MonkeyPatch, tail: str, why: str
    ) -> None:
        made.locked().write("solution/kernel.py", RUN + RIGHT + tail)
        monkeypatch.setattr(record, "verified", lambda *_: {"rows": {}})
        outcome = made.call("bench")
        assert outcome.code == 1 and why in told(outcome)
        rows = [row for row in record.rows(made.task) if row.get("side") == "weft"]
        assert rows and all(row["us"] is None for row in rows if why in row.get("why", ""))

    def test_rows_have_all_that_makes_them_again(self, made: Made) -> None:
        rows = record.rows(made.measured().task)
        timed = [row for row in rows if "run" in row]
        assert {row["workload"] for row in timed} == {"row1", "row2"}
        assert {row["side"] for row in timed} >= {"weft", "baseline", "noise"}
        stamp = record.stamp(made.task, made.task.candidate())
        assert all(row["lock"] == stamp["lock"] and row["sources"] == stamp["sources"] for row in timed)
        assert set(timed[0]["us"]) == {"median", "mean", "std", "min", "p10", "p90"}
        env = next(row for row in rows if row.get("env") == timed[0]["env"])
        assert (
            "weft task bench mod --candidate first --seed" in env["command"]
            and "first: python" in env["flags"]
        )
        states = [row["when"] for row in record.of_kind(made.task, "state")]
        assert states == ["before", "during", "after"]

    def test_an_edited_row_is_found(self, made: Made) -> None:
        path = made.measured().task.evidence
        path.write_text(path.read_text().replace('"samples":2', '"samples":9', 1))
        assert "the chain breaks here" in told(made.call("report"))

    def test_no_row_of_that_name(self, made: Made) -> None:
        assert "no workload row has 'none'" in told(
            made.locked().good("verify").call("bench", "--only", "none")
        )


FAKE = """#!/bin/sh
case "$*" in
*compute-apps*) {apps} ;;
*) echo "{memory}, 3, 1980, 40, 90.5" ;;
esac
"""


class TestCard:
    """An idle card, as a made-up nvidia-smi has it."""

    @pytest.fixture
    def smi(self, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
        made.edit("task.toml", 'device = "cpu"', 'device = "cuda"')
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        return made

    def say(self, root: Path, apps: str = "true", memory: int = 4) -> None:
        tool = root / "bin" / "nvidia-smi"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(FAKE.format(apps=apps, memory=memory))
        tool.chmod(0o755)

    def test_idle(self, smi: Made) -> None:
        self.say(smi.root)
        found = card.wait_idle(smi.task, Outcome("bench"), 0)
        assert found["memory_mib"] == 4 and found["processes"] == [] and found["watts"] == 90.5

    def test_a_process_on_it(self, smi: Made) -> None:
        self.say(smi.root, apps='echo "4242, python3, 30000"')
        with pytest.raises(
            Refusal, match=r"the card is busy after 0 s of waiting: process 4242 \(python3\) is on it"
        ):
            card.wait_idle(smi.task, Outcome("bench"), 0)

    def test_the_command_refuses(self, smi: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        self.say(smi.root, apps='echo "4242, python3, 30000"')
        smi.locked()
        monkeypatch.setattr(record, "verified", lambda *_: {"rows": {}})
        assert "the card is busy" in told(smi.call("bench", "--wait-s", "0"))

    def test_memory_of_nobody(self, smi: Made) -> None:
        self.say(smi.root, memory=30000)
        with pytest.raises(Refusal, match="30000 MiB of its memory are taken, an idle card has at most 1024"):
            card.wait_idle(smi.task, Outcome("bench"), 0)

    def test_who_comes_while_it_is_measured(self, smi: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        self.say(smi.root, apps='echo "1, ours, 100"')
        monkeypatch.setattr(card, "_POLL_S", 0.01)
        with card.Watch(smi.task) as watch:
            self.say(smi.root, apps='echo "1, ours, 100"; echo "77, other, 5"')
            while not watch.strangers:
                pass
        assert [stranger["pid"] for stranger in watch.strangers] == ["77"]

    def test_times_beside_a_stranger_are_dropped(self, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        def row(self: card.Watch) -> dict[str, object]:
            return {"strangers": self.strangers}

        def enter(self: card.Watch) -> card.Watch:
            self.strangers.append({"pid": "77", "name": "other", "mib": 5})
            return self

        made.locked().good("verify")
        monkeypatch.setattr(card.Watch, "__enter__", enter)
        monkeypatch.setattr(card.Watch, "__exit__", lambda *_: None)
        monkeypatch.setattr(card.Watch, "row", row)
        assert "process 77 (other) came onto the card while it was measured" in told(made.call("bench"))
        assert not [row for row in record.rows(made.task) if "run" in row]

    def test_nobody_can_say(self, smi: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(card.shutil, "which", lambda _: None)  # type: ignore[attr-defined]
        with pytest.raises(Exception, match="there is no nvidia-smi here"):
            card.state(smi.task)


def test_the_outcome_as_json(made: Made) -> None:
    found = json.loads(made.call("bench").json())
    assert found["command"] == "bench" and found["passed"] is False and found["code"] == 1
    assert found["refused"] == ["nothing is locked yet: run `weft task lock` before anything is measured"]


def test_a_slow_candidate_is_told_as_one(made: Made) -> None:
    made.locked().write("solution/kernel.py", RUN + "    for _ in range(200):\n    " + RIGHT).good("verify")
    outcome = made.call("bench")
    told = bench.headline(bench.cold(record.latest(made.task, made.task.candidate())))
    # On a busy machine a row's times may scatter so far that it is level; its ratio still says what it is.
    assert outcome.code == 0 and "over 2 rows" in told and " 0 wins" in told
    mean = re.match(r"geometric mean (\S+)x", told)
    assert mean and float(mean[1]) < 0.5, told
