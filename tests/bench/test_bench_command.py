"""`python -m weft.bench` and `python -m weft.bench.models`: what is asked for, printed, stored, and the exit code; the
measuring itself is somebody else's here."""

from __future__ import annotations

import argparse
import itertools
import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from weft.report.compare import summary_text
from weft.report.rows import add_rows, read

from tests.bench import made_up

torch = pytest.importorskip("torch")
pytest.importorskip("weft")

from weft.baselines import Absent, Baseline  # noqa: E402
from weft.bench import __main__ as bench  # noqa: E402
from weft.bench import _warm  # noqa: E402
from weft.bench._measure import Measured, Options, environment  # noqa: E402

LINES = [f"softmax x=fp32[{rows},64] out=fp32[{rows},64]" for rows in (4, 5, 6)]
ON_CPU = ["--device", "cpu"]


class Harness:
    """Measures nothing: `answers` has by case what it says, or what it raises."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Options, str]] = []
        self.answers: dict[str, Any] = {}
        self.warmed: list[tuple[list[str], int]] = []
        self.seconds = 0.0

    def measure(self, line: str, options: Options, run: str, env: str, name: str) -> Measured:
        self.asked.append((line, options, name))
        assert env == "e1" and len(run) == 12
        answer = self.answers.get(line, 2.0)
        if isinstance(answer, Exception):
            raise answer
        rows = [
            made_up.row(line, "rows", "weft", answer, workload=name or None, run=run),
            made_up.row(line, "torch 2.11.0 eager", "baseline", 4.0, workload=name or None, run=run),
        ]
        return Measured(rows, f"measured {line}", {"peer": "not here", f"of {line}": "gone"})

    def warm(self, lines: list[str], options: Options, processes: int) -> float:
        self.warmed.append((lines, processes))
        return 2.6


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    made = Harness()
    monkeypatch.setattr(bench, "measure", made.measure)
    monkeypatch.setattr(bench, "warm", made.warm)
    monkeypatch.setattr(
        bench, "environment", lambda device, command: made_up.ENVIRONMENT | {"command": command}
    )
    return made


def test_what_a_command_asks_for_unless_told_otherwise() -> None:
    given = bench.arguments(["softmax", "x=bf16[4,4]"])
    assert 0 <= given.seed < 1 << 31
    given.seed = None
    assert vars(given) == {
        "case": ["softmax", "x=bf16[4,4]"], "workload": None, "sample": None, "cases": 20, "floor": False,
        "only": "", "against": "", "list": False, "out": None, "evidence": None, "device": "cuda",
        "implementation": "", "rounds": 15, "seed": None, "budget_s": 0, "warm": 0, "skip_done": None,
    }  # fmt: skip
    seeds = {bench.arguments(["softmax"]).seed for _ in range(5)}
    assert len(seeds) == 5, "a new one each time"
    assert bench.arguments(["softmax", "--seed", "0"]).seed == 0
    assert bench.arguments(["--list"]).list


def test_options_reach_the_harness(harness: Harness) -> None:
    words = ["--against", "eager,,jax", "--rounds", "3", "--seed", "9", "--implementation", "rows"]
    assert bench.main([LINES[0], *ON_CPU, *words]) == 0
    options = Options(device="cpu", against=("eager", "jax"), rounds=3, seed=9, implementation="rows")
    assert harness.asked == [(LINES[0], options, "")]
    assert options.replay_us == 2000
    assert options.wants("torch eager") and options.wants("jax jit") and not options.wants("quack")
    assert Options().wants("quack")


def test_what_is_printed_of_a_workload(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = tmp_path / "w.csv", tmp_path / "rows.jsonl"
    table.write_text(f'row,case\na,"{LINES[0]}; {LINES[1]};"\nb,\nc,"{LINES[2]}"\n')
    words = [*ON_CPU, "--workload", str(table), "--out", str(out), "--seed", "1", "--warm", "2"]
    assert bench.main(words) == 0
    rows = read(out)
    assert capsys.readouterr().out.splitlines() == [
        "3 cases compiled in 3 s",
        "absent: peer: not here",
        f"absent: of {LINES[0]}: gone",
        f"measured {LINES[0]}",
        f"absent: of {LINES[1]}: gone",
        f"measured {LINES[1]}",
        f"absent: of {LINES[2]}: gone",
        f"measured {LINES[2]}",
        summary_text(rows),
    ]
    assert harness.warmed == [(LINES, 2)]
    assert [row["workload"] for row in rows if "run" in row] == ["w/a"] * 4 + ["w/c"] * 2
    assert len({row["run"] for row in rows if "run" in row}) == 1
    (env,) = [row for row in rows if "run" not in row]
    assert env["command"] == f"python -m weft.bench --workload {table} --seed 1"
    assert rows[0] == env, "the environment is told once, first"
    assert '"chain"' not in out.read_text()


def test_only_some_rows_of_a_workload(tmp_path: Path) -> None:
    table = tmp_path / "w.csv"
    table.write_text(
        f'row,case\nsmall,"{LINES[0]}"\nlarge,"{LINES[1]};rms_norm x=fp32[4,64] out=fp32[4,64]"\n'
    )

    def names(*words: str) -> list[tuple[str, str]]:
        given = bench.arguments(["--workload", str(table), *words])
        return [(name, line.split(" ")[0]) for name, line in bench.cases(given)]

    every = [("w/small", "softmax"), ("w/large", "softmax"), ("w/large", "rms_norm")]
    assert names() == every
    assert names("--only", "large") == every[1:]
    assert names("--only", "softmax") == every[:2]
    assert names("--only", "soft") == []
    done = tmp_path / "done.jsonl"
    assert names("--skip-done", str(done)) == every, "there is nothing done yet"
    add_rows(done, [made_up.row(LINES[1], "rows", "weft", 2.0, workload="w/large")], chained=False)
    assert names("--skip-done", str(done)) == [every[0], every[2]]
    add_rows(done, [made_up.row(LINES[0], "rows", "weft", 2.0, workload="w/large")], chained=False)
    assert names("--skip-done", str(done)) == [every[0], every[2]], "done, but of another row"


def test_a_case_that_is_refused_is_a_row_and_the_others_go_on(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "drawn", lambda given: LINES)
    harness.answers[LINES[0]] = ValueError("no such luck")
    out = tmp_path / "rows.jsonl"
    words = ["--sample", "softmax", "--seed", "5", *ON_CPU, "--out", str(out)]
    assert bench.main(words) == 1
    said = capsys.readouterr().out
    assert f"  {LINES[0]}\n  not measured: no such luck\n\n" in said
    assert "3 drawn cases against" not in said and "2 drawn cases against the best baseline of each" in said
    rows = [row for row in read(out) if "run" in row]
    assert rows[0] == {
        "run": rows[1]["run"], "case": LINES[0], "workload": None, "side": "weft", "name": "none",
        "time": "device", "cache": "cold", "us": None, "samples": 0, "floor_us": 0, "bytes": 0, "flops": 0,
        "checked": False, "env": "e1", "why": "no such luck", "seed": 5,
    }  # fmt: skip
    assert {row["seed"] for row in rows} == {5} and len(rows) == 5


def test_an_error_of_the_card_ends_all(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "drawn", lambda given: LINES)
    harness.answers[LINES[1]] = RuntimeError("CUDA error")
    assert bench.main(["--sample", "softmax", *ON_CPU, "--out", str(tmp_path / "rows.jsonl")]) == 2
    assert capsys.readouterr().out.splitlines()[-4:] == [
        f"  {LINES[1]}", "  not measured: CUDA error", "",
        "The card may be unusable: the others are left to another run.",
    ]  # fmt: skip
    assert [line for line, *_ in harness.asked] == LINES[:2]
    kept = [row for row in read(tmp_path / "rows.jsonl") if "run" in row]
    assert [row.get("why") for row in kept] == [None, None, "CUDA error"]
    assert "seed" in kept[2] and kept[2]["workload"] is None


@pytest.mark.parametrize(("answer", "code"), [(2.0, 0), (None, 1)])
def test_a_result_that_is_wrong_is_the_exit_code_s(harness: Harness, answer: float | None, code: int) -> None:
    harness.answers[LINES[0]] = answer
    assert bench.main([LINES[0], *ON_CPU]) == code


def test_a_run_without_cases_has_measured_nothing(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("row,case\na,\n")
    assert bench.main(["--workload", str(tmp_path / "w.csv"), *ON_CPU]) == 1


def test_a_budget_leaves_cases(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a clock that goes on by a second whenever it is looked at."""
    monkeypatch.setattr(bench, "drawn", lambda given: LINES)
    for budget, left in ((2, 1), (1, 2), (0, 0), (9, 0)):
        clock = itertools.count()
        monkeypatch.setattr(bench, "time", SimpleNamespace(monotonic=lambda clock=clock: float(next(clock))))
        bench.main(["--sample", "softmax", "--budget-s", str(budget), *ON_CPU])
        said = capsys.readouterr().out.splitlines()
        told = f"{left} cases are left: the budget of {budget} s is spent"
        assert (told in said) == bool(left) and len([line for line in said if "are left" in line]) == bool(
            left
        )


