"""A kernel on weft's kit, from the task of the gated residual: in the emulator, right and broken."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from weft.task import record, verify
from weft.task.spec import load

from tests.task.made import call, told

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tasks" / "residual_gate_add"

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("nvcc", "/usr/local/cuda/bin/nvcc"))),
    reason="no CUDA headers: there is no nvcc",
)


@pytest.fixture
def gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_TASK_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "residual_gate_add"
    shutil.copytree(EXAMPLE, folder)
    text = (folder / "task.toml").read_text()
    begin, end = text.index("S = [1, 33"), text.index("# atol + rtol")
    (folder / "task.toml").write_text(text[:begin] + "S = [1, 9]\nD = [8, 100]\n\n" + text[end:])
    assert call("lock", folder, "--reason", "a grid for the emulator").code == 0
    return folder


def test_the_emulator_runs_it(gated: Path) -> None:
    outcome = call("verify", gated, "--emulator")
    assert outcome.code == 0, told(outcome)
    assert "vectors is right" in outcome.checked[0] and "larger rows left out" in outcome.checked[0]
    assert record.verified(load(gated), load(gated).candidate(), verify.EMULATOR)


def test_a_row_that_is_left_out(gated: Path) -> None:
    kernel = gated / "solution" / "kernel.cu"
    text = kernel.read_text()
    whole = "first + i >= p.rows"
    assert whole in text
    kernel.write_text(text.replace(whole, f"{whole} - 1"))
    assert "vectors is right: " in told(call("verify", gated, "--emulator"))
    assert record.verified(load(gated), load(gated).candidate(), verify.EMULATOR) is None


def test_what_does_not_compile_is_told(gated: Path) -> None:
    kernel = gated / "solution" / "kernel.cu"
    kernel.write_text(kernel.read_text().replace("float gate[kWidth];", "float gate[kWidt];"))
    assert "kernel.cu does not compile" in told(call("verify", gated, "--emulator"))
