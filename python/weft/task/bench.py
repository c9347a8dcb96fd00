"""weft task bench: both sides in one process, interleaved, by weft's own harness."""

from __future__ import annotations

import contextlib
import json
import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from weft._library import function
from weft.bench import environment
from weft.bench._measure import Foreign, stream_of
from weft.report.compare import Comparison, comparisons
from weft.report.pack import Row as EvidenceRow
from weft.report.rows import geometric_mean
from weft.task import card, lock, record, rules, source
from weft.task.builder import flags_of
from weft.task.entries import Entry, load_entry
from weft.task.judge import Judge, judged
from weft.task.operands import Contents, Operands, arguments
from weft.task.outcome import Absent, Outcome, Refusal
from weft.task.spec import Row, Side, Task


class Session:
    """A row's operands in the sets that the harness asks for, and what it calls."""

    def __init__(
        self, task: Task, row: Row, seed: int, stream: int, reference: Callable[..., Any] | None = None
    ) -> None:
        self.task, self.row = task, row
        self.contents = Contents(task, row, task.device, seed)
        self.judge = Judge(self.contents, seed, reference)
        self._sets: dict[int, Operands] = {}
        self._arguments: dict[int, list[Any]] = {}
        self._first: dict[str, dict[str, torch.Tensor]] = {}
        bytes_, flops, math = task.work(row)
        problem = {
            **{key: task.timing[key] for key in ("rounds", "replay_us", "eager")},
            "seed": seed,
            "footprint": self.set(0).footprint,
            "bytes": bytes_,
            "flops": flops,
            "math": math,
            "overwrites_inputs": any(f.updated for f in task.inputs),
            "checked_on": self.judge.checked_on,
        }
        self.pool = torch.cuda.graph_pool_handle() if task.device == "cuda" else None
        self.id = function("bench.open_foreign")(
            task.line(row), task.device, 0, stream, json.dumps(problem), self.reset, self.compare
        )

    def set(self, index: int) -> Operands:
        if index not in self._sets:
            self._sets[index] = Operands(self.contents)
        return self._sets[index]

    def operands(self, index: int) -> Any:
        """A call's arguments on a set."""
        if index not in self._arguments:
            self._arguments[index] = arguments(self.task, self.row, self.set(index).tensors)
        return self._arguments[index]

    def reset(self, index: int) -> None:
        self.set(index).reset()

    def compare(self, name: str, index: int) -> str:
        """What is wrong with a side's result; the same bits are asked of its first and its last."""
        operands = self.set(index)
        wrong = judged(self.judge, operands)
        if wrong or not self.task.spec.get("deterministic", True):
            return wrong
        first = self._first.setdefault(name, {k: t.clone() for k, t in operands.written.items()})
        same = all(torch.equal(_bits(first[k]), _bits(t)) for k, t in operands.written.items())
        return "" if same else "two calls gave different bits"

    def add(self, name: str, kind: str, entry: Entry) -> None:
        foreign = Foreign(self, lambda given: entry(*given))  # type: ignore[arg-type]
        record_graph = foreign.record if self.task.device == "cuda" else None
        function("bench.add")(self.id, name, kind, foreign.call, record_graph, None)

    def run(self, run: str, env: str) -> list[EvidenceRow]:
        function("bench.add_own")(self.id, False, False, True)
        answer = json.loads(function("bench.run")(self.id, run, env, self.row.name))
        return list(answer["rows"])

    def close(self) -> None:
        self._sets.clear()
        self._arguments.clear()
        self._first.clear()
        function("bench.close")(self.id)
        if self.task.device == "cuda":
            torch.cuda.empty_cache()


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def title(task: Task, side: Side) -> str:
    """A side as its rows call it."""
    if side.name == "baseline":
        origin = source.read(task)
        where = source.title(origin) if origin else "unrecorded"
        compiled = f"torch.compile {torch.__version__} of " if side.compiled else ""
        return f"{compiled}{where} ({side.language})"
    return f"{side.name} ({side.language})"