def test_a_sample_is_reported_against_the_floor_where_that_is_asked_for(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "drawn", lambda given: LINES)
    bench.main(["--sample", "softmax", *ON_CPU, "--floor"])
    assert "3 drawn cases against the floor" in capsys.readouterr().out
    bench.main([LINES[0], *ON_CPU])
    assert "drawn cases" not in capsys.readouterr().out


def test_where_rows_go(harness: Harness, tmp_path: Path) -> None:
    def of(*words: str) -> Path | None:
        return bench.destination(bench.arguments([*words]))

    assert of("softmax") is None
    assert of("softmax", "--out", "o") == Path("o")
    assert of("softmax", "--evidence", "e", "--out", "o") == Path("e/cases.jsonl")
    assert of("--workload", "f/w.csv", "--evidence", "e") == Path("e/w.jsonl")
    assert of("--sample", "all", "--evidence", "e") == Path("e/sampled.jsonl")
    bench.main([LINES[0], *ON_CPU, "--evidence", str(tmp_path / "h200")])
    assert '"chain"' in (tmp_path / "h200" / "cases.jsonl").read_text()


class Here(Baseline):
    name, about = "here", "what it is"

    def version(self) -> str:
        return "1.2"

    def prepare(self, case: Any) -> Any:
        return None


