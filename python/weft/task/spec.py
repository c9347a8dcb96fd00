"""task.toml: what is computed, over which rows, how right it must be, and how it is measured."""

from __future__ import annotations

import ast
import itertools
import operator
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.task.outcome import Usage

LANGUAGES = ("cuda", "kit", "triton", "cute", "torch", "weft", "python")
FLOATING = ("fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2")
BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "fp8_e4m3": 8, "fp8_e5m2": 8, "int8": 8, "uint8": 8}
BITS |= {"int32": 32, "int64": 64}
FILLS = ("normal", "uniform")

# What task.toml may have. A word that nobody reads is a rule that nobody keeps: [gird] would be no grid.
_SIDE = {"language", "entry", "flags", "includes", "compiled"}
_WORDS: dict[str, set[str]] = {
    "task": {"name", "about", "device", "arch"},
    "spec": {
        "reference",
        "precision",
        "independent",
        "deterministic",
        "inputs",
        "outputs",
        "options",
        "work",
    },
    "timing": {"rounds", "replay_us", "eager"},
    "card": {"memory_mib", "wait_s"},
    "verify": {"special", "emulator_bytes"},
    "chain": {"atol", "rtol"},
    "build": {"flags"},
    "baseline": _SIDE,
}
_FREE = {
    "workloads",
    "grid",
    "tolerance",
    "candidates",
    "dispatch",
}  # their words are the user's, or are read below

