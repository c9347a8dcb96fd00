"""python -m weft.task.once FOLDER SIDE ROW: one call for a profiler to look at."""

from __future__ import annotations

import sys
from pathlib import Path

from weft.task.profile import once
from weft.task.spec import load

if __name__ == "__main__":
    folder, side, row = sys.argv[1:]
    task = load(Path(folder))
    once(task, task.candidate(side), next(r for r in task.rows if r.name == row))
