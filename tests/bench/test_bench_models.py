"""python -m weft.bench.models without its measuring: what is asked for, the names and models of its cases, what is
counted, and what is compiled ahead."""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("weft")
pytest.importorskip("diffusers")

from weft.bench.models import __main__ as bench  # noqa: E402 - only where all can be imported
from weft.bench.models import _diffusion, _language, _measure, _sides, _subject  # noqa: E402
from weft.bench.models._measure import Entrant, Options  # noqa: E402
from weft.bench.models._subject import Case, Subject  # noqa: E402

ON_CPU = ["--device", "cpu", "--tiny"]


def test_what_a_command_asks_for_unless_told_otherwise() -> None:
    given = bench.arguments([])
    assert 0 <= given.seed < 1 << 31
    assert len({bench.arguments([]).seed for _ in range(5)}) == 5, "a new one each time"
    given.seed = None
    assert vars(given) == {
        "only": "", "list": False, "layers": None, "tiny": False, "out": None, "device": "cuda", "rounds": 15,
        "seconds": 5, "seed": None, "backend": "inductor", "budget_s": 0, "skip_done": None, "warm": 0,
        "compile": False,
    }  # fmt: skip
    assert bench.arguments(["--seed", "0"]).seed == 0
    case = next(case for case in bench.every(False) if case.name.startswith("flux"))
    for words, layers in (([], 3), (["--layers", "0"], 19), (["--layers", "5"], 5)):
        assert bench.layers_of(case, bench.arguments(words)) == layers
    assert bench.command(bench.arguments(["--seed", "2"])) == "python -m weft.bench.models --seed 2"
    words = ["--only", "flux", "--layers", "0", "--seed", "2"]
    assert bench.command(bench.arguments(words)) == (
        "python -m weft.bench.models --only flux --layers 0 --seed 2"
    )


def test_the_names_of_all_cases() -> None:
    """The evidence has rows by these names; a budget that ends early leaves the larger batches."""
    assert [case.line(case.layers) for case in bench.every(False)] == [
        "qwen3-8b prefill=2048 layers=8/36",
        "qwen3-8b decode batch=1 context=1024 layers=8/36",
        "llama-3.1-8b prefill=2048 layers=8/32",
        "llama-3.1-8b decode batch=1 context=1024 layers=8/32",
        "flux.1 step 1024x1024 layers=3/19",
        "wan-2.1-14b step 832x480 81-frames layers=3/40",
        "qwen-image step 1024x1024 layers=6/60",
        "ltx-video step 704x480 161-frames layers=7/28",
        "qwen3-8b decode batch=16 context=1024 layers=8/36",
        "qwen3-8b decode batch=64 context=1024 layers=8/36",
        "llama-3.1-8b decode batch=16 context=1024 layers=8/32",
        "llama-3.1-8b decode batch=64 context=1024 layers=8/32",
    ]
    given = bench.arguments(["--only", "flux.1 step,decode"])
    assert [case.name for case in bench.wanted(given)] == ["flux.1 step"], "whole names before words in names"


def test_a_step_of_decoding_goes_on_in_its_cache_and_the_exact_one_in_its_own() -> None:
    (case,) = (case for case in _language.cases(True) if case.name == "qwen3-8b decode batch=1")
    subject = case.open(1, "cpu")
    caches = [cell.cell_contents for cell in subject.exact.__closure__ or ()]
    (cache,) = (found for found in caches if hasattr(found, "layers") and hasattr(found, "update"))
    with torch.no_grad():
        subject.rewind()
        assert int(cache.layers[0].cumulative_length) == 10
        subject.exact(subject.model)
        assert int(cache.layers[0].cumulative_length) == 10
        subject.step(subject.model)
        assert int(cache.layers[0].cumulative_length) == 11
    assert subject.state_bytes == 2 * 2 * 10 * 16 * 2, "keys and values of two heads, ten tokens, in bf16"


