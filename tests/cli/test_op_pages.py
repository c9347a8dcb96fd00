"""The op pages of the documentation are what the contracts say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_op_pages_are_current() -> None:
    environment = os.environ | {"WEFT_TOOL": os.environ.get("WEFT_TOOL", str(ROOT / "build/release/weft"))}
    done = subprocess.run(
        [str(ROOT / "scripts/op-pages"), "--check"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
