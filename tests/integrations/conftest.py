"""The library beside the tool under test, before anything imports weft."""

from __future__ import annotations

import os
from pathlib import Path

from tests.paths import ROOT

TOOL = Path(os.environ.get("WEFT_TOOL", ROOT / "build/release/weft"))

os.environ["WEFT_OPENBLAS"] = "none"
os.environ.setdefault("WEFT_LIBRARY", str(TOOL.parent / "libweft_ffi.so"))
if not Path(os.environ["WEFT_LIBRARY"]).exists():
    # A build without the binding: its configuration says so.
    collect_ignore_glob = ["test_*.py"]
