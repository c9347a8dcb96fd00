"""The rules that need no GPU: flags, fast math, builder, stream, allocations in the timed path."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from weft.task import source
from weft.task.fingerprint import sources
from weft.task.outcome import Outcome
from weft.task.spec import Side, Task

PAGE = "docs/benchmark_method.md"
FAST_FLAGS = re.compile(
    r"^--?(use_fast_math|ffast-math|Ofast|ftz=true|prec-div=false|prec-sqrt=false|funsafe-math-optimizations)$"
)
FAST_CODE = re.compile(
    r"\b__(expf|exp10f|logf|log2f|log10f|sinf|cosf|tanf|sincosf|powf|fdividef)\b"
    r"|\b(ex2|lg2|rcp|rsqrt|sin|cos|tanh|div|sqrt)\.approx\b|\blibdevice\.fast_\w+|\bfast_(expf|dividef|tanhf)\b"
)
# Of the whole process: one side's switch would change the other's results and times.
SWITCHES = re.compile(
    r"allow_tf32\s*=|set_float32_matmul_precision|use_fast_math\s*=|allow_fp16_reduced_precision_reduction\s*="
    r"|cudnn\.benchmark\s*=|TRITON_\w+[\"']\]\s*="
)
ALLOCATIONS = {
    "empty", "zeros", "ones", "full", "rand", "randn", "arange", "tensor", "cat", "stack", "empty_like",
    "zeros_like", "ones_like", "full_like", "empty_strided", "new_empty", "new_zeros", "new_full", "new_tensor",
    "clone", "contiguous", "copy", "array", "asarray", "tolist",
}  # fmt: skip
DEVICE_ALLOCATIONS = re.compile(
    r"\b(cudaMalloc\w*|cudaFree\w*|TVMFFIEnvTensorAlloc|FromEnvAlloc|Tensor::FromNDAlloc|at::empty\w*"
    r"|torch::empty\w*|thrust::device_vector)\b"
)
SYNCHRONISES = re.compile(r"\bcuda(DeviceSynchronize|StreamSynchronize|EventSynchronize|Memcpy)\b\s*\(")
STREAMS = re.compile(
    r"\bcudaStreamCreate\w*|\bcudaStreamPerThread\b|\bcudaStreamLegacy\b|torch\.cuda\.Stream\("
)
LAUNCH = re.compile(r"<<<(?P<arguments>.*?)>>>", re.DOTALL)
KIT_LAUNCH = re.compile(r"\bkit::launch\s*\(")
CURRENT = re.compile(r"TVMFFIEnvGetStream|getCurrentCUDAStream|LaunchKernel\s*\(|current_stream")


def _texts(task: Task, side: Side) -> Iterator[tuple[Path, str]]:
    folder = "baseline" if side.name == "baseline" else "solution"
    own = side.path.suffix
    for path in sources(task, folder):
        if path.suffix in (".py", ".cu", ".cuh", ".h", ".hpp", ".cpp"):
            # Of several candidates each has the files of its language, and Python's adapters.
            if folder == "solution" and len(task.candidates) > 1 and own == ".py" and path.suffix != ".py":
                continue
            yield path, _without_comments(path.read_text(errors="replace"), path.suffix)


def _without_comments(text: str, suffix: str) -> str:
    pattern = r"#[^\n]*" if suffix == ".py" else r"//[^\n]*|/\*.*?\*/"
    return re.sub(pattern, lambda m: "\n" * m.group().count("\n"), text, flags=re.DOTALL)


def _found(task: Task, side: Side, pattern: re.Pattern[str]) -> list[str]:
    """file:line: what matched."""
    return [
        f"{path.relative_to(task.folder)}:{text.count(chr(10), 0, match.start()) + 1}: {match.group().strip()}"
        for path, text in _texts(task, side)
        for match in pattern.finditer(text)
    ]


def flags_problem(task: Task, side: Side) -> str:
    """Flags that one side has and the other has not."""
    ours, theirs = set(side.flags), set(task.baseline.flags)
    if side.language not in ("cuda", "kit") and task.baseline.language not in ("cuda", "kit"):
        return ""
    if ours == theirs:
        return ""
    one = [f"{flag} on {side.name} alone" for flag in side.flags if flag not in theirs]
    other = [f"{flag} on the baseline alone" for flag in task.baseline.flags if flag not in ours]
    return f"{'; '.join(one + other)}: flags that both sides share belong into [build]"


def fast_math_problem(task: Task, side: Side) -> str:
    """Fast math is only what the baseline's own source is built with, and then on both sides."""
    upstream = set(source.read(task).get("upstream_flags", ()))
    for flag in [*task.flags, *side.flags, *task.baseline.flags]:
        if FAST_FLAGS.match(flag) and flag not in upstream:
            return f"{flag}: upstream builds the baseline without it (baseline/source.json records its flags)"
    mine, theirs = _found(task, side, FAST_CODE), _found(task, task.baseline, FAST_CODE)
    if mine and not theirs:
        return f"{mine[0]}: the baseline's own source has no approximate arithmetic"
    return ""


def switches_problem(task: Task, side: Side) -> str:
    mine, theirs = (_found(task, s, SWITCHES) for s in (side, task.baseline))
    if not mine and not theirs:
        return ""
    return f"{(mine + theirs)[0]}: a switch of the whole process is a flag on both sides; it belongs to none"


