"""The package from this checkout, and generated cases of every op with the reference's results."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT

TOOL = Path(os.environ.get("WEFT_TOOL", ROOT / "build/release/weft"))

# The reference itself runs on the CPU, so that results are compared bit for bit.
os.environ["WEFT_OPENBLAS"] = "none"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("WEFT_LIBRARY", str(TOOL.parent / "libweft_ffi.so"))
if not Path(os.environ["WEFT_LIBRARY"]).exists():
    # A build without the binding: its configuration says so.
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder a case, as `weft verify --dump` writes them."""
    folder = tmp_path_factory.mktemp("cases")
    command = [str(TOOL), "verify", "--device", "cpu", "--dump", str(folder), "--cases", "14", "--seed", "7"]
    subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL)
    return folder
