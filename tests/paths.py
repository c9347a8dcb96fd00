"""Where the tests find the checkout, and what processes that they start import from."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# This checkout's package, then what this process was given.
PYTHON_PATH = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
