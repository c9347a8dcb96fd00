"""One case: its operands as tensors, weft and the baselines as callables."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import tvm_ffi
from torch.utils.dlpack import from_dlpack

from weft._library import function, parse_case
from weft._op import OPS
from weft.baselines import Absent, Baseline, Case, Compute, Tensor, every, state
from weft.baselines._bounded import outside
from weft.baselines._formulas import Bounds, bounds, chained
from weft.torch import DTYPES

OWN = ("vendors", "card")  # baselines of the library's: cuBLASLt, and what the card itself reaches


@dataclass(frozen=True)
class Options:
    """How to measure."""

    device: str = "cuda"
    against: tuple[str, ...] = ()  # words that a baseline's name has; none: all baselines
    rounds: int = 15
    replay_us: float = 2000
    seed: int = 0
    implementation: str = ""  # of weft; none: the first that accepts

    def wants(self, name: str) -> bool:
        """Is a baseline of this name asked for?"""
        return not self.against or any(word in name for word in self.against)


Results = dict[int, Mapping[str, torch.Tensor]]  # by operand set


@dataclass
class Measured:
    """What a case gave: rows of evidence, a text, and the baselines that could not run, with reasons."""

    rows: list[dict[str, Any]]
    text: str
    absent: dict[str, str] = field(default_factory=dict)


def environment(device: str, command: str) -> dict[str, Any]:
    """The environment row of this process, with the versions of all baselines that are here."""
    env: dict[str, Any] = json.loads(function("bench.environment")(device, 0, command))
    env["libraries"]["torch"] = str(torch.__version__)
    env["cuda"] = env["cuda"] or torch.version.cuda
    for baseline in every():
        with contextlib.suppress(Absent):
            if not baseline.name.startswith("torch"):
                env["libraries"][baseline.name] = baseline.version()
    return env


def view_of(line: str) -> Case:
    """A case line as the baselines see it. Raises ValueError for a bad one."""
    described = parse_case(line)
    tensors = {
        name: Tensor(t["dtype"], tuple(t["shape"]), tuple(t.get("stride", ())), t.get("offset", 0))
        for name, t in described["tensors"].items()
    }
    return Case(described["op"], described["case"], tensors, described["options"])


class Session:
    """An open measurement; its tensors live as long as it does."""

    def __init__(self, case: Case, options: Options, stream: int) -> None:
        given = {
            "rounds": options.rounds,
            "replay_us": options.replay_us,
            "seed": options.seed,
            "implementation": options.implementation,
        }
        self.case = case
        self.id = function("bench.open")(case.line, options.device, 0, stream, json.dumps(given))
        self.pool = torch.cuda.graph_pool_handle() if options.device == "cuda" else None  # of all graphs
        self._operands: dict[int, dict[str, torch.Tensor]] = {}

    def operands(self, index: int) -> dict[str, torch.Tensor]:
        """A set's fields as tensors."""
        if index not in self._operands:
            self._operands[index] = {
                name: from_dlpack(function("bench.operand")(self.id, index, name)).view(DTYPES[t.dtype])
                for name, t in self.case.tensors.items()
            }
        return self._operands[index]

    def close(self) -> None:
        """Frees the operands."""
        self._operands.clear()
        function("bench.close")(self.id)