def test_a_step_of_diffusion_is_of_one_sample() -> None:
    size = _diffusion.Size((2, 3, 4), 5)
    widths = ("in_channels", "joint_attention_dim", "pooled_projection_dim", "caption_channels", "text_dim")
    config = SimpleNamespace(**{name: 10 + i for i, name in enumerate(widths)}, guidance_embeds=True)
    shapes = {
        name: {
            key: tuple(value.shape)
            for key, value in described.inputs(config, size).items()
            if isinstance(value, torch.Tensor)
        }
        for name, described in _diffusion.MODELS.items()
    }
    assert shapes == {
        "flux.1": {
            "hidden_states": (1, 24, 10), "encoder_hidden_states": (1, 5, 11), "pooled_projections": (1, 12),
            "timestep": (1,), "guidance": (1,), "img_ids": (24, 3), "txt_ids": (5, 3),
        },
        "wan-2.1-14b": {
            "hidden_states": (1, 10, 2, 3, 4), "encoder_hidden_states": (1, 5, 14), "timestep": (1,),
        },
        "qwen-image": {"hidden_states": (1, 24, 10), "encoder_hidden_states": (1, 5, 11), "timestep": (1,)},
        "ltx-video": {
            "hidden_states": (1, 24, 10), "encoder_hidden_states": (1, 5, 13), "timestep": (1,),
            "encoder_attention_mask": (1, 5),
        },
    }  # fmt: skip
    grid = _diffusion._grid(size)
    assert grid[0].tolist() == [0, 0, 0] and grid[5].tolist() == [0, 1, 1] and grid[-1].tolist() == [1, 2, 3]


def test_vectors_are_near_what_they_begin_with_and_not_equal_to_it() -> None:
    model = torch.nn.LayerNorm(4096)
    held = torch.nn.Linear(2, 2, bias=False)
    matrix = held.weight.clone()
    _subject.randomized(torch.nn.ModuleList([model, held]))
    assert torch.equal(held.weight, matrix), "matrices are random already"
    for parameter, begin in ((model.weight, 1.0), (model.bias, 0.0)):
        assert abs(float(parameter.mean()) - begin) < 0.01
        assert abs(float(parameter.std()) - 0.1) < 0.01
        assert not parameter.requires_grad
    assert not model.training


def test_the_work_of_attention_is_both_products_over_all_pairs() -> None:
    query, key, value = (2, 8, 5, 64), (2, 4, 7, 64), (2, 4, 7, 32)
    assert _measure._attention_flops(query, key, value) == 2 * 2 * 8 * 5 * 7 * (64 + 32)


def test_blocks_are_compiled_whole_by_the_backend_that_is_asked_for() -> None:
    asked: list[dict[str, Any]] = []
    layer = SimpleNamespace(compile=lambda **words: asked.append(words))
    model = SimpleNamespace(layers=[layer, layer], compile_repeated_blocks=layer.compile)
    assert _sides._each_layer(model, "aot_eager") is model
    assert _sides._each_block(model, "eager") is model
    assert asked == [
        *[{"fullgraph": True, "dynamic": False, "backend": "aot_eager"}] * 2,
        {"fullgraph": True, "backend": "eager"},
    ]


class Clock:
    """Goes on by so many seconds whenever it is looked at."""

    def __init__(self, step: float = 1.0) -> None:
        self.now, self.step = 0.0, step

    def monotonic(self) -> float:
        self.now += self.step
        return self.now


def made_up_case(name: str, open_: Any = None) -> Case:
    side = _sides.Side("baseline", "eager", lambda model, backend: model)
    return Case(name, 1, 2, "torch", open_, False, "", (side,))


def test_a_side_is_told_with_the_time_until_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_measure, "time", Clock(1.25))
    subject = Subject(torch.nn.Identity(), lambda model: model(torch.ones(1)), lambda model: torch.ones(1))
    case = made_up_case("c")
    entrant = _measure._entrant(case, case.sides[0], subject, Options("cpu"))
    assert entrant.notes == ["ready in 1.2 s"] and entrant.time == "eager"
    assert entrant.name == f"torch {version('torch')}: eager"


def test_rows_have_what_the_report_looks_for(capsys: pytest.CaptureFixture[str]) -> None:
    subject = Subject(
        torch.nn.Linear(4, 4, bias=False),
        lambda model: model(torch.ones(3, 4)),
        lambda m: m(torch.ones(3, 4)),
    )
    rows, text = _measure.measure(
        made_up_case("c", lambda layers, device: subject), 1, Options("cpu", rounds=1), "r", "e"
    )
    (row,) = rows
    assert row.pop("us").keys() == {"median", "mean", "std", "min", "p10", "p90"}
    assert row == {
        "run": "r", "case": "c layers=1/2", "workload": None, "cache": "cold", "floor_us": 0, "bytes": 64,
        "flops": 2 * 3 * 4 * 4, "env": "e", "side": "baseline", "name": f"torch {version('torch')}: eager",
        "time": "eager", "checked": True, "samples": 1, "error": row["error"],
    }  # fmt: skip
    assert 0 <= row["error"] < 1e-6
    head, line = text.splitlines()
    assert head == "c layers=1/2"
    assert re.fullmatch(
        r" +\d+\.\d{3} ms  error \d\.\d\de[-+]\d\d  eager  torch .*: eager \(ready in .*\)", line
    )
    failed = Entrant(
        made_up_case("c").sides[0], "n", None, lambda: torch.ones(1), "eager", why="w", notes=["a", "b"]
    )
    assert _measure._text(failed) == "  n: w (a; b)"


