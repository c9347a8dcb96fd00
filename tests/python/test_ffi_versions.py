"""The oldest apache-tvm-ffi that the package admits: vLLM's and SGLang's releases pin such.

Its newest is what all other tests run with, so that both ends are tested.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tvm_ffi

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What touches tvm-ffi: tensors of every framework, options, errors, compiled calls.
TESTS = [
    "tests/python/test_torch.py",
    "tests/python/test_arrays.py",
    "-k",
    "errors or destination or dtype or inductor",
]


def bounds() -> tuple[str, str]:
    requirement = next(r for r in PROJECT["dependencies"] if r.startswith("apache-tvm-ffi"))
    found = re.fullmatch(r"apache-tvm-ffi>=([\d.]+),<([\d.]+)", requirement)
    assert found, requirement
    return found[1], found[2]


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


def test_this_environment_is_the_other_end():
    oldest, beyond = bounds()
    assert numbers(oldest) < numbers(tvm_ffi.__version__) < numbers(beyond)


@pytest.fixture(scope="module")
def oldest(tmp_path_factory):
    """A folder with the oldest release alone."""
    folder = tmp_path_factory.mktemp("oldest")
    wanted = f"apache-tvm-ffi=={bounds()[0]}"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, wanted]
    subprocess.run(pip, check=True, timeout=300)
    return folder


def test_the_oldest_release_serves_as_well(oldest):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(oldest), str(ROOT / "python")])}
    asked = "import tvm_ffi; print(tvm_ffi.__version__)"
    version = subprocess.run(
        [sys.executable, "-c", asked], env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()
    assert numbers(version) == numbers(bounds()[0])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert re.search(r"[1-9]\d+ passed", run.stdout), run.stdout[-500:]
