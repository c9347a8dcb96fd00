"""One case: every side's result beside that of fp32, then their times, which take turns."""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from weft import swap
from weft.bench.models._sides import Side
from weft.bench.models._subject import Case, Subject, twin, weight_bytes, wide

# How far from fp32 a side may be, beside the library's own bf16: its row has no times otherwise.
WORSE = {"weft": 1.1, "baseline": 2.0}
MOST = 0.2  # a library's own result that is further off than this is no measure
FEWEST = 5  # rounds


@dataclass(frozen=True)
class Options:
    """How to measure."""

    device: str = "cuda"
    rounds: int = 15
    seconds: float = 5  # of rounds; the fewest are taken in any case
    seed: int = 0
    backend: str = "inductor"  # of torch.compile

    @property
    def on_gpu(self) -> bool:
        return self.device == "cuda"


@dataclass
class Entrant:
    """A side that runs: its call, what it is told beside its name, and what was seen of it."""

    side: Side
    name: str
    model: Any
    call: Callable[[], torch.Tensor]
    time: str  # eager, or device where a graph replays
    error: float = float("nan")
    why: str = ""
    samples: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        return not self.why


def relative(got: torch.Tensor, exact: torch.Tensor) -> float:
    """The size of the difference beside that of the exact result."""
    return float((got.double() - exact.double()).norm() / exact.double().norm())


@contextlib.contextmanager
def stream_of(options: Options) -> Iterator[None]:
    """A stream of its own, on which graphs are captured too."""
    if not options.on_gpu:
        yield
        return
    with torch.cuda.stream(torch.cuda.Stream()):
        yield
        torch.cuda.synchronize()


def _captured(
    call: Callable[[], torch.Tensor], rewind: Callable[[], None], pool: Any
) -> Callable[[], torch.Tensor]:
    """A call's CUDA Graph. The call ran before on this stream, so that nothing is left to plan or to compile."""
    rewind()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool, torch.cuda.current_stream(), capture_error_mode="thread_local"):
        out = call()

    def replay() -> torch.Tensor:
        graph.replay()
        return out

    return replay


def _entrant(case: Case, side: Side, subject: Subject, options: Options) -> Entrant:
    """A side after its first calls, in which it compiles and plans."""
    begin = time.monotonic()
    model = twin(subject.model)
    callee = side.prepare(model, options.backend)

    def call() -> torch.Tensor:
        with side.around():
            return subject.step(callee)

    for _ in range(2):
        subject.rewind()
        call()
    entrant = Entrant(side, side.name(case.library), model, call, "eager")
    entrant.notes.append(f"ready in {time.monotonic() - begin:.1f} s")
    return entrant


def _graphed(entrant: Entrant, subject: Subject, pool: Any) -> Entrant:
    """The same side as a graph."""
    call = _captured(entrant.call, subject.rewind, pool)
    name = f"{entrant.name}, CUDA Graph"
    return Entrant(entrant.side, name, entrant.model, call, "device", notes=["captured"])


def _judge(entrant: Entrant, subject: Subject, exact: torch.Tensor, library: float | None) -> None:
    """Compares what a side computes with fp32."""
    subject.rewind()
    entrant.error = relative(entrant.call(), exact)
    limit = MOST if library is None else WORSE[entrant.side.kind] * library
    if not entrant.error <= limit:
        entrant.why = f"an error of {entrant.error:.3g} against fp32, where {limit:.3g} is allowed"


def _told(entrant: Entrant) -> list[str]:
    """What weft took and handed on, in a line or two."""
    report = swap.report(entrant.model)
    handed: Counter[str] = Counter()
    for reasons in report.passed().values():
        handed.update(reasons.keys())
    silent = [path for path in report.silent() if path not in report.passed()]
    lines = [f"{len(report.replaced)} modules replaced, {len(silent)} never called"]
    lines += [f"handed on in {count} modules: {reason}" for reason, count in handed.most_common(5)]
    return lines


def _failed(case: Case, side: Side, error: Exception) -> Entrant:
    def call() -> torch.Tensor:
        raise error

    why = f"failed: {type(error).__name__}: {error}"
    return Entrant(
        side, side.name(case.library), None, call, "device" if case.captured else "eager", why=why[:600]
    )