def measure_row(
    task: Task, row: Row, sides: Mapping[str, tuple[Side, Entry]], *, run: str, env: str, seed: int
) -> list[EvidenceRow]:
    """All sides on one row, interleaved."""
    with torch.inference_mode(), stream_of(task.device) as stream:
        session = Session(task, row, seed, stream)
        try:
            for side, entry in sides.values():
                kind = "baseline" if side.name == "baseline" else "weft"
                session.add(title(task, side), kind, entry)
            return session.run(run, env)
        finally:
            session.close()


def environment_row(task: Task, sides: list[Side], command: str) -> dict[str, Any]:
    """weft's, with the flags of both sides."""
    env = environment(task.device, command)
    parts = []
    for side in sides:
        flags = " ".join(flags_of(task, side)) if side.language in ("cuda", "kit") else side.language
        parts.append(f"{side.name}: {flags or 'no flags of its own'}")
    env["flags"] = "; ".join(parts)
    return env


def ready(task: Task, side: Side, outcome: Outcome) -> dict[str, Any]:
    """Everything that must hold before anything is timed. Returns what the rows are stamped with."""
    stamp = record.stamp(task, side)
    outcome.check(f"the lock {stamp['lock']} holds")
    found = Outcome("check")
    source.inspect(task, found)
    rules.inspect(task, side, found)
    if found.refused:
        raise Refusal("; ".join(found.refused))
    outcome.check("the baseline is its source's, and both sides keep the rules")
    if record.verified(task, side) is None:
        raise Refusal(
            f"these sources of the baseline and {side.name} have not passed `weft task verify` under this lock "
            f"on {task.device}"
        )
    outcome.check("both sides were verified as they are now")
    return stamp


def chosen_rows(task: Task, only: str) -> list[Row]:
    found = [row for row in task.rows if only in row.name]
    if not found:
        raise Refusal(f"no workload row has {only!r} in its name")
    return found


def again(task: Task, command: str, only: str, seed: int) -> str:
    """The command that measures the same again."""
    words = command.split()
    rows_of = ["--only", only] if only else []
    return " ".join(["weft task", words[0], task.name, *words[1:], *rows_of, "--seed", str(seed)])


@contextlib.contextmanager
def watched(
    task: Task, env: dict[str, Any], of: dict[str, Any], before: dict[str, Any]
) -> Iterator[list[EvidenceRow]]:
    """What is measured within is recorded with the card's states; beside a stranger the states alone are."""
    if task.device == "cuda":
        torch.zeros(1, device="cuda")  # our own context is on the card before strangers are looked for
    rows: list[EvidenceRow] = []
    with card.Watch(task) as watch:
        yield rows
    states = [
        {"kind": "state", **of, "when": when, **found}
        for when, found in (("before", before), ("during", watch.row()), ("after", card.state(task)))
    ]
    if watch.strangers:
        record.add(task, states)
        who = watch.strangers[0]
        raise Refusal(
            f"process {who['pid']} ({who['name']}) came onto the card while it was measured: the times are dropped"
        )
    record.add(task, [env, *rows, *states])


def run(
    task: Task,
    sides: list[Side],
    stamp: dict[str, Any],
    outcome: Outcome,
    *,
    command: str = "bench",
    only: str = "",
    wait_s: float | None = None,
    seed: int = 0,
) -> list[EvidenceRow]:
    """Waits for the card, measures every row, and writes what was measured with the card's states."""
    before = card.wait_idle(task, outcome, wait_s)
    if task.device == "cuda" and not torch.cuda.is_available():
        raise Absent("PyTorch finds no GPU here")
    name, seed = uuid.uuid4().hex[:12], seed or random.randrange(1, 1 << 31)
    which = f" --candidate {sides[1].name}" if command == "bench" else ""
    env = environment_row(task, sides, again(task, command + which, only, seed))
    loaded = {side.name: (side, load_entry(task, side)) for side in sides}
    with watched(task, env, {"of_run": name, "lock": stamp["lock"]}, before) as rows:
        for row in chosen_rows(task, only):
            found = measure_row(task, row, loaded, run=name, env=env["env"], seed=seed)
            rows += [{**entry, **stamp} for entry in found]
    outcome.data |= {"run": name, "seed": seed}
    return rows