_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def evaluate(text: str, values: Mapping[str, Any]) -> Any:
    """Arithmetic and comparisons over the names of a row: "2*D", "S >= 1024 and T == 'bf16'"."""

    def of(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in values:
                return values[name]
            case ast.Name(id=name):
                raise Usage(f"'{text}': there is no {name} in the row (it has {', '.join(values)})")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](of(left), of(right))
            case ast.Compare(left=left, ops=ops, comparators=rights):
                sides = [left, *rights]
                return all(
                    _OPERATORS[type(op)](of(a), of(b))
                    for op, (a, b) in zip(ops, itertools.pairwise(sides), strict=True)
                )
            case ast.BoolOp(op=op, values=parts):
                return (all if isinstance(op, ast.And) else any)(of(part) for part in parts)
            case ast.UnaryOp(op=ast.Not() | ast.USub() as op, operand=inner):
                return not of(inner) if isinstance(op, ast.Not) else -of(inner)
        raise Usage(f"'{text}': expected arithmetic and comparisons of the row's names")

    try:
        return of(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        raise Usage(f"'{text}' is no expression") from None


@dataclass(frozen=True)
class Field:
    """An operand: its dtype and shape are names of the row, or fixed."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    fill: str = "normal"
    low: str = "0"  # the mean of normal values
    high: str = "1"  # their deviation
    updated: bool = False  # an input that the call overwrites


@dataclass(frozen=True)
class Tolerance:
    """How far from the reference a result may lie: atol + rtol * |reference|; or not at all."""

    atol: float = 0
    rtol: float = 0
    exact: bool = False

    def text(self) -> str:
        return "bit for bit" if self.exact else f"atol {self.atol:g}, rtol {self.rtol:g}"


@dataclass(frozen=True)
class Side:
    """The baseline, or a candidate."""

    name: str
    language: str
    path: Path  # of the file with the entry
    function: str
    flags: tuple[str, ...]
    includes: tuple[str, ...]
    compiled: bool  # of PyTorch's: through torch.compile

    @property
    def launcher(self) -> str:
        """What stands between Python and the kernel: the layer that eager times include."""
        return {
            "cuda": "tvm-ffi",
            "kit": "tvm-ffi",
            "triton": "Triton's launcher",
            "cute": "CuTe's launcher",
            "weft": "torch.ops.weft",
            "torch": "torch.compile" if self.compiled else "PyTorch",
            "python": "Python",
        }[self.language]


@dataclass(frozen=True)
class Row:
    """Values of the names that shapes, dtypes and options have."""

    name: str
    values: Mapping[str, Any]
    source: str = ""


@dataclass
class Task:
    """A task's folder, as task.toml describes it."""

    folder: Path
    raw: dict[str, Any]
    inputs: list[Field] = field(default_factory=list)
    outputs: list[Field] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    candidates: dict[str, Side] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.raw["task"]["name"])

    @property
    def device(self) -> str:
        return str(self.raw["task"].get("device", "cuda"))

    @property
    def arch(self) -> str:
        return str(self.raw["task"].get("arch", "sm_90a"))

    @property
    def spec(self) -> dict[str, Any]:
        return dict(self.raw["spec"])

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.spec.get("options", {}))

    @property
    def timing(self) -> dict[str, Any]:
        return {"rounds": 15, "replay_us": 2000, "eager": True, **self.raw.get("timing", {})}

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple(self.raw.get("build", {}).get("flags", ()))

    @property
    def written(self) -> list[Field]:
        """What a call writes: inputs that it updates, then outputs. The reference returns them in this order."""
        return [f for f in self.inputs if f.updated] + self.outputs

    @property
    def baseline(self) -> Side:
        if "baseline" not in self.raw:
            raise Usage("task.toml has no [baseline]: its language and its entry")
        return self._side("baseline", self.raw["baseline"])

    @property
    def evidence(self) -> Path:
        return self.folder / "bench" / "evidence.jsonl"

    def tolerance(self, output: str) -> Tolerance:
        given = self.raw.get("tolerance", {}).get(output)
        if given is None:
            raise Usage(f"task.toml: [tolerance] says nothing of {output}")
        if not isinstance(given, dict) or not given.keys() <= {"atol", "rtol", "exact"}:
            raise Usage(
                f"task.toml: the tolerance of {output} is {given}; it has atol and rtol, or exact = true"
            )
        return Tolerance(**given)

    def candidate(self, name: str = "") -> Side:
        """The one of that name; without a name the only one, or the dispatcher."""
        if not name and len(self.candidates) > 1 and "dispatch" not in self.candidates:
            raise Usage(f"say which candidate: --candidate {'|'.join(self.candidates)}")
        chosen = name or ("dispatch" if "dispatch" in self.candidates else next(iter(self.candidates), ""))
        if chosen not in self.candidates:
            raise Usage(
                f"there is no candidate {chosen!r}; task.toml has {', '.join(self.candidates) or 'none'}"
            )
        return self.candidates[chosen]

    def grid(self) -> Iterator[Row]:
        """The canonical regression grid: every combination, with defaults from the first workload row."""
        axes = self.raw.get("grid", {})
        if not axes:
            return
        base = dict(self.rows[0].values)
        for values in itertools.product(*axes.values()):
            given = dict(zip(axes, values, strict=True))
            yield Row("grid " + " ".join(f"{k}={v}" for k, v in given.items()), base | given)

    def line(self, row: Row) -> str:
        """The row as one line: `norm x=bf16[4096,3072] out=bf16[4096,3072] eps=1e-06`."""
        words = [self.name]
        for f in [*self.inputs, *self.outputs]:
            shape = ",".join(str(n) for n in self.shape(f, row))
            words.append(f"{f.name}={self.dtype(f, row)}[{shape}]")
        return " ".join(words + [f"{k}={v}" for k, v in self.option_values(row).items()])

    def option_values(self, row: Row) -> dict[str, Any]:
        return {name: row.values.get(name, value) for name, value in self.options.items()}

    def shape(self, f: Field, row: Row) -> tuple[int, ...]:
        sizes = tuple(int(evaluate(part, row.values)) for part in f.shape)
        if min(sizes, default=1) < 1:
            raise Usage(f"{f.name} of row '{row.name}' has the shape {list(sizes)}")
        return sizes

    def dtype(self, f: Field, row: Row) -> str:
        found = str(row.values.get(f.dtype, f.dtype))
        if found not in BITS:
            raise Usage(
                f"{f.name} of row '{row.name}': there is no dtype {found} (there are {', '.join(BITS)})"
            )
        return found

    def work(self, row: Row) -> tuple[float, float, str]:
        """The least bytes and operations, and the unit they run on: each operand once, unless the spec knows less."""
        given = self.spec.get("work", {})
        least = sum(self._bytes(f, row) for f in [*self.inputs, *self.written])
        return (
            float(evaluate(str(given.get("bytes", least)), row.values)),
            float(evaluate(str(given.get("flops", 0)), row.values)),
            str(given.get("math", "fp32")),
        )

    def _bytes(self, f: Field, row: Row) -> int:
        count = 1
        for n in self.shape(f, row):
            count *= n
        return count * BITS[self.dtype(f, row)] // 8

    def _side(self, name: str, given: Mapping[str, Any]) -> Side:
        if given.get("language") not in LANGUAGES:
            raise Usage(
                f"{name}: language is {given.get('language')!r}, expected one of {', '.join(LANGUAGES)}"
            )
        _known(name, given, _SIDE)
        path, _, function = str(given.get("entry", "")).partition(":")
        if not path or not function:
            raise Usage(f"{name}: entry is {given.get('entry')!r}, expected FILE:FUNCTION")
        return Side(
            name,
            given["language"],
            self.folder / path,
            function,
            tuple(given.get("flags", ())),
            tuple(given.get("includes", ())),
            bool(given.get("compiled", False)),
        )