class Chain:
    """What a framework's chain of operators may give for a session's case, which rounds between its steps."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._bounds: Bounds | None = None

    def possible(self) -> bool:
        """Does the op have such a chain? Bounds are found now where calls overwrite what they are found from."""
        described = parse_case(self.session.case.line)["tensors"]
        overwritten = any("alias" in t for t in described.values()) or any(
            n.endswith("_cache") for n in described
        )
        if overwritten:
            self._bounds = bounds(self.session.case, self.session.operands(0))
        return self._bounds is not None if overwritten else chained(self.session.case)

    def problem(self, index: int) -> str:
        """What is wrong with a set's result; empty where it lies within the chain's bounds."""
        operands = self.session.operands(index)
        if self._bounds is None:
            self._bounds = bounds(self.session.case, operands)
        found = (outside(name, operands[name], *ends) for name, ends in (self._bounds or {}).items())
        return next(filter(None, found), "")


class Foreign:
    """A baseline's way to compute a case, as what the harness calls.

    Results of all operand sets stay alive, so that they lie apart in memory as the sets do; those of a graph are the
    memory that its replays write. What a graph needs besides, all graphs of a session share: they run one by one.
    """

    def __init__(self, session: Session, compute: Compute) -> None:
        self.session, self.compute = session, compute
        self.eager: Results = {}
        self.latest: Results = self.eager  # of what ran last: calls, or one of the graphs
        self.graphs: list[torch.cuda.CUDAGraph] = []

    def call(self, index: int) -> None:
        """One call from the host."""
        self._compute(index, self.eager)
        self.latest = self.eager

    def _compute(self, index: int, results: Results) -> None:
        """A set's result in place of its last one, whose memory it may take."""
        results.pop(index, None)
        results[index] = self.compute(self.session.operands(index)) or {}

    def record(self, sets: int, calls: int) -> Any:
        """What replays a graph of that many calls."""
        graph, results = torch.cuda.CUDAGraph(), Results()
        stream = torch.cuda.current_stream()
        with torch.cuda.graph(graph, self.session.pool, stream, capture_error_mode="thread_local"):
            for i in range(calls):
                self._compute(i % sets, results)
        self.graphs.append(graph)

        def replay() -> None:
            graph.replay()
            self.latest = results

        return tvm_ffi.convert(replay)

    def deliver(self, index: int) -> None:
        """A set's last result to where the harness looks for it."""
        operands = self.session.operands(index)
        for name, result in self.latest[index].items():
            operands[name].copy_(result)


def weft_call(session: Session) -> Callable[[int], None]:
    """weft as a Python user calls it, into given outputs."""
    op, case = OPS[session.case.op], session.case
    arguments: dict[int, list[Any]] = {}

    def call(index: int) -> None:
        if index not in arguments:
            arguments[index] = op.arguments({**case.options, **session.operands(index)})
        op.function(*arguments[index])

    return call


@contextlib.contextmanager
def stream_of(device: str) -> Iterator[int]:
    """The handle of a stream that PyTorch works on as well; 0 on the CPU."""
    if device != "cuda":
        yield 0
        return
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        yield stream.cuda_stream


def _add_baseline(session: Session, baseline: Baseline, on_gpu: bool) -> None:
    compute = baseline.prepare(session.case)
    if compute is None:
        return
    foreign = Foreign(session, compute)
    recorded = on_gpu and not baseline.own_stream
    function("bench.add")(
        session.id,
        baseline.title(),
        "unrecorded" if baseline.own_stream else "baseline",
        foreign.call,
        foreign.record if recorded else None,
        foreign.deliver,
    )


def measure(line: str, options: Options, run: str, env: str, workload: str = "") -> Measured:
    """Measures one case. Raises ValueError where the case itself is at fault."""
    case, on_gpu = view_of(line), options.device == "cuda"
    absent: dict[str, str] = {}
    with torch.inference_mode(), stream_of(options.device) as stream:
        session = Session(case, options, stream)
        try:
            chain = Chain(session)
            if chain.possible():
                function("bench.allow_chain")(session.id, chain.problem)
            plain = not options.implementation
            if plain:
                chosen = function("bench.chosen")(session.id)
                function("bench.add")(session.id, chosen, "weft", weft_call(session), None, None)
            own = [options.wants(name) for name in OWN]
            function("bench.add_own")(session.id, not plain, *own)
            for baseline in every():
                if not options.wants(baseline.name):
                    continue
                reason = state(baseline, on_gpu)
                try:
                    if not reason:
                        _add_baseline(session, baseline, on_gpu)
                except Absent as missing:  # a part of it that this case needs
                    reason = str(missing)
                if reason:
                    absent[baseline.name] = reason
            answer = json.loads(function("bench.run")(session.id, run, env, workload))
        finally:
            session.close()
            if on_gpu:
                torch.cuda.empty_cache()  # the operands of the next case are not PyTorch's
    return Measured(answer["rows"], answer["text"], absent)