def builder_problem(task: Task, side: Side) -> str:
    """Times from the host compare launchers where these differ."""
    if side.launcher == task.baseline.launcher or not task.timing["eager"]:
        return ""
    return (
        f"the baseline is launched by {task.baseline.launcher}, {side.name} by {side.launcher}: times of calls from "
        "the host would compare these. Set timing.eager = false (device times alone), or give both one path"
    )


def stream_problem(task: Task, side: Side) -> str:
    """Launches are on the current stream, and the host waits for nothing."""
    for pattern, what in (
        (STREAMS, "a stream of its own"),
        (SYNCHRONISES, "the host waits for the device in the timed path"),
    ):
        found = _found(task, side, pattern)
        if found:
            return f"{found[0]}: {what}"
    launched = False
    for path, text in _texts(task, side):
        if path.suffix not in (".cu", ".cuh"):
            continue
        for match in LAUNCH.finditer(text):
            launched = True
            if _depth_commas(match["arguments"]) < 3:
                line = text.count("\n", 0, match.start()) + 1
                return (
                    f"{path.relative_to(task.folder)}:{line}: a launch without a stream is on the default one"
                )
    launched = launched or bool(_found(task, side, KIT_LAUNCH))
    if launched and not _found(task, side, CURRENT):
        return f"{side.path.name} launches, but never asks for the current stream (TVMFFIEnvGetStream)"
    return ""


def _depth_commas(text: str) -> int:
    """Commas outside of brackets: a launch's arguments less one."""
    depth = count = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        count += character == "," and depth == 0
    return count


def allocations(task: Task, side: Side) -> list[str]:
    """Where a side's sources allocate in what its entry calls."""
    found = _found(task, side, DEVICE_ALLOCATIONS)
    if side.path.suffix == ".py" and side.path.exists():
        found += _python_allocations(task, side)
    return found


def _python_allocations(task: Task, side: Side) -> list[str]:
    tree = ast.parse(side.path.read_text())
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    todo, seen, found = [side.function], set(), []
    while todo:
        name = todo.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        for node in ast.walk(functions[name]):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            todo.append(word)
            if isinstance(called, ast.Attribute) and word in ALLOCATIONS:
                place = f"{side.path.relative_to(task.folder)}:{node.lineno}"
                found.append(f"{place}: {ast.unparse(called)}")
    return found


def allocation_problem(task: Task, side: Side) -> str:
    """An allocation on one side alone: in the times of calls from the host, and on the CPU in all."""
    mine, theirs = allocations(task, side), allocations(task, task.baseline)
    if bool(mine) == bool(theirs):
        return ""
    return one_sided(task, side.name if mine else "the baseline", (mine + theirs)[0])


def one_sided(task: Task, who: str, what: str) -> str:
    """How an allocation on one side is told; empty where no time has it."""
    if task.device == "cuda" and not task.timing["eager"]:
        return ""
    return (
        f"{who} alone allocates in the timed path ({what}): outputs come preallocated. Allocate on neither side"
        + (
            ""
            if task.device == "cpu"
            else ", or set timing.eager = false (a graph's replays allocate nothing)"
        )
    )


def inspect(task: Task, side: Side, outcome: Outcome) -> None:
    """All of these rules for one candidate, and the page that records what they found."""
    outcome.check(f"{side.name}: the flags of both sides are the same", flags_problem(task, side))
    outcome.check(f"{side.name}: no fast math that the baseline has not", fast_math_problem(task, side))
    outcome.check(f"{side.name}: no switch of the whole process", switches_problem(task, side))
    outcome.check(
        f"{side.name}: one builder and one launch path, or device times alone", builder_problem(task, side)
    )
    outcome.check(f"{side.name}: launches on the current stream, and no waiting", stream_problem(task, side))
    outcome.check(f"{side.name}: no allocation on one side alone", allocation_problem(task, side))


def render(task: Task) -> str:
    """docs/benchmark_method.md: what both sides are built and measured with."""
    timing = task.timing
    lines = [
        f"# How {task.name} is measured",
        "",
        "Rendered by `weft task check` from task.toml; the harness is weft's (docs/measuring.md there).",
        "",
        "| side | language | entry | flags | launched by | allocates |",
        "|---|---|---|---|---|---|",
    ]
    for side in [task.baseline, *task.candidates.values()]:
        flags = " ".join([*task.flags, *side.flags]) if side.language in ("cuda", "kit") else "-"
        entry = f"`{side.path.relative_to(task.folder)}:{side.function}`"
        places = "; ".join(allocations(task, side)) or "no"
        lines.append(f"| {side.name} | {side.language} | {entry} | {flags} | {side.launcher} | {places} |")
    rows = len(task.rows)
    kinds = "device and eager" if timing["eager"] else "device alone"
    lines += [
        "",
        f"- {rows} workload rows, {sum(1 for _ in task.grid())} rows of the regression grid.",
        f"- {timing['rounds']} samples of {timing['replay_us']} us each, both sides interleaved in random order; "
        f"cold and hot operands; times: {kinds}; target {task.arch if task.device == 'cuda' else 'CPU'}.",
        *(f"- {f.name}: {task.tolerance(f.name).text()}." for f in task.written),
    ]
    fast = [
        what for side in [task.baseline, *task.candidates.values()] for what in _found(task, side, FAST_CODE)
    ]
    if fast:
        lines.append(f"- approximate arithmetic in the sources: {'; '.join(sorted(set(fast))[:8])}.")
    return "\n".join(lines) + "\n"
