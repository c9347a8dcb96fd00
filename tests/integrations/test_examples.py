"""The scripts of examples/integrations run where there is no GPU, at a tiny size."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.paths import PYTHON_PATH, ROOT

FOLDER = ROOT / "examples" / "integrations"


def run(script: str, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": PYTHON_PATH, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(FOLDER / script), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_weft_in_a_model_of_transformers() -> None:
    told = run("transformers_injection.py", "--tokens", "3")
    assert "generated: the same tokens" in told
    assert "undone: the same bits as before" in told
    assert "never called" not in told


def test_layers_of_a_kernel_repository() -> None:
    pytest.importorskip("kernels")
    told = run("hub.py")
    for calls in (
        "5 calls of weft::rms_norm",
        "2 calls of weft::qk_norm_rope",
        "2 calls of weft::activation",
    ):
        assert calls in told


def test_the_micro_benchmark_of_rms_norm() -> None:
    told = run(
        "rms_norm_benchmark.py", "--dtype", "fp32", "--rounds", "2", "--residual", "--against", "eager"
    )
    assert re.search(r"^  weft +reference", told, re.MULTILINE)
    assert re.search(r"^  baseline torch \S+ eager", told, re.MULTILINE)
    assert "0 of weft's results wrong" in told


def test_every_script_is_run_by_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests" / "integrations").glob("test_*.py"))
    assert [script.name for script in FOLDER.glob("*.py") if f'"{script.name}"' not in tests] == []
