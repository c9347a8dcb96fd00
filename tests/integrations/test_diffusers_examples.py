"""The scripts of examples/diffusers, at their tiny size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("diffusers")

from PIL import Image

from tests.paths import PYTHON_PATH, ROOT


def script(name: str, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": PYTHON_PATH}
    command = [sys.executable, str(ROOT / "examples/diffusers" / name), "--size", "tiny", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_injection() -> None:
    out = script("inject.py", "--device", "cpu", "--dtype", "float32", "--steps", "2")
    decibels = float(out.partition("without weft: ")[2].partition(" dB")[0])
    assert 90 < decibels < 200  # the same video, and not the same numbers
    assert out.rstrip().endswith("bit for bit")
    assert "attention: {'weft': 8}" in out


def test_benchmark(tmp_path: Path) -> None:
    rows = {}
    for baseline in ("eager", "weft"):
        arguments = ("--device", "cpu", "--dtype", "float32", "--steps", "3", "--out", str(tmp_path))
        rows[baseline] = json.loads(script("video_benchmark.py", "--baseline", baseline, *arguments))
        assert 0 < rows[baseline]["step_s"] <= rows[baseline]["step_worst_s"] < rows[baseline]["whole_s"]
        assert rows[baseline]["peak_bytes"] > 1 << 20
        with Image.open(rows[baseline]["frames"]) as picture:
            assert picture.size == (8 * 32, 32)
            assert len(picture.getcolors(1 << 16) or []) > 10
    # Layers by their modules, the model and its tables; steps with those of the warm-up.
    assert rows["weft"]["weft_calls"] == (2 * 4 + 2) * (2 + 3)
    assert "weft_calls" not in rows["eager"]
