"""From the log to the end: ideas, results, dispatch, done and no-go."""

from __future__ import annotations

import json

import pytest
from weft.task import dispatch, finish, profile, record, report
from weft.task.module import load_module
from weft.task.spec import evaluate

from tests.task.made import CANDIDATE, Made, told

SECOND = """import torch


def run(x, scale, shift, out):
    torch.mul(x, scale, out=out)
    out.add_(shift)
"""
BUCKETS = """
[candidates.second]
language = "python"
entry = "solution/second.py:run"

[[dispatch]]
bucket = "short"
when = "S < 8"

[[dispatch]]
bucket = "long"
when = "1 == 1"
"""


def finished(made: Made) -> Made:
    """All that `done` asks for."""
    made.measured().good("profile").write("README.md", "# mod\n")
    made.call("log", "--idea", "one call", "--status", "kept", "--because", "no loop", "--run", "last")
    return made.good("check", "report")


class TestLog:
    def test_a_verdict_has_a_reason(self, made: Made) -> None:
        assert "--because WHY" in told(
            made.measured().call("log", "--idea", "unroll", "--status", "rejected")
        )

    def test_and_rows_that_say_so(self, made: Made) -> None:
        words = ["--idea", "unroll", "--status", "rejected", "--because", "slower"]
        assert "names the rows that say so" in told(made.measured().call("log", *words))
        assert "the evidence has no run made-up" in told(made.call("log", *words, "--run", "made-up"))
        assert made.call("log", *words, "--run", "last").code == 0
        assert "rejected unroll: slower [run" in made.call("log").notes[0]


class TestReport:
    def test_results_are_rendered(self, made: Made) -> None:
        page = (finished(made).folder / "docs" / "results.md").read_text()
        for text in (
            "geometric mean",
            "| row1 |",
            "the baseline against itself",
            "**kept** one call",
            "lock `",
        ):
            assert text in page

    def test_attempts_keep_those_of_other_sources(self, made: Made) -> None:
        made.measured().write("solution/kernel.py", SECOND).good("verify", "bench", "report")
        assert [a["of"] for a in report.attempts(made.task, made.task.candidate())] == [
            "other sources",
            "current",
        ]

    def test_the_page(self, made: Made) -> None:
        pytest.importorskip("plotly")
        path = finished(made).root / "page.html"
        assert made.call("report", "--html", str(path)).code == 0
        text = path.read_text()
        assert "/*DATA*/" not in text and '"headline"' in text


