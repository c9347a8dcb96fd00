"""LTX-Video end to end: seconds of each step and of the whole, peak memory, and a strip of frames to look at.

    python video_benchmark.py --baseline eager
    python video_benchmark.py --baseline compile --attention _native_cudnn
    python video_benchmark.py --baseline weft

Each run is a process of its own and prints one line of JSON. The first video is not timed: it compiles and plans.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import weft.diffusers
from ltx import arguments, prepared, render
from PIL import Image

BASELINES = ("eager", "compile", "weft", "weft-compile")


def prepare(pipe: Any, baseline: str, attention: str | None) -> Any:
    """Turns a pipeline into the baseline; returns weft's report where weft is in it."""
    if attention:
        pipe.transformer.set_attention_backend(attention)
    report = weft.diffusers.accelerate(pipe) if baseline.startswith("weft") else None
    if baseline.endswith("compile"):
        pipe.transformer.compile_repeated_blocks(fullgraph=True)
    return report


def now(device: str) -> float:
    """The time when the device has done what it was asked for."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def measured(
    pipe: Any, size: Any, text: dict[str, Any], chosen: argparse.Namespace
) -> tuple[Any, dict[str, Any]]:
    """A video, and its times."""
    ends: list[float] = []

    def step_end(_pipe: Any, _step: int, _time: Any, values: dict[str, Any]) -> dict[str, Any]:
        ends.append(now(chosen.device))
        return values

    start = now(chosen.device)
    frames = render(pipe, size, text, chosen.steps, callback_on_step_end=step_end)
    whole = now(chosen.device) - start
    steps = np.diff(ends)  # the first has what comes before the loop, too
    return frames, {
        "step_s": statistics.median(steps),
        "step_worst_s": max(steps),
        "steps": chosen.steps,
        "whole_s": whole,
    }


def peak_bytes(device: str) -> int:
    """The most memory of the device, or of the process on a CPU, since it began."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def strip(frames: Any, count: int = 8) -> Image.Image:
    """Some frames side by side, from first to last."""
    chosen = frames[np.linspace(0, len(frames) - 1, min(count, len(frames))).round().astype(int)]
    pixels = (np.concatenate(list(chosen), axis=1) * 255).round().astype(np.uint8)
    return Image.fromarray(pixels)


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--baseline", choices=BASELINES, required=True)
    parser.add_argument("--attention", help="a backend of diffusers, instead of the default or weft's")
    parser.add_argument("--out", type=Path, default=Path("video"), help="a folder for the strip")
    chosen = parser.parse_args()
    if chosen.steps < 2:
        parser.error("--steps: the time of a step is that from the end of one to the next; 2 or more")
    pipe, size, text = prepared(chosen)
    report = prepare(pipe, chosen.baseline, chosen.attention)
    render(pipe, size, text, 2)
    if chosen.device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    frames, times = measured(pipe, size, text, chosen)

    chosen.out.mkdir(parents=True, exist_ok=True)
    picture = chosen.out / f"{chosen.baseline}.png"
    strip(frames).save(picture)
    device = torch.cuda.get_device_name() if chosen.device.startswith("cuda") else "cpu"
    row = {"baseline": chosen.baseline, "size": chosen.size, "dtype": chosen.dtype, "device": device, **times}
    row |= {"peak_bytes": peak_bytes(chosen.device), "frames": str(picture)}
    if report is not None:
        row["replaced"] = len(report.replaced)
        row["weft_calls"] = sum(report.calls().values())
    print(json.dumps(row))


if __name__ == "__main__":
    main()
