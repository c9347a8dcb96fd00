"""The examples of README.md, compiled and run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import PYTHON_PATH, ROOT
from tests.python.conftest import TOOL


def blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )


def run(command: list[str | Path]) -> str:
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("framework", "printed"), [("torch", "torch.Size([4, 128])"), ("jax", "(4, 128)")])
def test_python(framework, printed, tmp_path: Path):
    pytest.importorskip(framework)
    if framework == "jax":
        pytest.importorskip("jax_tvm_ffi")
    (example,) = [block for block in blocks("python") if f"import {framework}\n" in block]
    assert len([line for line in example.splitlines() if line.strip()]) <= 12
    (tmp_path / "example.py").write_text(example)
    assert run([sys.executable, tmp_path / "example.py"]).strip() == printed


def test_cpp(tmp_path: Path):
    (example,) = blocks("cpp")
    source, program, build = tmp_path / "example.cpp", tmp_path / "example", TOOL.parent
    source.write_text(example)
    if not (build / "generated").is_dir():
        pytest.skip("the tool was brought here without the headers of its build")
    includes = [f"-I{ROOT / 'include'}", f"-I{build / 'generated'}", f"-I{ROOT}"]
    run(
        ["c++", "-std=c++20", *includes, source, "-o", program, f"-L{build}", "-lweft", f"-Wl,-rpath,{build}"]
    )
    assert run([program]).strip() == "1"