class Harness:
    """Measures nothing: each case has the answer that its name says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.options: list[Options] = []
        self.lines: list[str] = []
        monkeypatch.setattr(bench, "measure", self.measure)
        monkeypatch.setattr(
            bench, "every", lambda tiny: [made_up_case(n) for n in ("right", "wrong", "large")]
        )
        monkeypatch.setattr(bench, "environment", lambda device, command: {"env": "e1", "libraries": {}})
        monkeypatch.setattr(bench, "add_rows", lambda path, rows, chained: self.rows.extend(rows))
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
        self.rows: list[dict[str, Any]] = []

    def measure(self, case: Case, layers: int, options: Options, run: str, env: str) -> Any:
        self.options.append(options)
        self.lines.append(case.line(layers))
        if case.name == "large":
            raise torch.cuda.OutOfMemoryError("no room")
        return [{"run": run, "checked": case.name == "right"}], f"told of {case.name}"


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    return Harness(monkeypatch)


@pytest.mark.parametrize(
    ("only", "wrong", "said"),
    [
        ("right", 0, ["told of right"]),
        ("wrong", 1, ["told of wrong"]),
        ("large", 1, ["large: not measured: no room"]),
        ("", 2, ["told of right", "told of wrong", "large: not measured: no room"]),
    ],
)
def test_sides_that_are_wrong_and_cases_without_room_are_the_exit_code_s(
    only: str, wrong: int, said: list[str], harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--rounds", "3", "--seconds", "2", "--seed", "7", "--backend", "eager", "--out", "o"]
    assert bench.main([*ON_CPU, *options, "--only", only]) == (1 if wrong else 0)
    told = [line for line in capsys.readouterr().out.splitlines() if not re.fullmatch(r"  \d+\.\d s", line)]
    assert told == [*said, f"{len(said)} cases, of {wrong} of them a side is wrong or failed"]
    assert set(harness.options) == {Options("cpu", 3, 2.0, 7, "eager")}
    assert [row for row in harness.rows if "run" not in row][1:] == [], "the environment is told once"
    assert torch.backends.cudnn.allow_tf32 is False, "what is compared with is fp32"


def test_a_budget_leaves_cases(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "time", Clock())
    assert bench.main([*ON_CPU, "--budget-s", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "2 cases are left: the budget of 3 s is spent",
        "1 cases, of 0 of them a side is wrong or failed",
    ]


def test_without_a_gpu_nothing_is_measured(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bench.main([]) == 3
    assert capsys.readouterr() == ("", "PyTorch finds no GPU here (--device cpu times the host, for tests)\n")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    emptied: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.extend(harness.lines))
    assert bench.main(["--only", "right"]) == 0 and harness.options[0].device == "cuda"
    assert emptied == ["right layers=1/2"], "the next model finds the memory of the last one free"


def test_what_is_compiled_ahead_is_shared_by_processes(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[Any] = []

    class Popen:
        def __init__(self, command: list[str], env: dict[str, str]) -> None:
            self.command, self.env, self.polls = command, env, 0
            assert len([at for at in started if at.polls < 2]) < 2, "no more at a time than are asked for"
            started.append(self)

        def poll(self) -> int | None:
            self.polls += 1
            return None if self.polls < 2 else 0

    clock = Clock()
    monkeypatch.setattr(bench, "time", SimpleNamespace(monotonic=clock.monotonic, sleep=lambda seconds: None))
    monkeypatch.setattr("weft.bench.models.__main__.subprocess.Popen", Popen)
    bench.main([*ON_CPU, "--only", "right,wrong", "--warm", "2", "--layers", "4", "--backend", "eager"])
    assert capsys.readouterr().out.splitlines()[0] == "2 cases compiled in 1 s"
    start = [
        sys.executable,
        "-m",
        "weft.bench.models",
        "--compile",
        "--device",
        "cpu",
        "--backend",
        "eager",
        "--tiny",
    ]
    assert [at.command for at in started] == [
        [*start, "--layers", "4", "--only", name] for name in ("right", "wrong")
    ]
    assert all(at.env == {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2"} for at in started)
    started.clear()
    given = Namespace(**vars(bench.arguments(["--only", "right", "--warm", "1"])))
    assert bench.warm(given) == 1.0
    assert started[0].command == [*start[:5], "cuda", "--backend", "inductor", "--only", "right"]
