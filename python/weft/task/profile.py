"""weft task profile: the roofline from the spec, always; Nsight Compute's counters, where it is allowed."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from weft.report.compare import Comparison
from weft.task import bench, record
from weft.task.entries import load_entry
from weft.task.operands import Contents, Operands, arguments
from weft.task.outcome import Outcome, Refusal
from weft.task.spec import Row, Side, Task

PAGE = "docs/profile.md"
_PATIENCE_S = 90  # with Nsight Compute, for one call
# A fixed, small set: what moved, how full the card was, what the warps waited for.
COUNTERS = {
    "gpu__time_duration.sum": "time",
    "dram__bytes_read.sum": "read from memory",
    "dram__bytes_write.sum": "written to memory",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory, % of peak",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SMs, % of peak",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy, %",
    "launch__registers_per_thread": "registers a thread",
    "sm__inst_executed_pipe_tensor.sum": "tensor instructions",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": "stalled on memory",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": "stalled on barriers",
    "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio": "stalled on arithmetic",
    "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio": "stalled on memory's queue",
}


def roofline(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per row: the floor, what was achieved, and the bound; from rows of cold device time."""
    found = []
    for c in bench.pairs(rows):
        if (c.time, c.cache) == ("device", "cold") and c.timed is not None:
            found.append(_roof(c))
    return found


def _roof(c: Comparison) -> dict[str, Any]:
    assert c.timed is not None
    us, bytes_, flops = c.timed["us"]["median"], c.timed["bytes"], c.timed["flops"]
    card = {row["name"]: row["us"]["median"] for row in c.all if row["name"].startswith("card")}
    fastest = min((t for name, t in card.items() if name != "card launch"), default=0)
    rate = bytes_ / fastest * 1e-6 if fastest else 0
    floor = c.timed["floor_us"]
    return {
        "workload": c.workload,
        "bytes": bytes_,
        "flops": flops,
        "us": us,
        "baseline_us": c.best["us"]["median"] if c.best else None,
        "floor_us": floor,
        "share": floor / us if floor else None,
        "tbps": bytes_ / us * 1e-6,
        "tflops": flops / us * 1e-6,
        "card_us": fastest or None,
        "card_tbps": rate or None,
        "bound": _bound(floor, fastest, card.get("card launch", 0)),
    }


def _bound(floor: float, moved: float, launch: float) -> str:
    """The largest part of the floor; `moved` and `launch`: what the card needs for the same bytes, and for nothing."""
    if floor <= 0:
        return "not known"
    if launch and floor <= 1.3 * launch:
        return "launch"
    return "arithmetic" if moved and floor > 1.5 * moved else "memory"


def parse_counters(text: str) -> list[dict[str, str]]:
    """Nsight Compute's CSV, a table of kernels: what is a number with its unit."""
    lines = text[text.index('"ID"') :] if '"ID"' in text else ""
    kernels: dict[str, dict[str, str]] = {}
    for line in csv.DictReader(io.StringIO(lines)):
        kernel = kernels.setdefault(line["ID"], {"kernel": line["Kernel Name"][:60]})
        name = COUNTERS.get(line["Metric Name"])
        if name:
            kernel[name] = f"{line['Metric Value']} {line['Metric Unit']}".strip()
    return list(kernels.values())


def _counters(task: Task, side: Side, row: Row, outcome: Outcome) -> list[dict[str, str]]:
    tool = shutil.which("ncu")
    if tool is None or task.device == "cpu":
        outcome.note("no Nsight Compute here: the roofline alone")
        return []
    command = [
        tool, "--csv", "--target-processes", "all", "--profile-from-start", "off", "--clock-control", "none",
        "--metrics", ",".join(COUNTERS), sys.executable, "-m", "weft.task.once",
        str(task.folder), side.name, row.name,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        outcome.note(f"Nsight Compute gave no counters within {_PATIENCE_S} s: the roofline alone")
        return []
    kernels = parse_counters(done.stdout)
    if not kernels:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "ERR" in line or "rror" in line]
        outcome.note(f"Nsight Compute gave no counters: {said[0] if said else 'no kernel was seen'}")
    return kernels


def once(task: Task, side: Side, row: Row) -> None:
    """One warm call in the profiler's range."""
    import torch  # noqa: PLC0415 - the roofline needs none

    entry = load_entry(task, side)
    operands = Operands(Contents(task, row, task.device, 1))
    call = arguments(task, row, operands.tensors)
    with torch.no_grad():
        for _ in range(3):
            entry(*call)
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        entry(*call)
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def profile(task: Task, side: Side, outcome: Outcome, only: str) -> None:
    rows = [row for row in record.latest(task, side) if only in (row["workload"] or "")]
    roofs = roofline(rows)
    if not roofs:
        raise Refusal("there are no times of these sources under this lock: `weft task bench` first")
    largest = max(
        (row for row in task.rows if any(r["workload"] == row.name for r in roofs)),
        key=lambda r: task.work(r)[0],
    )
    counters = _counters(task, side, largest, outcome)
    entry = {
        "kind": "profile",
        **record.stamp(task, side),
        "of_run": rows[-1]["run"],
        "roofline": roofs,
        "counters": {"workload": largest.name, "kernels": counters},
    }
    record.add(task, [entry])
    path = task.folder / PAGE
    path.write_text(render(task, side, entry))
    for roof in roofs:
        outcome.note("  " + roof_text(roof))
    outcome.check(f"{PAGE} names the bound of {len(roofs)} rows")
    outcome.data |= {"roofline": roofs, "counters": counters}


def roof_text(roof: dict[str, Any]) -> str:
    share = (
        f"{100 * roof['share']:.0f} % of the floor of {roof['floor_us']:.2f} us"
        if roof["share"]
        else "no floor"
    )
    card = f"; the card's own copy or read {roof['card_tbps']:.2f} TB/s" if roof["card_tbps"] else ""
    return f"{roof['workload']}: {roof['us']:.2f} us, {roof['tbps']:.2f} TB/s, {share}, bound by {roof['bound']}{card}"


def render(task: Task, side: Side, entry: dict[str, Any]) -> str:
    lines = [f"# What bounds {side.name} of {task.name}", "", "Rendered by `weft task profile`.", ""]
    lines += ["| row | us | floor us | share | TB/s | the card's TB/s | TFLOP/s | bound |"]
    lines += ["|---|---:|---:|---:|---:|---:|---:|---|"]
    for r in entry["roofline"]:
        share = f"{100 * r['share']:.0f} %" if r["share"] else "-"
        card = f"{r['card_tbps']:.2f}" if r["card_tbps"] else "-"
        lines.append(
            f"| {r['workload']} | {r['us']:.2f} | {r['floor_us']:.2f} | {share} | {r['tbps']:.2f} | {card} | "
            f"{r['tflops']:.2f} | {r['bound']} |"
        )
    kernels = entry["counters"]["kernels"]
    if kernels:
        names = [name for name in COUNTERS.values() if any(name in kernel for kernel in kernels)]
        lines += ["", f"Nsight Compute, one warm call of row {entry['counters']['workload']}:", ""]
        lines += ["| kernel | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
        for kernel in kernels:
            cells = " | ".join(kernel.get(name, "-") for name in names)
            lines.append(f"| `{kernel['kernel'].replace('|', ' ')}` | {cells} |")
    return "\n".join(lines) + "\n"
