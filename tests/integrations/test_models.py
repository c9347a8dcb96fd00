"""python -m weft.bench.models at its tiny size: every case, every side, rows that the report takes."""

from __future__ import annotations

import math

import pytest
import torch

pytest.importorskip("diffusers")

import weft.transformers
from weft.bench.models import _language, _measure
from weft.bench.models.__main__ import every, main
from weft.bench.models._subject import twin
from weft.report import models as section
from weft.report.compare import comparisons
from weft.report.rows import add_rows, problems, read

from tests.integrations.device import DEVICE

TINY = (
    "--tiny",
    "--device",
    DEVICE.type,
    "--backend",
    "aot_eager",
    "--rounds",
    "2",
    "--seconds",
    "0",
    "--seed",
    "1",
)


@pytest.fixture(autouse=True)
def fresh(monkeypatch) -> None:
    torch._dynamo.reset()
    monkeypatch.setitem(_measure.WORSE, "weft", 1.5)  # of few numbers one error is more than another


def names(word: str) -> list[str]:
    return [case.name for case in every(True) if word in case.name]


def test_every_case_has_its_real_size() -> None:
    assert [case.name for case in every(False)] == [case.name.replace("=12", "=2048") for case in every(True)]
    assert len(every(False)) == 2 * (1 + len(_language.BATCHES)) + 4
    assert all(case.layers < case.of for case in every(False))


@pytest.mark.parametrize("word", ["prefill", "batch=1", "flux", "wan", "qwen-image", "ltx"])
def test_rows(word, tmp_path, capsys) -> None:
    found = [name for name in names(word) if not name.endswith("batch=16")]
    path = tmp_path / "rows.jsonl"
    assert main([*TINY, "--only", ",".join(found), "--out", str(path)]) == 0, capsys.readouterr().out
    rows = [row for row in read(path) if "run" in row]
    assert {
        row["case"].split(" layers")[0].split(" context")[0].removesuffix(" tiny") for row in rows
    } == set(found)
    for row in rows:
        assert row["checked"], row
        assert row["samples"] == 2
        assert 0 < row["error"] < 0.02
        assert row["bytes"] > 0
        assert row["flops"] > 0
    assert {row["side"] for row in rows} == {"weft", "baseline"}
    assert any("torch.compile" in row["name"] for row in rows if row["side"] == "weft")
    told = capsys.readouterr().out
    assert "0 never called" in told
    assert told.count("never called") == told.count(" 0 never called")
    assert "failed:" not in told


def test_sides_move_weights_of_their_own() -> None:
    """A graph that one side captured goes on reading what it read, whatever accelerate does to another's model."""
    subject = _language.cases(True)[1].open(1, DEVICE.type)
    before = {name: p.data_ptr() for name, p in subject.model.named_parameters()}
    first, second = twin(subject.model), twin(subject.model)
    assert {name: p.data_ptr() for name, p in second.named_parameters()} == before
    weft.transformers.accelerate(first)
    moved = {name for name, p in first.named_parameters() if p.data_ptr() != before[name]}
    assert moved == {f"layers.0.self_attn.{name}_proj.weight" for name in "qkv"}
    for model in (subject.model, second):
        assert {name: p.data_ptr() for name, p in model.named_parameters()} == before


def test_what_is_done_is_skipped_and_rows_are_evidence(tmp_path, capsys) -> None:
    path, evidence = tmp_path / "rows.jsonl", tmp_path / "evidence" / DEVICE.type / "models.jsonl"
    asked = [*TINY, "--only", "llama-3.1-8b decode batch=1"]
    assert main([*asked, "--out", str(path)]) == 0
    assert main([*asked, "--skip-done", str(path), "--out", str(path)]) == 0
    assert "0 cases, of 0 of them" in capsys.readouterr().out
    rows = [row | {"gpu": DEVICE.type} if "run" not in row else row for row in read(path)]
    add_rows(evidence, rows, chained=True)
    assert problems(evidence, lambda _: "is no case line") == []
    assert read(evidence) == rows
    text = "\n".join(section.markdown(comparisons(rows)))
    assert "| `llama-3.1-8b decode batch=1 context=10` | 2 of 32 |" in text
    assert text.count("weft in transformers") == 2 * (2 if DEVICE.type == "cuda" else 1)


def test_a_side_that_is_wrong_or_fails_gets_no_time(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(_measure.WORSE, "weft", 0.01)

    def breaks(*_: object, **__: object) -> None:
        raise RuntimeError("no such compiler")

    monkeypatch.setattr(torch, "compile", breaks)
    path = tmp_path / "rows.jsonl"
    assert main([*TINY, "--only", "qwen3-8b decode batch=1", "--out", str(path)]) == 1
    rows = {(row["side"], "compile" in row["name"]): row for row in read(path) if "run" in row}
    assert rows["baseline", False]["us"]["median"] > 0
    assert rows["baseline", True]["why"] == "failed: RuntimeError: no such compiler"
    assert rows["weft", False]["why"].startswith("an error of ")
    assert rows["weft", False]["us"] is None
    text = "\n".join(section.markdown(comparisons(list(rows.values()))))
    assert "| - | failed: RuntimeError: no such compiler | - |" in text
    assert "| `qwen3-8b decode batch=1 context=10` | 2 of 36 | - |" in text


def test_the_compiler_can_be_run_ahead(capsys) -> None:
    assert main([*TINY, "--only", "ltx-video step", "--compile"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 3
    assert all("torch.compile" in line and "ready in" in line for line in told)


def test_only_the_gpu_is_measured_by_default(capsys) -> None:
    if DEVICE.type == "cpu":
        assert main(["--only", "flux"]) == 3
    assert main(["--list"]) == 0
    assert "wan-2.1-14b step 832x480 81-frames layers=3/40" in capsys.readouterr().out


def test_errors_and_summaries() -> None:
    exact = torch.tensor([3.0, 4.0])
    assert _measure.relative(exact, exact) == 0
    assert math.isclose(_measure.relative(torch.tensor([3.0, 4.5]), exact), 0.1)
    got = _measure.summary([float(n) for n in range(10, 0, -1)])
    assert (got["median"], got["min"], got["p10"], got["p90"]) == (5.5, 1, 2, 10)