def entrants(
    case: Case,
    subject: Subject,
    options: Options,
    wanted: Callable[[Side], bool] = lambda _: True,
    graphs: bool = True,
) -> Iterator[Entrant]:
    """The sides of a case, each as it is and where the case asks for it as a graph; those that fail with the reason."""
    pool = torch.cuda.graph_pool_handle() if options.on_gpu else None
    for side in filter(wanted, case.sides):
        try:
            plain = _entrant(case, side, subject, options)
            yield plain
            if case.captured and options.on_gpu and graphs:
                yield _graphed(plain, subject, pool)
        except Exception as error:  # it is somebody else's model, compiler or card
            if "CUDA error" in str(error):
                raise
            yield _failed(case, side, error)


def _timed(entrant: Entrant, subject: Subject, options: Options) -> float:
    """Microseconds of a call right behind another, so that launching it is in no time of the device."""
    subject.rewind()
    entrant.call()
    subject.rewind()
    if not options.on_gpu:
        begin = time.perf_counter()
        entrant.call()
        return (time.perf_counter() - begin) * 1e6
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    entrant.call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end) * 1e3)


def take_turns(running: list[Entrant], subject: Subject, options: Options) -> None:
    """A sample of each in a new order, round after round."""
    order, begin = random.Random(options.seed), time.monotonic()
    for number in range(options.rounds):
        if number >= FEWEST and time.monotonic() - begin > options.seconds:
            return
        for entrant in order.sample(running, len(running)):
            entrant.samples.append(_timed(entrant, subject, options))


def summary(samples: list[float]) -> dict[str, float]:
    """As rows have it."""
    s = sorted(samples)
    spread = statistics.pstdev(s)
    at = {name: s[min(len(s) - 1, len(s) * share // 10)] for name, share in (("p10", 1), ("p90", 9))}
    return {"median": statistics.median(s), "mean": statistics.fmean(s), "std": spread, "min": s[0], **at}


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    """Of heads that may share keys, which PyTorch's own count refuses: both products over all pairs."""
    batch, heads, tokens, _width = query
    return int(2 * batch * heads * tokens * key[-2] * (key[-1] + value[-1]))


def _flops(subject: Subject) -> int:
    fused = {
        getattr(torch.ops.aten, f"_scaled_dot_product_{kind}_attention"): _attention_flops
        for kind in ("flash", "efficient", "cudnn")
    }
    with FlopCounterMode(display=False, custom_mapping=fused) as counted:
        subject.rewind()
        subject.step(subject.model)
    return int(counted.get_total_flops())


def measure(
    case: Case, layers: int, options: Options, run: str, env: str
) -> tuple[list[dict[str, Any]], str]:
    """Rows of a case, and what to tell of it."""
    with torch.no_grad(), stream_of(options):
        subject = case.open(layers, options.device)
        exact = subject.exact(wide(subject.model))
        found: list[Entrant] = []
        library: float | None = None
        for entrant in entrants(case, subject, options):
            if entrant.fine:
                _judge(entrant, subject, exact, library)
            if library is None and entrant.fine:
                library = entrant.error  # of the first side: the library as it is
            if entrant.side.kind == "weft" and entrant.model is not None:
                entrant.notes += _told(entrant)
            found.append(entrant)
        take_turns([entrant for entrant in found if entrant.fine], subject, options)
        for entrant in found:
            if entrant.fine:
                _judge(entrant, subject, exact, library)
        work = {"bytes": weight_bytes(subject) + subject.state_bytes, "flops": _flops(subject)}
    common = {
        "run": run,
        "case": case.line(layers),
        "workload": None,
        "cache": "cold",
        "floor_us": 0,
        **work,
        "env": env,
    }
    rows = [common | _row(entrant) for entrant in found]
    return rows, "\n".join([case.line(layers), *map(_text, found)])


def _row(entrant: Entrant) -> dict[str, Any]:
    shared = {"side": entrant.side.kind, "name": entrant.name, "time": entrant.time, "checked": entrant.fine}
    if not entrant.fine:
        return shared | {"us": None, "samples": 0, "why": entrant.why}
    return shared | {"us": summary(entrant.samples), "samples": len(entrant.samples), "error": entrant.error}


def _text(entrant: Entrant) -> str:
    notes = "; ".join(entrant.notes)
    if not entrant.fine:
        return f"  {entrant.name}: {entrant.why} ({notes})"
    us = statistics.median(entrant.samples)
    return f"  {us / 1000:10.3f} ms  error {entrant.error:.2e}  {entrant.time:6} {entrant.name} ({notes})"