def pairs(rows: Iterable[EvidenceRow]) -> list[Comparison]:
    """comparisons(), in which the baseline's time is the faster of its two: what tells the noise measures the same code
    again, and what the two differ by must not pass for a gain."""
    found = comparisons(rows)
    for c in found:
        again = c.noise
        if c.best is None or again is None or not again["us"] or again["name"] != c.best["name"]:
            continue
        if again["us"]["median"] < c.best["us"]["median"]:
            c.rivals[0] = again
    return found


def table(
    rows: list[EvidenceRow], times: tuple[str, ...] = ("device cold", "device hot", "eager hot")
) -> list[str]:
    """What was measured, a line a row."""
    found = {(c.title, f"{c.time} {c.cache}"): c for c in pairs(rows)}
    lines = []
    for name in dict.fromkeys(title for title, _ in found):
        for at in times:
            c = found.get((name, at))
            if c is not None:
                lines.append(f"  {name:28} {at:11} {_compared(c)}")
    return lines


def _compared(c: Comparison) -> str:
    def us(row: EvidenceRow | None) -> str:
        if row is None or row["us"] is None:
            return "   none"
        return f"{row['us']['median']:9.2f} us"

    ratio = c.ratio(c.best)
    share = f", {100 * c.share:.0f} % of the floor" if c.share else ""
    verdict = f"{ratio:.3f}x {c.verdict(c.best)}" if ratio is not None else "not comparable"
    why = [
        f"{row['name']}: {row['why']}" for row in [c.weft, *c.wrong] if row is not None and row["us"] is None
    ]
    return f"baseline {us(c.best)}, candidate {us(c.timed)}: {verdict}{share}{'; ' + '; '.join(why) if why else ''}"


def cold(rows: list[EvidenceRow]) -> list[Comparison]:
    return [c for c in pairs(rows) if (c.time, c.cache) == ("device", "cold")]


def headline(found: list[Comparison]) -> str:
    """The equal-weight geometric mean, with the worst row beside it."""
    ratios = [(ratio, c) for c in found if (ratio := c.ratio(c.best)) is not None]
    if not ratios:
        return "nothing to compare"
    worst, at = min(ratios, key=lambda pair: pair[0])
    verdicts_ = [c.verdict(c.best) for _, c in ratios]
    counts = ", ".join(f"{verdicts_.count(word)} {word}" for word in ("wins", "loses", "level"))
    mean = geometric_mean([ratio for ratio, _ in ratios])
    return f"geometric mean {mean:.3f}x over {len(ratios)} rows, worst {worst:.3f}x ({at.title}); {counts}"


def judge_rows(rows: list[EvidenceRow], outcome: Outcome) -> None:
    """Refuses rows without times; tells the geometric mean with the worst row beside it."""
    wrong = [row for row in rows if row["us"] is None]
    for row in wrong:
        outcome.check("every timed result is right", f"{row['workload']}: {row['name']}: {row['why']}")
    if not wrong:
        outcome.check("every result was right before and after it was timed")
    outcome.note(headline(cold(rows)))


def bench(task: Task, side: Side, outcome: Outcome, **how: Any) -> None:
    """`how`: only, wait_s and seed of run()."""
    stamp = ready(task, side, outcome)
    rows = run(task, [task.baseline, side], stamp, outcome, **how)
    for line in table(rows):
        outcome.note(line)
    judge_rows(rows, outcome)
    outcome.data["lock"] = lock.current(task)
