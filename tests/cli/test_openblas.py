"""OpenBLAS is looked for when it is first needed, and a machine without it is told so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("WEFT_TOOL", ROOT / "build/release/weft"))


def run(*words: str) -> str:
    environment = {**os.environ, "WEFT_OPENBLAS": "none"}
    return subprocess.run([TOOL, *words], env=environment, capture_output=True, text=True, check=True).stdout


def test_gemm_runs_and_says_what_is_missing() -> None:
    line = "gemm a=bf16[4,8] b=bf16[3,8] bias=fp32[3]"
    assert "libopenblas.so.0 was not found" in run("explain", line, "--device", "cpu")
    assert "by reference" in run("verify", line, "--device", "cpu")
