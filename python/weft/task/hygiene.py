"""What of a task's folder may be committed, and what may not."""

from __future__ import annotations

import fnmatch
import subprocess
from collections.abc import Iterator
from pathlib import Path

from weft.task import source
from weft.task.outcome import Outcome
from weft.task.spec import Task

MOST_BYTES = 2 << 20
SCRATCH = "scratch"  # a folder that git ignores: whatever is tried goes there
SOURCES = ("*.py", "*.cu", "*.cuh", "*.h", "*.hpp", "*.cpp")
ALLOWED = (
    "task.toml", "lock.json", "heads.json", "README.md", ".gitignore", "*.py", "baseline/source.json",
    *(f"{folder}/{name}" for folder in ("baseline", "solution") for name in SOURCES),
    "bench/*.jsonl", "bench/*.py", "docs/*.md", "docs/log.jsonl",
)  # fmt: skip
# What is refused by name: it is large, or of one machine, or nobody's.
REFUSED = {
    "a profiler's report": ("*.ncu-rep", "*.nsys-rep", "*.qdrep", "*.qdstrm", "*.nvvp", "*.nvprof", "*.sqlite"),
    "a trace": ("*trace*.json", "*.json.gz", "*.pftrace", "*.chrome", "*.perfetto*", "*.svg"),
    "a binary": (
        "*.so", "*.o", "*.a", "*.cubin", "*.fatbin", "*.ptx", "*.sass", "*.pyc", "*.whl", "*.pt", "*.pth",
        "*.safetensors", "*.npz", "*.npy", "*.bin", "*.tar*", "*.zip",
    ),
    "scratch": ("*.log", "*.tmp", "*.orig", "*.rej", "*.swp", "*~", "*.bak", "*.csv", "*.html", "build/*"),
}  # fmt: skip


def _git(task: Task, *words: str) -> list[str]:
    """Lines of a git command in the task's folder; none where it is in no repository."""
    done = subprocess.run(
        ["git", "-C", str(task.folder), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


def in_repository(task: Task) -> bool:
    return bool(_git(task, "rev-parse", "--show-toplevel"))


def _kind(name: str) -> str:
    """What a file is, where it is refused by name."""
    for kind, patterns in REFUSED.items():
        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            return kind
    return ""


def _copies(task: Task) -> set[str]:
    found = source.read(task)
    return (
        set() if found.get("committed", True) else {f"baseline/{entry['path']}" for entry in found["files"]}
    )


def problem(task: Task, name: str) -> str:
    """Why a file, by its path in the task's folder, is not for a commit; empty where it is."""
    path = task.folder / name
    kind = _kind(name)
    if kind:
        return f"{name} is {kind}: it stays out of commits (keep it in {SCRATCH}/)"
    if name in _copies(task):
        return f"{name} is a copy that is not committed: `weft task baseline --restore` makes it again"
    if not any(fnmatch.fnmatch(name, pattern) for pattern in ALLOWED):
        return f"{name} is no artefact of a task: move it to {SCRATCH}/, or remove it"
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        return f"{name} has {path.stat().st_size >> 20} MiB: an artefact has at most {MOST_BYTES >> 20}"
    return ""


def _files(task: Task) -> Iterator[str]:
    """Of the folder, without what git would ignore anyway."""
    for path in sorted(task.folder.rglob("*")):
        name = path.relative_to(task.folder)
        if path.is_file() and not {"__pycache__", SCRATCH, ".pytest_cache"} & set(name.parts):
            yield str(name)


def staged(task: Task) -> list[str]:
    """Files of the task that are in git's index and not yet committed."""
    return _git(task, "diff", "--cached", "--name-only", "--diff-filter=d", "--relative")


def tracked(task: Task) -> list[str]:
    return _git(task, "ls-files")


def to_stage(task: Task) -> list[str]:
    """Exactly the files that a commit of this task has."""
    return [name for name in _files(task) if not problem(task, name)]


def inspect(task: Task, outcome: Outcome) -> None:
    """Refuses what is staged or committed and should not be; tells what lies around."""
    names = {*staged(task), *tracked(task)}
    wrong = [what for name in sorted(names) if (what := problem(task, name))]
    for what in wrong:
        outcome.check("what is staged may be committed", what)
    if not wrong:
        outcome.check("nothing is staged that is no artefact")
    around = [what for name in _files(task) if name not in names and (what := problem(task, name))]
    for what in around:
        outcome.note(f"left out of `weft task stage`: {what}")


def stage(task: Task, outcome: Outcome, add: bool) -> None:
    """Lists what belongs into a commit; with `add`, adds it."""
    inspect(task, outcome)
    files = to_stage(task)
    outcome.data["files"] = files
    outcome.check(f"{len(files)} files belong into the commit")
    for name in files:
        outcome.note(f"git add {Path(task.folder.name) / name}" if not add else f"added {name}")
    if add and not outcome.refused:
        done = subprocess.run(
            ["git", "-C", str(task.folder), "add", "--", *files], capture_output=True, text=True, check=False
        )
        outcome.check("git took them", done.stderr.strip() if done.returncode else "")