class Gone(Here):
    name, about = "gone", "what it would be"


def test_baselines_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench, "every", lambda: [Here(), Gone()])
    seen: list[bool] = []

    def state(baseline: Baseline, on_gpu: bool) -> str:
        seen.append(on_gpu)
        return "somewhere else" if baseline.name == "gone" else ""

    monkeypatch.setattr(bench, "state", state)
    assert bench.main(["--list"]) == 0 and bench.main(["--list", *ON_CPU]) == 0
    lines = [
        f"here                     {Here().title()}: what it is",
        "gone                     absent: somewhere else: what it would be",
    ]
    assert capsys.readouterr().out.splitlines() == lines * 2
    assert seen == [True, True, False, False]


def test_without_a_gpu_nothing_is_measured(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bench.main([LINES[0]]) == 3
    assert capsys.readouterr() == ("", "PyTorch finds no GPU here (--device cpu times the host, for tests)\n")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert bench.main([LINES[0]]) == 0 and harness.asked[0][1].device == "cuda"


def test_one_of_several_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["softmax", "--workload", "w"], ["--sample", "all", "--workload", "w"]):
        with pytest.raises(SystemExit):
            bench.arguments(words)
        assert "give one case line, --workload FILE, or --sample OP,..." in capsys.readouterr().err


def test_the_environment_has_the_libraries_that_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.bench import _measure  # noqa: PLC0415

    class Missing(Here):
        name = "missing"

        def version(self) -> str:
            raise Absent("not here")

    class Own(Here):
        name = "torch eager"

    monkeypatch.setattr(_measure, "every", lambda: [Missing(), Own(), Here()])
    libraries = environment("cpu", "made by")["libraries"]
    assert libraries["here"] == "1.2" and libraries["torch"] == torch.__version__
    assert not {"missing", "torch eager"} & libraries.keys()


class Compiled(Here):
    name = "torch.compile made up"

    def __init__(self) -> None:
        self.got: dict[str, Any] = {}

    def prepare(self, case: Any) -> Any:
        return None if case.op == "rms_norm" else self.got.update


