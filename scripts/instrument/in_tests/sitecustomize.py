"""In a process that a test starts: notes what it runs of the package, where WEFT_TRACE names a folder for that."""

from __future__ import annotations

import atexit
import json
import os
from pathlib import Path

if "WEFT_TRACE" in os.environ:
    from instrument.in_tests.trace import Tracer

    tracer = Tracer(Path(os.environ["WEFT_TRACED"]))
    tracer.start()
    atexit.register(
        lambda: Path(os.environ["WEFT_TRACE"], f"{os.getpid()}.json").write_text(
            json.dumps(sorted(tracer.one | tracer.shared))
        )
    )
