"""docs/task.md, followed literally: every block of commands, in order, on the CPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_followed_to_its_end(tmp_path: Path) -> None:
    blocks = re.findall(
        r"^```sh\n(.*?)^```$", (ROOT / "docs" / "task.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) >= 6
    tool = tmp_path / "bin" / "weft"
    tool.parent.mkdir()
    tool.write_text(
        f'#!/bin/sh\nshift\nexec "{sys.executable}" -m weft.task "$@"\n'
    )  # what `weft task` hands over to
    tool.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tool.parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}",
        "OMP_NUM_THREADS": "1",
    }
    work = tmp_path / "work"
    work.mkdir()
    script = "set -e\n" + "\n".join(blocks)
    done = subprocess.run(
        ["bash", "-c", script], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "weft task done: passed" in done.stdout
    assert "geometric mean" in (work / "modulate" / "docs" / "results.md").read_text()


def test_every_command_of_the_rules_is_one() -> None:
    from weft.task.__main__ import arguments  # noqa: PLC0415

    text = (ROOT / "docs" / "task_rules.md").read_text()
    known = set(re.findall(r"^  ([a-z-]+) ", arguments().format_help(), re.MULTILINE))
    named = set(re.findall(r"`([a-z-]+)`", text)) - {"weft"}
    assert named and named <= known, named - known