def test_what_is_compiled_ahead_has_the_case_s_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    baseline = Compiled()
    monkeypatch.setattr(_warm, "every", lambda: [Here(), baseline])
    monkeypatch.setattr(_warm, "state", lambda baseline, on_gpu: "no GPU" if on_gpu else "")
    line = "softmax x=bf16[4,6]{8,1}+3 out=fp32[4,6]"
    assert _warm.compile_case(line, Options(device="cuda")) == 0 and baseline.got == {}
    assert _warm.compile_case("rms_norm x=bf16[4,6]", Options(device="cpu")) == 0
    assert _warm.compile_case(line, Options(device="cpu", against=("quack",))) == 0
    assert _warm.compile_case(line, Options(device="cpu", against=("made up",))) == 1
    x, out = baseline.got["x"], baseline.got["out"]
    assert (x.dtype, tuple(x.shape), x.stride(), x.storage_offset()) == (torch.bfloat16, (4, 6), (8, 1), 3)
    assert x.untyped_storage().nbytes() == 2 * (3 + 1 + 3 * 8 + 5)
    assert (out.dtype, tuple(out.shape), out.stride(), out.storage_offset()) == (
        torch.float32,
        (4, 6),
        (6, 1),
        0,
    )
    assert float(x.float().abs().sum()) == 0
    assert tuple(_warm._like({"dtype": "fp32", "shape": [0, 3]}, "cpu").shape) == (0, 3)
    for error in (ValueError("no"), RuntimeError("no"), Absent("no")):
        monkeypatch.setattr(baseline, "prepare", lambda case, error=error: (_ for _ in ()).throw(error))
        assert _warm.compile_case(line, Options(device="cpu")) == 0


def test_what_is_compiled_ahead_is_shared_by_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each process gets every second line, with the options that decide what is compiled."""
    started: list[Any] = []

    class Popen:
        def __init__(self, command: list[str], **words: Any) -> None:
            self.command, self.words, self.waited = command, words, False
            self.path = tmp_path / str(len(started))
            self.stdin = self.path.open("w")
            started.append(self)

        def wait(self) -> None:
            assert self.stdin.closed and len(started) == 2
            self.waited = True

    monkeypatch.setattr("weft.bench._warm.subprocess.Popen", Popen)
    assert _warm.warm(LINES, Options(device="cpu", against=("a", "b")), 2) >= 0
    assert [process.path.read_text().split("\n") for process in started] == [LINES[::2], LINES[1:2]]
    assert all(
        process.waited and process.command[1:] == ["-m", "weft.bench._warm", "cpu", "a,b"]
        for process in started
    )
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    assert all(process.words["env"] == environment for process in started)
    started.clear()
    monkeypatch.setattr(Popen, "wait", lambda self: None)
    _warm.warm(LINES[:1], Options(), 4)
    assert len(started) == 1, "no more than there are cases"


def test_a_process_compiles_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[tuple[str, Options, bool]] = []

    def compile_case(line: str, options: Options) -> int:
        compiled.append((line, options, torch.is_inference_mode_enabled()))
        return 1

    monkeypatch.setattr(_warm, "compile_case", compile_case)
    monkeypatch.setattr("weft.bench._warm.sys.stdin", SimpleNamespace(read=lambda: "\n".join(LINES)))
    _warm.main("cpu", "a,,b")
    assert compiled == [(line, Options(device="cpu", against=("a", "b")), True) for line in LINES]


def test_a_process_is_told_its_device_and_baselines_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def lines() -> str:
        read.append(LINES[0])
        return LINES[0]

    monkeypatch.setattr(sys, "argv", ["_warm", "cpu", "no such baseline"])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(read=lines))
    runpy.run_path(str(Path(_warm.__file__)), run_name="__main__")
    assert read == [LINES[0]]


def test_the_command_of_rows_is_a_namespace_s_alone() -> None:
    given = argparse.Namespace(
        workload=None, case=["a", "b"], sample=None, only="", against="", seed=3, cases=2
    )
    assert bench.command(given) == "python -m weft.bench 'a b' --seed 3"
