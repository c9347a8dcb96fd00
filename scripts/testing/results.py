"""Results that are kept, by the key of all that they depend on. Only of what passed."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

from testing.suite import ROOT, Count

FOLDER = ROOT / ".weft" / "results"
KEPT = 8  # of each part: enough to go back and forth between a few branches


class Results:
    """`fresh` answers nothing, so that everything runs; what passes then is kept all the same."""

    def __init__(self, folder: Path = FOLDER, *, fresh: bool = False) -> None:
        self.folder = folder
        self.fresh = fresh

    def _file(self, suite: str, part: str, key: str) -> Path:
        return self.folder / suite / re.sub(r"[^\w.-]", "_", part) / f"{key}.json"

    def find(self, suite: str, part: str, key: str | None) -> Count | None:
        if self.fresh or key is None:
            return None
        try:
            count = Count(**json.loads(self._file(suite, part, key).read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return count if count.failed == 0 else None

    def keep(self, suite: str, part: str, key: str | None, count: Count) -> None:
        if key is None or count.failed or count.passed + count.skipped == 0:
            return
        file = self._file(suite, part, key)
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".new")
        unfinished.write_text(json.dumps(dataclasses.asdict(count)))
        unfinished.replace(file)
        stored = sorted(file.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for old in stored[:-KEPT]:
            old.unlink(missing_ok=True)