class TestDone:
    def test_a_win(self, made: Made) -> None:
        outcome = finished(made).call("done")
        assert outcome.code == 0, told(outcome)

    @pytest.mark.parametrize(
        ("missing", "refusal"),
        [
            ("README.md", "README.md says what the task is"),
            ("docs/log.jsonl", "ideas are on record"),
            ("docs/results.md", "there is no docs/results.md"),
            ("docs/baseline_source.md", "docs/baseline_source.md says where they are from"),
        ],
    )
    def test_what_is_missing_is_named(self, made: Made, missing: str, refusal: str) -> None:
        (finished(made).folder / missing).unlink()
        assert refusal in told(made.call("done"))

    def test_a_row_of_nobody(self, made: Made) -> None:
        finished(made).edit("task.toml", 'source = "a test"', 'source = ""').call(
            "lock", "--reason", "a test"
        )
        assert "row1: write each row's source into task.toml" in told(made.call("done"))

    def test_no_grid(self, made: Made) -> None:
        made.edit("task.toml", "[grid]\nS = [1, 4, 7]\nD = [1, 7, 32]\n", "[grid]\n").locked()
        assert "task.toml has an empty [grid]" in told(made.call("done"))

    def test_a_kernel_on_the_kit_that_no_emulator_ran(self, made: Made) -> None:
        made.edit(
            "task.toml", '[candidates.first]\nlanguage = "python"', '[candidates.first]\nlanguage = "kit"'
        )
        assert "`weft task verify --emulator` has not passed for first" in told(made.locked().call("done"))

    def test_one_row_that_is_slower(self, made: Made) -> None:
        slow = "    for _ in range(400 if x.shape[0] == 4 else 1):\n    "
        once = "    torch.addcmul(shift, x, scale, out=out)\n"
        wide = "    for _ in range(400):\n        torch.addcmul(shift, x, scale, out=out)\n"
        made.write("baseline/entry.py", "import torch\n\n\ndef run(x, scale, shift, out):\n" + wide)
        made.write("solution/kernel.py", CANDIDATE.replace(once, slow.replace("400 if", "800 if") + once))
        text = told(finished(made).call("done"))
        assert "row1 0." in text and "give these rows to the baseline" in text

    def test_an_edited_row_ends_all(self, made: Made) -> None:
        path = finished(made).task.evidence
        path.write_text(path.read_text().replace('"samples":2', '"samples":9', 1))
        assert "the chain breaks here" in told(made.call("done"))

    def test_results_that_were_typed(self, made: Made) -> None:
        finished(made).edit("docs/results.md", "geometric mean", "geometric mean of 9.9, not")
        assert "docs/results.md is not what the rows say" in told(made.call("done"))

    @pytest.mark.parametrize("page", ["docs/profile.md", "docs/no_go.md"])
    def test_another_page_that_was_typed(self, made: Made, page: str) -> None:
        words = ("--bound", "other", "--reason", "a call costs the host more than its work")
        assert finished(made).call("no-go", *words).code == 0
        made.good("report").edit(page, "row1", "row9")
        assert f"{page} is not what the rows say" in told(made.call("done"))

    def test_a_no_go_of_other_sources(self, made: Made) -> None:
        words = ("--bound", "other", "--reason", "a call costs the host more than its work")
        assert finished(made).call("no-go", *words).code == 0
        made.write("solution/kernel.py", SECOND)
        assert "docs/no_go.md is of other sources" in told(made.call("done"))

    def test_several_candidates_that_nobody_dispatched(self, made: Made) -> None:
        made.measured().write("solution/second.py", SECOND)
        with (made.folder / "task.toml").open("a") as file:
            file.write(BUCKETS)
        assert "no dispatch under this lock" in finish._dispatched(made.task)

    def test_no_bound(self, made: Made) -> None:
        made.measured().good("report")
        assert "no bound was named for these sources" in told(made.call("done"))

    def test_a_chain_that_was_not_measured(self, made: Made) -> None:
        finished(made).write("chain.py", "def chain(op, *inputs): return op(*inputs)\n")
        assert "`weft task bench --in-chain`" in told(made.call("done"))

    def test_a_candidate_that_loses(self, made: Made) -> None:
        once = "    torch.addcmul(shift, x, scale, out=out)\n"
        slow = CANDIDATE.replace(once, "    for _ in range(200):\n    " + once)
        made.write("solution/kernel.py", slow)
        assert "that is no win" in told(finished(made).call("done"))

    def test_a_row_that_is_missing(self, made: Made) -> None:
        made.locked().good("verify").call("bench", "--only", "row1")
        assert "no right times of both sides for row2" in told(made.call("done"))


class TestNoGo:
    words = ("--bound", "other", "--reason", "a call of PyTorch costs the host more than the work does")

    def test_without_numbers(self, made: Made) -> None:
        assert "no right times of both sides" in told(made.locked().call("no-go", *self.words))

    def test_without_an_attempt(self, made: Made) -> None:
        made.measured().good("profile")
        assert "no entry of `weft task log` names a run in which a candidate was right" in told(
            made.call("no-go", *self.words)
        )

    def test_without_a_bound_in_figures(self, made: Made) -> None:
        made.measured().call(
            "log", "--idea", "a", "--status", "rejected", "--because", "slow", "--run", "last"
        )
        assert "the bound has figures: no bound was named" in told(made.call("no-go", *self.words))

    def test_without_a_reason(self, made: Made) -> None:
        assert "says too little" in told(
            finished(made).call("no-go", "--bound", "other", "--reason", "too hard")
        )

    def test_a_bound_that_the_roofline_contradicts(self, made: Made) -> None:
        words = ("--bound", "memory", *self.words[2:])
        assert "the roofline says not known, not memory" in told(finished(made).call("no-go", *words))

    def test_with_all_of_it(self, made: Made) -> None:
        assert finished(made).call("no-go", *self.words).code == 0
        made.good("report", "done")
        assert "**No go**" in (made.folder / "docs" / "results.md").read_text()
        assert (made.folder / finish.NO_GO).read_text().startswith("# No go: mod")


