"""weft task verify: is the baseline right, is the candidate, and would anybody notice if not?"""

from __future__ import annotations

import datetime
import tracemalloc
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from weft.task import record, rules
from weft.task.entries import Entry, load_entry
from weft.task.judge import Judge, judged
from weft.task.operands import POISONS, Contents, Operands, arguments
from weft.task.outcome import Absent, Outcome, Refusal, Usage
from weft.task.spec import Row, Side, Task

EMULATOR = "emulator"  # where a row was verified, if not on the task's device
_PYTHON_NOISE = 4096  # bytes that a call may take from Python's own allocator
_WARM = 3


class _Allocations(TorchDispatchMode):
    """Counts results of PyTorch's operators in memory that no argument has."""

    def __init__(self, known: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.known = {t.untyped_storage().data_ptr() for t in known}
        self.made: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(value, torch.Tensor) and value.numel():
                address = value.untyped_storage().data_ptr()
                if address not in self.known:
                    self.known.add(address)
                    self.made.append(str(func))
        return result


def allocates(entry: Entry, task: Task, row: Row, operands: Operands) -> str:
    """What a warm call allocates, or nothing."""
    call = arguments(task, row, operands.tensors)
    for _ in range(_WARM):
        entry(*call)
    if task.device == "cuda":
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        entry(*call)
        made = torch.cuda.memory_stats()["allocation.all.allocated"] - before
        return f"{made} allocations of device memory a call" if made else ""
    with _Allocations(operands.tensors.values()) as counted:
        entry(*call)
    if counted.made:
        return f"{counted.made[0]} gives new memory"
    tracemalloc.start()
    entry(*call)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return f"{peak} bytes of host memory a call" if peak > _PYTHON_NOISE else ""


def _synchronize(task: Task) -> None:
    if task.device == "cuda":
        torch.cuda.synchronize()


def trial(task: Task, entry: Entry, judge: Judge) -> str:
    """One row: right, twice the same, whatever the outputs held before, nothing else written."""
    contents = judge.contents
    first: dict[str, Any] = {}
    for poison in POISONS:
        operands = Operands(contents, poison)
        entry(*arguments(task, contents.row, operands.tensors))
        _synchronize(task)
        wrong = judged(judge, operands)
        if wrong:
            return wrong
        written = {name: t.clone() for name, t in operands.written.items()}
        for name, tensor in written.items():
            same = name not in first or torch.equal(_bits(first[name]), _bits(tensor))
            if not same and task.spec.get("deterministic", True):
                return f"{name} has other bits where the outputs held something else before"
        first = written
    return ""


def attempted(task: Task, entry: Entry, judge: Judge) -> str:
    """A trial; whatever a side throws is wrong as well."""
    try:
        return trial(task, entry, judge)
    except (Refusal, Usage, Absent):
        raise
    except Exception as error:  # a kernel's, a launcher's, a compiler's
        said = str(error).strip().splitlines() or [""]
        return f"it failed: {type(error).__name__}: {said[0]}"


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


class Verifier:
    """Rows of a task, on the device of the task or on the CPU (for the emulator)."""

    def __init__(self, task: Task, outcome: Outcome, seed: int, device: str) -> None:
        self.task, self.outcome, self.seed, self.device = task, outcome, seed, device
        self.counts: dict[str, int] = {}

    def contents(self) -> Iterable[tuple[str, Row, bool]]:
        """Production rows, the grid, and one row with NaN and infinities."""
        for row in self.task.rows:
            yield "production", row, False
        for row in self.task.grid():
            yield "grid", row, False
        if self.task.raw.get("verify", {}).get("special", True):
            yield "special values", min(self.task.rows, key=lambda row: self.task.work(row)[0]), True

    def run(self, side: Side, entry: Entry, most_bytes: float = float("inf")) -> bool:
        """All rows of one side; what is wrong first is told."""
        done, worst, left = 0, 0.0, 0
        for kind, row, special in self.contents():
            if self.task.work(row)[0] > most_bytes:
                left += 1
                continue
            judge = Judge(Contents(self.task, row, self.device, self.seed + done, special), self.seed)
            wrong = attempted(self.task, entry, judge)
            if wrong:
                return self.outcome.check(f"{side.name} is right", f"{kind} row '{row.name}': {wrong}")
            worst = max(worst, judge.worst)
            done += 1
        self.counts[side.name] = done
        left_out = f"; {left} larger rows left out" if left else ""
        return self.outcome.check(
            f"{side.name} is right: {done} rows with two poisons each, worst {worst:.2f} of the tolerance{left_out}"
        )

    def sensitivity(self, side: Side, entry: Entry) -> None:
        """A result that is off by twice the tolerance must be refused."""
        for row in self.task.rows[:1] + list(self.task.grid())[:1]:
            judge = Judge(Contents(self.task, row, self.device, self.seed), self.seed)
            operands = Operands(judge.contents)
            entry(*arguments(self.task, row, operands.tensors))
            _synchronize(self.task)
            self.outcome.check(
                f"a copy of {side.name}'s result with one element off by twice the tolerance fails",
                judge.insensitive(operands.written),
            )

    def one_sided_allocation(self, sides: dict[str, Entry]) -> None:
        row = min(self.task.rows, key=lambda row: self.task.work(row)[0])
        operands = Operands(Contents(self.task, row, self.device, self.seed))
        made = {name: allocates(entry, self.task, row, operands) for name, entry in sides.items()}
        mine = {name: what for name, what in made.items() if what}
        wrong = ""
        if len(mine) == 1:
            who, what = next(iter(mine.items()))
            wrong = rules.one_sided(self.task, who if who != "baseline" else "the baseline", what)
        self.outcome.check("no allocation on one side alone, as counted", wrong)


def verify(task: Task, side: Side, outcome: Outcome, seed: int) -> None:
    """Baseline first: where it is wrong, nothing can be compared with it."""
    record.stamp(task, side)  # raises where the lock is broken
    verifier = Verifier(task, outcome, seed, task.device)
    with torch.no_grad():
        baseline = load_entry(task, task.baseline)
        if not verifier.run(task.baseline, baseline):
            raise Refusal("the baseline fails the spec's reference: one of the two is not what it should be")
        entry = load_entry(task, side)
        if verifier.run(side, entry):
            verifier.sensitivity(side, entry)
            verifier.one_sided_allocation({"baseline": baseline, side.name: entry})
    _keep(task, side, verifier, task.device)


def _keep(task: Task, side: Side, verifier: Verifier, device: str) -> None:
    """A verification as a row: what passed, where, and with which seed."""
    refused = verifier.outcome.refused
    row = {
        "kind": "verified",
        **record.stamp(task, side),
        "device": device,
        "passed": not refused,
        "rows": verifier.counts,
        "seed": verifier.seed,
        "why": refused[:1],
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    record.add(task, [row])
    verifier.outcome.data |= {"rows": verifier.counts, "seed": verifier.seed}


def emulate(task: Task, side: Side, outcome: Outcome, seed: int) -> None:
    """A kernel on weft's kit, run by the emulator: rows that are small enough for it."""
    if side.language != "kit":
        raise Usage(f"the emulator runs kernels on weft's kit; {side.name} is written in {side.language}")
    record.stamp(task, side)  # raises where the lock is broken
    verifier = Verifier(task, outcome, seed, "cpu")
    cpu = Task(
        task.folder, {**task.raw, "task": {**task.raw["task"], "device": "cpu"}}, task.inputs, task.outputs
    )
    cpu.rows, cpu.candidates = task.rows, task.candidates
    verifier.task = cpu
    most = float(task.raw.get("verify", {}).get("emulator_bytes", 4e6))
    with torch.no_grad():
        verifier.run(side, load_entry(cpu, side, emulated=True), most)
    _keep(task, side, verifier, EMULATOR)
