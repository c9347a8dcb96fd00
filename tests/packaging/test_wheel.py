"""The wheel in fresh environments: it imports, computes and says what it lacks, on two versions of Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHEELS = sorted((ROOT / "build" / "dist").glob("weft-*.whl"))
if not WHEELS:
    pytest.skip("no wheel: ./weft test --only wheel builds one", allow_module_level=True)

# What every Linux machine with a Python has, and the package that the wheel depends on.
USUAL = {"libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2", "libtvm_ffi.so"}
USUAL |= {"libdl.so.2", "librt.so.1", "libpthread.so.0"}

SMOKE = """
import sys
import weft
assert not {"torch", "jax"} & set(sys.modules)
import numpy as np
a = np.arange(12, dtype=np.float32).reshape(3, 4)
assert np.allclose(weft.gemm(a, a), a @ a.T)
assert np.allclose(weft.softmax(a).sum(-1), 1)
assert weft.names.gate_geglu_merged(a).shape == (3, 2)
try:
    weft.rms_norm(a, np.ones(5, np.float32))
except ValueError as error:
    print(error)
"""


def pythons() -> list[str]:
    """Interpreters of different versions that this machine has; this one first."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    candidates = [shutil.which(f"python3.{minor}") for minor in range(10, 15)]
    candidates += [str(path) for path in sorted(Path.home().glob(".pyenv/versions/*/bin/python3"))]
    for candidate in filter(None, candidates):
        asked = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        version = re.search(r"Python (3\.1\d)\.", asked.stdout)
        if version and version[1] not in found:
            found[version[1]] = candidate
    return list(found.values())[:2]


@pytest.mark.parametrize("python", pythons())
def test_a_fresh_environment(python: str, tmp_path: Path) -> None:
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    fresh = tmp_path / "venv" / "bin" / "python"
    packages = [str(WHEELS[-1]), "numpy", "ml_dtypes"]
    subprocess.run([fresh, "-m", "pip", "install", "-q", *packages], check=True, timeout=300, cwd=tmp_path)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "WEFT_LIBRARY")}
    run = subprocess.run(
        [fresh, "-c", SMOKE], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "rms_norm.weight: expected [dim=4], got [5]" in run.stdout


def test_it_brings_what_agents_and_the_hub_need(tmp_path: Path) -> None:
    """The skill's references, which are links in the checkout, and a library that a kernel repository may carry."""
    with zipfile.ZipFile(WHEELS[-1]) as wheel:
        wheel.extractall(tmp_path)
    for page in ("integrate", "gpus", "python", "measuring"):
        text = (tmp_path / "weft" / "skill" / "references" / f"{page}.md").read_text()
        assert text == (ROOT / "docs" / f"{page}.md").read_text()
    environment = {k: v for k, v in os.environ.items() if k != "WEFT_LIBRARY"} | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "weft.hub", str(tmp_path / "repository")]
    written = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert written.returncode == 0, written.stderr
    assert "this machine alone" not in written.stdout


def test_one_file_for_every_python() -> None:
    assert WHEELS[-1].name.endswith("-py3-none-linux_x86_64.whl")


def test_it_needs_nothing_of_the_system(tmp_path: Path) -> None:
    with zipfile.ZipFile(WHEELS[-1]) as wheel:
        wheel.extractall(tmp_path)
    libraries = sorted((tmp_path / "weft" / "lib").iterdir())
    own = {library.name for library in libraries}
    assert {"libweft_ffi.so", "libweft.so.0"} <= own
    for library in libraries:
        listed = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
        needed = set(re.findall(r"NEEDED.*\[(.+?)\]", listed))
        assert needed <= USUAL | own, library.name
        assert not re.search(r"(RPATH|RUNPATH).*\[(?!\$ORIGIN\])", listed)
