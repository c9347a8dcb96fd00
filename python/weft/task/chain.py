"""weft task bench --in-chain: the candidate between the ops before and after it, eager and under torch.compile.

chain.py of the task has a function `chain(op, *inputs, **options)`, which computes what a model computes around the op:
`op(*inputs)` returns the op's results. An opaque op costs the compiler its fusions, so that a kernel's gain need not
be a model's: the compiled chain with the plain function, which the compiler may fuse, is the one to beat.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from weft.bench._measure import stream_of
from weft.task import bench as harness
from weft.task import card, record
from weft.task.entries import Entry, compiled, load_entry
from weft.task.fingerprint import of_bytes
from weft.task.gate import Gate
from weft.task.judge import reference_of
from weft.task.module import load_function
from weft.task.operands import Contents
from weft.task.outcome import Outcome, Refusal
from weft.task.spec import Field, Row, Side, Task
from weft.torch import DTYPES

FILE = "chain.py"
_NAMESPACE = "weft_task"


def functional(task: Task, row: Row, entry: Entry) -> Callable[..., Any]:
    """An entry as a function that returns its results."""
    shapes = [(task.shape(f, row), DTYPES[task.dtype(f, row)]) for f in task.outputs]
    options = list(task.option_values(row).values())

    def call(*inputs: torch.Tensor) -> Any:
        written = [torch.empty(shape, dtype=dtype, device=inputs[0].device) for shape, dtype in shapes]
        entry(*inputs, *options, *written)
        return written[0] if len(written) == 1 else tuple(written)

    return call


def opaque(task: Task, row: Row, side: Side, call: Callable[..., Any]) -> Callable[..., Any]:
    """The same as an operator of PyTorch, which torch.compile takes as it is and cannot look into."""
    library = torch.library.Library(_NAMESPACE, "FRAGMENT")
    name = f"op_{uuid.uuid4().hex[:8]}"
    tensors = ", ".join(f"Tensor {f.name}" for f in task.inputs)
    many = len(task.outputs) > 1
    library.define(f"{name}({tensors}) -> {'Tensor[]' if many else 'Tensor'}")
    shapes = [(task.shape(f, row), DTYPES[task.dtype(f, row)]) for f in task.outputs]

    def fake(*inputs: torch.Tensor) -> Any:
        made = [inputs[0].new_empty(shape, dtype=dtype) for shape, dtype in shapes]
        return made if many else made[0]

    library.impl(
        name, (lambda *i: list(call(*i))) if many else call, "CUDA" if task.device == "cuda" else "CPU"
    )
    torch.library.register_fake(f"{_NAMESPACE}::{name}", fake, lib=library)
    operator = getattr(getattr(torch.ops, _NAMESPACE), name)
    operator.weft_library = library  # it lives as long as the operator is used
    return operator  # type: ignore[no-any-return]


class Chain:
    """A row's chain, in every way that a model may run it."""

    def __init__(self, task: Task, row: Row, side: Side, baseline: Entry, candidate: Entry) -> None:
        self.task, self.row = task, row
        self.chain = load_function(task.folder / FILE, "chain", "the chain")
        reference = reference_of(task)
        options = task.option_values(row)
        ours = functional(task, row, candidate)

        def plain(*inputs: torch.Tensor) -> Any:
            return reference(*inputs, **options)

        theirs = functional(task, row, baseline)
        self.gate = Gate(ours, theirs, *_tolerance(task))
        self.ways: dict[str, tuple[str, Callable[..., Any]]] = {
            "eager, plain function": ("baseline", self._with(plain)),
            "eager, baseline": ("baseline", self._with(theirs)),
            "eager, candidate": ("weft", self._with(ours)),
            "compiled, plain function": ("baseline", self._compiled(plain)),
            "compiled, baseline opaque": (
                "baseline",
                self._compiled(opaque(task, row, task.baseline, theirs)),
            ),
            "compiled, candidate opaque": ("weft", self._compiled(opaque(task, row, side, ours))),
        }

    def _with(self, op: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *inputs: self.chain(op, *inputs)

    def _compiled(self, op: Callable[..., Any]) -> Callable[..., Any]:
        return compiled(self._with(op))


def _tolerance(task: Task) -> tuple[float, float]:
    """The widest of the outputs'; 0 and 0 where all are exact."""
    given = [task.tolerance(f.name) for f in task.outputs]
    return max(t.atol for t in given), max(t.rtol for t in given)


def _outer(task: Task, results: list[torch.Tensor]) -> Task:
    """The task whose outputs are the chain's, compared with the chain of the plain function as a model runs it."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    outputs = [
        Field(f"chain{i or ''}", names[t.dtype], tuple(str(n) for n in t.shape))
        for i, t in enumerate(results)
    ]
    given = {"atol": 0.05, "rtol": 0.05, **task.raw.get("chain", {})}
    spec = {**task.spec, "precision": "given", "deterministic": False, "independent": ""}
    raw = {**task.raw, "spec": spec, "tolerance": {f.name: given for f in outputs}}
    return replace(task, raw=raw, outputs=outputs)


def _into(way: Callable[..., Any], inputs: int) -> Entry:
    """One way through the chain as an entry: inputs, options, outputs."""

    def call(*given: Any) -> None:
        results = _listed(way(*given[:inputs]))
        for into, result in zip(given[len(given) - len(results) :], results, strict=True):
            into.copy_(result)

    return call


def _listed(value: Any) -> list[torch.Tensor]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def gate_rows(task: Task, side: Side, chain: Chain, outcome: Outcome, seed: int) -> None:
    """The first real inputs: what the ops before the candidate hand to it."""
    contents = Contents(task, chain.row, task.device, seed)
    inputs = [contents.inputs[f.name] for f in task.inputs]
    chain.chain(chain.gate, *inputs)
    for signature, why in chain.gate.report().items():
        outcome.check(f"{side.name} passes the gate of first sight on {signature}", why)
    if not chain.gate.seen:
        raise Refusal(f"{FILE}: chain() never calls the op that it is given")
    chain.chain(chain.gate, *inputs)


def measure(task: Task, chain: Chain, run: str, env: str, seed: int) -> list[dict[str, Any]]:
    """All ways on one row, interleaved, by the harness."""
    contents = Contents(task, chain.row, task.device, seed)
    inputs = [contents.inputs[f.name] for f in task.inputs]
    plain = chain.ways["eager, plain function"][1]
    with torch.inference_mode(), stream_of(task.device) as stream:
        outer = _outer(task, _listed(plain(*inputs)))
        session = harness.Session(outer, chain.row, seed, stream, lambda *given, **_: plain(*given))
        try:
            for name, (kind, way) in chain.ways.items():
                session.add(name, kind, _into(way, len(inputs)))
            return session.run(run, env)
        finally:
            session.close()


def bench(
    task: Task, side: Side, outcome: Outcome, *, only: str = "", wait_s: float | None = None, seed: int = 0
) -> None:
    stamp = harness.ready(task, side, outcome)
    before = card.wait_idle(task, outcome, wait_s)
    run, seed = uuid.uuid4().hex[:12], seed or random.randrange(1, 1 << 31)
    command = harness.again(task, f"bench --in-chain --candidate {side.name}", only, seed)
    env = harness.environment_row(task, [task.baseline, side], command)
    baseline, candidate = load_entry(task, task.baseline), load_entry(task, side)
    of = {**stamp, "kind": "chain", "chain_file": hash_of(task)}
    with harness.watched(task, env, {"of_run": run, "lock": stamp["lock"]}, before) as rows:
        for row in harness.chosen_rows(task, only):
            chain = Chain(task, row, side, baseline, candidate)
            with torch.no_grad():
                gate_rows(task, side, chain, outcome, seed)
            rows += [{**entry, **of} for entry in measure(task, chain, run, env["env"], seed)]
    for line in verdicts(rows):
        outcome.note(line)
    harness.judge_rows([row for row in rows if row["side"] == "weft"], outcome)
    outcome.data["run"] = run


def hash_of(task: Task) -> str:
    """Of chain.py, which no lock freezes: its rows count for the chain that was measured."""
    return of_bytes((task.folder / FILE).read_bytes())[:16]


def latest(task: Task, side: Side) -> list[dict[str, Any]]:
    """Of the last in-chain run of what is there now."""
    if not (task.folder / FILE).exists():
        return []
    now = {**record.stamp(task, side), "chain_file": hash_of(task)}
    found = [row for row in record.of_kind(task, "chain") if all(row.get(k) == v for k, v in now.items())]
    return [row for row in found if row["run"] == found[-1]["run"]]


def verdicts(rows: list[dict[str, Any]]) -> list[str]:
    """Per row: what a chain takes each way, and what is left of the kernel's gain under the compiler."""
    lines = []
    times = {
        (r["workload"], r["name"]): r["us"]
        for r in rows
        if (r["time"], r["cache"]) == ("device", "cold") and r["side"] != "noise"
    }
    for workload in dict.fromkeys(row["workload"] for row in rows):
        for kind in ("eager", "compiled"):
            own = {
                name: us for (w, name), us in times.items() if w == workload and name.startswith(kind) and us
            }
            if not own:
                continue
            text = ", ".join(f"{name.partition(', ')[2]} {us['median']:.2f} us" for name, us in own.items())
            ours = next((us for name, us in own.items() if "candidate" in name), None)
            best = min((us["median"] for name, us in own.items() if "candidate" not in name), default=None)
            ratio = f": {best / ours['median']:.3f}x of the best without it" if ours and best else ""
            lines.append(f"  {workload:28} {kind:8} {text}{ratio}")
    return lines
