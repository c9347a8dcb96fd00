"""A small task on the CPU, made by the commands themselves, and ways to break it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from weft.task.__main__ import arguments
from weft.task.__main__ import run as run_given
from weft.task.outcome import Outcome
from weft.task.spec import Task, load

REFERENCE = """def modulate(x, scale, shift):
    return x * scale + shift
"""
UPSTREAM = """import torch


def modulate(x, scale, shift, out):
    for i in range(x.shape[0]):
        torch.addcmul(shift, x[i], scale, out=out[i])
"""
BASELINE = "from ops import modulate as run  # noqa: F401\n"
CANDIDATE = """import torch


def run(x, scale, shift, out):
    torch.addcmul(shift, x, scale, out=out)
"""


def call(*words: str | Path) -> Outcome:
    """A command as the command line runs it."""
    return run_given(arguments().parse_args([str(word) for word in words]))


def told(outcome: Outcome) -> str:
    return "\n".join(outcome.refused)


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *who, "-C", str(folder), *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def repository(folder: Path, files: dict[str, str]) -> Path:
    """A git repository of these files, with one commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


class Made:
    """A task's folder, and what a test does to it."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "mod"
        self.upstream = repository(root / "upstream", {"ops.py": UPSTREAM})
        (root / "wanted.py").write_text(REFERENCE)
        operands = [
            f"--input={name}=fp32[{axes}]" for name, axes in (("x", "S,D"), ("scale", "D"), ("shift", "D"))
        ]
        outcome = call(
            "new", self.folder, "--reference", f"{root / 'wanted.py'}:modulate", *operands, "--output=out=fp32[S,D]",
            "--row=S=4,D=32,source=a test", "--row=S=8,D=16,source=another, longer", "--device=cpu",
            "--language=python",
        )  # fmt: skip
        assert outcome.code == 0, told(outcome)
        self.edit("task.toml", "rounds = 15", "rounds = 2").edit(
            "task.toml", "replay_us = 2000", "replay_us = 20"
        )
        self.write("baseline/entry.py", BASELINE).write("solution/kernel.py", CANDIDATE)

    @property
    def task(self) -> Task:
        return load(self.folder)

    def write(self, name: str, text: str) -> Made:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return self

    def edit(self, name: str, old: str, new: str) -> Made:
        path = self.folder / name
        assert old in path.read_text(), f"{name} has no {old}"
        path.write_text(path.read_text().replace(old, new))
        return self

    def call(self, command: str, *words: str) -> Outcome:
        return call(command, self.folder, *words)

    def baseline(self) -> Made:
        assert self.call("baseline", "--git", str(self.upstream), "--file", "ops.py").code == 0
        return self.good("baseline")

    def good(self, *commands: str) -> Made:
        """Commands that must pass."""
        for command in commands:
            outcome = self.call(command)
            assert outcome.code == 0, f"{command}: {told(outcome)}"
        return self

    def locked(self) -> Made:
        return self.baseline().good("lock")

    def measured(self) -> Made:
        return self.locked().good("verify", "bench")