class TestDispatch:
    def two(self, made: Made) -> Made:
        with (made.folder / "task.toml").open("a") as file:
            file.write(BUCKETS)
        made.write("solution/second.py", SECOND).locked()
        for name in ("first", "second"):
            assert made.call("verify", "--candidate", name).code == 0
        return made

    def test_the_table_and_the_code_say_the_same(self, made: Made) -> None:
        outcome = self.two(made).call("dispatch")
        assert outcome.code == 0, told(outcome)
        choices = record.of_kind(made.task, "dispatch")[0]["choices"]
        page = (made.folder / dispatch.PAGE).read_text()
        assert all(f"| {c['bucket']} | `{c['when']}` | {c['entry']} |" in page for c in choices)
        module = load_module(made.folder / "solution" / "dispatch.py", "the dispatcher")
        import torch  # noqa: PLC0415 - conftest has asked for it

        for rows, choice in ((4, choices[0]), (8, choices[1])):
            x = torch.zeros(rows, 32)
            assert module.entry_of(x, x[0], x[0]) is getattr(module, f"_{choice['entry'].upper()}")

    def test_a_dispatcher_that_was_edited(self, made: Made) -> None:
        self.two(made).good("dispatch").edit("solution/dispatch.py", "S < 8", "S < 9")
        assert "solution/dispatch.py is not what was measured" in finish._dispatched(made.task)

    def test_a_table_that_was_typed(self, made: Made) -> None:
        self.two(made).good("dispatch").edit("docs/dispatch.md", "| short |", "| tiny |")
        assert "docs/dispatch.md is not what was measured" in finish._dispatched(made.task)

    def test_the_dispatcher_is_a_candidate(self, made: Made) -> None:
        self.two(made).good("dispatch")
        with (made.folder / "task.toml").open("a") as file:
            file.write('\n[candidates.dispatch]\nlanguage = "python"\nentry = "solution/dispatch.py:run"\n')
        made.good("verify", "bench")
        assert record.measured(made.task, made.task.candidate())[0]["candidate"] == "dispatch"

    def test_a_row_in_no_bucket(self, made: Made) -> None:
        self.two(made).edit("task.toml", "1 == 1", "S < 2")
        assert "is in no bucket" in told(made.call("dispatch"))

    def test_a_bucket_that_nobody_measures(self, made: Made) -> None:
        self.two(made).edit("task.toml", "S < 8", "S < 1")
        assert "bucket short has no workload row" in told(made.call("dispatch"))

    def test_one_candidate(self, made: Made) -> None:
        with (made.folder / "task.toml").open("a") as file:
            file.write('\n[[dispatch]]\nbucket = "all"\nwhen = "1 == 1"\n')
        assert "leaves nothing to pick" in told(made.locked().call("dispatch"))

    def test_one_candidate_and_the_baseline(self, made: Made) -> None:
        """Two buckets: it may win in one, and leave the other to the baseline."""
        with (made.folder / "task.toml").open("a") as file:
            file.write(BUCKETS[BUCKETS.index("[[dispatch]]") :])
        made.locked().good("verify", "dispatch")
        choices = record.of_kind(made.task, "dispatch")[0]["choices"]
        assert [choice["bucket"] for choice in choices] == ["short", "long"]
        assert {choice["entry"] for choice in choices} <= {"baseline", made.task.candidate().name}


class TestProfile:
    def test_counters_of_nsight_compute(self) -> None:
        text = (
            "==PROF== Connected\n"
            '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
            '"0","7","norm<8>","dram__bytes_read.sum","Mbyte","61.2"\n'
            '"0","7","norm<8>","launch__registers_per_thread","register/thread","64"\n'
            '"0","7","norm<8>","something__else.sum","","1"\n'
        )
        assert profile.parse_counters(text) == [
            {
                "kernel": "norm<8>",
                "read from memory": "61.2 Mbyte",
                "registers a thread": "64 register/thread",
            }
        ]
        assert profile.parse_counters("==ERROR== ERR_NVGPUCTRPERM") == []

    @pytest.mark.parametrize(
        ("floor", "moved", "launch", "name"),
        [
            (0, 0, 0, "not known"),
            (1.1, 1.0, 1.0, "launch"),
            (40, 41, 1, "memory"),
            (100, 20, 1, "arithmetic"),
        ],
    )
    def test_the_bound(self, floor: float, moved: float, launch: float, name: str) -> None:
        assert profile._bound(floor, moved, launch) == name

    def test_it_needs_times(self, made: Made) -> None:
        assert "`weft task bench` first" in told(made.locked().call("profile"))


@pytest.mark.parametrize(
    ("text", "value"),
    [("2*D + 1", 17), ("S < 8 and T == 'bf16'", True), ("not S > 2", False), ("4 < D <= 8", True)],
)
def test_conditions(text: str, value: object) -> None:
    assert evaluate(text, {"S": 4, "D": 8, "T": "bf16"}) == value


def test_candidate_source(made: Made) -> None:
    made.measured().write("solution/helper.py", "pass\n")
    assert not record.measured(made.task, made.task.candidate())
    assert json.loads((made.folder / "lock.json").read_text())["history"] == []
    assert (made.folder / "solution" / "kernel.py").read_text() == CANDIDATE
