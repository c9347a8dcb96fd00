"""Is the card idle? Its state before, during and after a measurement."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from weft.task.outcome import Absent, Outcome, Refusal
from weft.task.spec import Task

_QUERIES = {
    "memory_mib": "memory.used",
    "utilization": "utilization.gpu",
    "sm_mhz": "clocks.sm",
    "temperature": "temperature.gpu",
    "watts": "power.draw",
}
_POLL_S = 0.5


def _ask(*words: str) -> list[list[str]]:
    """Lines of nvidia-smi, cut at their commas."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        raise Absent("there is no nvidia-smi here: nobody can say whether a card is idle")
    done = subprocess.run(
        [tool, *words, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Absent(f"nvidia-smi: {(done.stderr or done.stdout).strip()}")
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]


def _index() -> str:
    """Of the card that this process would take, as the driver counts."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # "[N/A]"


def state(task: Task) -> dict[str, Any]:
    """What the card does now."""
    if task.device == "cpu":
        return {"device": "cpu", "load": round(os.getloadavg()[0], 2), "cores": os.cpu_count()}
    names = list(_QUERIES)
    cells = _ask(f"--id={_index()}", f"--query-gpu={','.join(_QUERIES.values())}")[0]
    found: dict[str, Any] = dict(zip(names, map(_number, cells), strict=True))
    apps = _ask(f"--id={_index()}", "--query-compute-apps=pid,process_name,used_memory")
    found["processes"] = [
        {"pid": app[0], "name": app[1] if len(app) > 1 else "", "mib": _number(app[-1])} for app in apps
    ]
    return found


def busy(found: dict[str, Any], most_mib: float) -> str:
    """Why a card that nothing of ours runs on is not idle; empty where it is."""
    if found.get("processes"):
        first = found["processes"][0]
        others = len(found["processes"]) - 1
        more = f" and {others} more" if others else ""
        return f"process {first['pid']} ({first['name']}) is on it{more}"
    used = found.get("memory_mib")
    if used is not None and used > most_mib:
        return f"{used:.0f} MiB of its memory are taken, an idle card has at most {most_mib:.0f}"
    return ""


def wait_idle(task: Task, outcome: Outcome, wait_s: float | None = None) -> dict[str, Any]:
    """Waits until the card is idle. Raises Refusal where it stays busy."""
    rules = task.raw.get("card", {})
    most = float(rules.get("memory_mib", 1024))
    limit = float(rules.get("wait_s", 120)) if wait_s is None else wait_s
    begin = time.monotonic()
    while True:
        found = state(task)
        why = "" if task.device == "cpu" else busy(found, most)
        if not why:
            outcome.check(
                "the card is idle" if task.device == "cuda" else f"the CPU's load is {found['load']}"
            )
            return found
        if time.monotonic() - begin >= limit:
            raise Refusal(f"the card is busy after {limit:.0f} s of waiting: {why}")
        time.sleep(min(_POLL_S * 4, limit))


@dataclass
class Watch:
    """Looks at the card while it measures. Ours is what is on it when the watch begins."""

    task: Task
    strangers: list[dict[str, Any]] = field(default_factory=list)
    highest_mib: float = 0
    samples: int = 0

    def __enter__(self) -> Watch:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        if self.task.device == "cuda":
            self._own = {process["pid"] for process in state(self.task)["processes"]}
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_POLL_S):
            try:
                found = state(self.task)
            except Absent:
                continue
            self.samples += 1
            self.highest_mib = max(self.highest_mib, found["memory_mib"] or 0)
            seen = {stranger["pid"] for stranger in self.strangers} | self._own
            self.strangers += [process for process in found["processes"] if process["pid"] not in seen]

    def row(self) -> dict[str, Any]:
        if self.task.device == "cpu":
            return state(self.task)
        return {"samples": self.samples, "highest_mib": self.highest_mib, "strangers": self.strangers}