def _field(given: Mapping[str, Any]) -> Field:
    known = {"name", "dtype", "shape", "fill", "low", "high", "updated"}
    if not {"name", "dtype", "shape"} <= given.keys() <= known:
        raise Usage(
            f"an operand of task.toml is {dict(given)}: it has name, dtype, shape; fill, low, high, updated"
        )
    if given.get("fill", "normal") not in FILLS:
        raise Usage(f"{given['name']}: fill is {given['fill']!r}, expected one of {', '.join(FILLS)}")
    values = {**given, "shape": tuple(str(given["shape"]).split())}
    return Field(**{k: str(v) if k in ("low", "high") else v for k, v in values.items()})  # type: ignore[arg-type]


def _known(where: str, given: Mapping[str, Any], words: set[str]) -> None:
    """Refuses what nobody reads."""
    strange = sorted(given.keys() - words)
    if strange:
        raise Usage(
            f"task.toml: [{where}] has {strange[0]}, which nobody reads (it may have {', '.join(sorted(words))})"
        )


def _check_words(raw: Mapping[str, Any], path: Path) -> None:
    for section in ("task", "spec", "workloads"):
        if section not in raw:
            raise Usage(f"{path} has no [{section}]")
    strange = sorted(raw.keys() - _WORDS.keys() - _FREE)
    if strange:
        raise Usage(f"task.toml has [{strange[0]}], which nobody reads")
    for section, words in _WORDS.items():
        _known(section, raw.get(section, {}), words)
    if "name" not in raw["task"]:
        raise Usage(f"{path}: [task] has no name")
    if not isinstance(raw["workloads"], list) or any("name" not in row for row in raw["workloads"]):
        raise Usage(f"{path}: every [[workloads]] has a name")
    for entry in raw.get("dispatch", ()):
        if set(entry) != {"bucket", "when"}:
            raise Usage(f"{path}: a [[dispatch]] has bucket and when")


def load(folder: Path) -> Task:
    """Reads and checks task.toml. Raises Usage with what is wrong."""
    path = folder / "task.toml"
    if not path.exists():
        raise Usage(f"{folder} is no task: it has no task.toml (weft task new NAME makes one)")
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise Usage(f"{path}: {error}") from None
    _check_words(raw, path)
    task = Task(folder, raw)
    task.inputs = [_field(f) for f in raw["spec"].get("inputs", ())]
    task.outputs = [_field(f) for f in raw["spec"].get("outputs", ())]
    if not task.written:
        raise Usage(f"{path}: the spec has no output")
    for row in raw["workloads"]:
        values = {k: v for k, v in row.items() if k not in ("name", "source")}
        task.rows.append(Row(str(row["name"]), values, str(row.get("source", ""))))
    if len({row.name for row in task.rows}) < len(task.rows):
        raise Usage(f"{path}: two workload rows have one name")
    for name, given in raw.get("candidates", {}).items():
        task.candidates[name] = task._side(name, given)
    for row in task.rows:
        task.line(row)
    for f in task.written:
        task.tolerance(f.name)
    return task
