"""weft task new: a folder with everything that a task has, in which the user changes what is his."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.task.outcome import Outcome, Refusal, Usage

_OPERAND = re.compile(r"^(?P<name>\w+)=(?P<dtype>\w+)\[(?P<shape>[^\]]*)\]$")

HEAD = """# What is to be faster than what, over which rows, and how right it must be.
# `weft task lock` freezes [spec], [[workloads]], [grid], [tolerance], [timing] and all flags before tuning begins.
[task]
name = {name}
device = {device}  # or "cpu"
arch = "sm_90a"

# reference: FILE:FUNCTION of the inputs in order and the options by name; it returns the outputs.
# precision: "double": it gets floats in double precision; "given": as they are, where its roundings count.
# independent = "S" names an axis along which rows stand alone: of very large cases parts are compared then.
[spec]
reference = {reference}
precision = {precision}
"""

TAIL = """
# The regression grid: every combination, over the names of the rows. Small, odd and ragged sizes belong here.
[grid]
{grid}

# atol + rtol * |reference|, for each output; or {{ exact = true }}.
[tolerance]
{tolerances}

# eager = false leaves out times of calls from the host: where launch paths differ, they compare these.
[timing]
rounds = 15
replay_us = 2000
eager = {eager}

# An idle card: no process, and no more memory taken than this.
[card]
memory_mib = 1024
wait_s = 120

# Flags of CUDA sources, on both sides alike.
[build]
flags = ["-std=c++20", "-O3", "--expt-relaxed-constexpr"]

# language: cuda, kit (CUDA on weft's kit), triton, cute, weft, python; torch returns its results (compiled = true for
# torch.compile). Entries take inputs, options, outputs: run(x, weight, eps, out).
[baseline]
language = {baseline_language}
entry = {baseline_entry}

[candidates.first]
language = {candidate_language}
entry = {candidate_entry}
"""

UNSAID = "say where this shape comes from"  # what a row's source is until its owner does
GITIGNORE = "scratch/\n__pycache__/\n*.ncu-rep\n*.html\n"


@dataclass
class Plan:
    """What the answers were."""

    name: str
    device: str = "cuda"
    inputs: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    tolerance: str = ""
    reference: str = ""  # the text of reference.py
    function: str = "reference"
    precision: str = "double"
    language: str = "python"

    @property
    def written(self) -> list[dict[str, Any]]:
        """In the spec's order: what a call updates, then its outputs."""
        return [f for f in self.inputs if f.get("updated")] + self.outputs


def operand(text: str) -> dict[str, Any]:
    """x=bf16[S,D] as task.toml has it."""
    found = _OPERAND.match(text.strip())
    if not found:
        raise Usage(f"'{text}': expected NAME=DTYPE[AXIS,...], as in x=bf16[S,D]")
    shape = " ".join(part.strip() for part in found["shape"].split(","))
    return {"name": found["name"], "dtype": found["dtype"], "shape": shape}


def value_of(text: str) -> Any:
    """An integer, a number, a truth value or a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def row_of(text: str) -> dict[str, Any]:
    """S=4096,D=3072,source=where this shape comes from, to the end."""
    sizes, _, source = text.partition(",source=")
    return pairs(sizes) | ({"source": source.strip()} if source.strip() else {})


def pairs(text: str) -> dict[str, Any]:
    """S=4096,D=3072."""
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    if not parts or any(not middle for _, middle, _ in parts):
        raise Usage(f"'{text}': expected NAME=VALUE,...")
    return {name.strip(): value_of(value.strip()) for name, _, value in parts}


def toml(value: Any) -> str:
    """A scalar, a list or a flat table as TOML: JSON but for the table's sign."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    return json.dumps(value)


def _table(name: str, entries: dict[str, Any]) -> str:
    return "\n".join([f"\n{name}", *(f"{k} = {toml(v)}" for k, v in entries.items())]) + "\n"


def _grid(plan: Plan) -> str:
    """A small start: each integer axis at one, odd, and its first row's size where that is small."""
    axes = {k: v for k, v in plan.rows[0].items() if isinstance(v, int) and not isinstance(v, bool)}
    return "\n".join(f"{name} = {toml(sorted({1, 7, min(size, 64)}))}" for name, size in axes.items())


def _tolerances(plan: Plan) -> str:
    def of(output: dict[str, Any]) -> dict[str, Any]:
        if plan.tolerance == "exact":
            return {"exact": True}
        if plan.tolerance:
            return {k: float(v) for k, v in pairs(plan.tolerance).items()}
        dtype = plan.rows[0].get(output["dtype"], output["dtype"])
        return {"fp32": {"atol": 1e-5, "rtol": 1e-5}, "fp16": {"atol": 2e-3, "rtol": 2e-3}}.get(
            str(dtype), {"atol": 2e-2, "rtol": 1e-2}
        )

    return "\n".join(f"{output['name']} = {toml(of(output))}" for output in plan.written)


def task_toml(plan: Plan) -> str:
    text = HEAD.format(
        name=toml(plan.name),
        device=toml(plan.device),
        reference=toml(f"reference.py:{plan.function}"),
        precision=toml(plan.precision),
    )
    for kind, operands in (("inputs", plan.inputs), ("outputs", plan.outputs)):
        text += "".join(_table(f"[[spec.{kind}]]", entry) for entry in operands)
    if plan.options:
        text += _table("[spec.options]", plan.options)
    for i, row in enumerate(plan.rows):
        text += _table("[[workloads]]", {"name": f"row{i + 1}", **row, "source": row.get("source", UNSAID)})
    suffix = "cu" if plan.language in ("cuda", "kit") else "py"
    return text + TAIL.format(
        grid=_grid(plan),
        tolerances=_tolerances(plan),
        eager=toml(plan.language == "python"),
        baseline_language=toml("python"),
        baseline_entry=toml("baseline/entry.py:run"),
        candidate_language=toml(plan.language),
        candidate_entry=toml(f"solution/kernel.{suffix}:run"),
    )


def _signature(plan: Plan) -> str:
    return ", ".join(
        [f["name"] for f in plan.inputs] + list(plan.options) + [f["name"] for f in plan.outputs]
    )


def _python_entry(plan: Plan, what: str) -> str:
    return (
        f'"""{what}: inputs, options, outputs; it writes the outputs, returns nothing, and allocates nothing."""\n\n\n'
        f"def run({_signature(plan)}):\n"
        f'    raise NotImplementedError("{what} is not written yet")\n'
    )


def _cuda_entry(plan: Plan) -> str:
    views = [f"tvm::ffi::TensorView {f['name']}" for f in plan.inputs]
    views += [f"{'double' if isinstance(v, float) else 'int64_t'} {name}" for name, v in plan.options.items()]
    views += [f"tvm::ffi::TensorView {f['name']}" for f in plan.outputs]
    first = plan.inputs[0]["name"]
    return (
        "// What     the formula\n// Mapping  who owns which element\n// Traffic  bytes, and what bounds it\n"
        "// Needs    its preconditions\n#include <cuda_runtime.h>\n#include <tvm/ffi/container/tensor.h>\n"
        "#include <tvm/ffi/error.h>\n#include <tvm/ffi/extra/c_env_api.h>\n#include <tvm/ffi/function.h>\n\n"
        f"void run({', '.join(views)}) {{\n"
        f"    const DLDevice device = {first}.device();\n"
        "    [[maybe_unused]] const auto stream =\n"
        "        static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));\n"
        '    TVM_FFI_THROW(NotImplementedError) << "the kernel is not written yet";\n'
        "}\n\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run)\n"
    )


def from_reference(given: Any, plan: Plan) -> None:
    """A file with the function; its keyword-only parameters are the options."""
    path, _, function = given.reference.partition(":")
    from weft.task.module import load_function  # noqa: PLC0415 - it runs the user's file

    found = load_function(Path(path), function, "the reference")
    code = found.__kwdefaults__ or {}
    plan.reference, plan.function, plan.options = Path(path).read_text(), function, dict(code)
    if not given.input or not given.output or not given.row:
        raise Usage(
            "--reference needs --input, --output and --row: what it takes, what it gives, a shape of each name"
        )
    plan.inputs, plan.outputs = [operand(t) for t in given.input], [operand(t) for t in given.output]
    plan.rows = [row_of(row) for row in given.row]


def from_contract(lines: list[str], plan: Plan) -> None:
    """Case lines of one op of weft: its executable specification is the reference."""
    from weft._library import contracts, parse_case  # noqa: PLC0415 - it needs weft's library

    cases = [parse_case(line) for line in lines]
    op = cases[0]["op"]
    if any(case["op"] != op or case["tensors"].keys() != cases[0]["tensors"].keys() for case in cases):
        raise Usage("all case lines are of one op, with the same operands")
    contract = next(c for c in contracts() if c["op"] == op)
    roles = {f["name"]: f["role"] for f in contract["fields"]}
    axes = {f["name"]: str(f["axes"]).split() for f in contract["fields"]}
    plan.rows = [{} for _ in cases]
    present = cases[0]["tensors"]
    named = {name: _axis_names(axes[name], len(present[name]["shape"])) for name in axes if name in present}
    known = {word for words in named.values() for word in words if word.isidentifier()}
    for name, found in named.items():
        tensor, words = present[name], [_axis(word, f"{name}{i}", known) for i, word in enumerate(found)]
        for row, case in zip(plan.rows, cases, strict=True):
            sizes = zip(words, case["tensors"][name]["shape"], strict=True)
            row |= {word: size for word, size in sizes if word.isidentifier()}
        entry = {"name": name, "dtype": tensor["dtype"], "shape": " ".join(words)}
        if roles[name] == "out":
            plan.outputs.append(entry)
        else:
            plan.inputs.append(entry | ({"updated": True} if roles[name] == "in-out" else {}))
    plan.options = {k: v for k, v in cases[0]["options"].items() if isinstance(v, (int, float))}
    plan.precision, plan.language = "given", "weft"
    names = [f["name"] for f in plan.inputs]
    passed = ", ".join([f"{n}={n}.cpu()" for n in names] + [f"{o}={o}" for o in plan.options])
    asked = "".join(f", {f['name']}=True" for f in plan.outputs if _optional(contract, f["name"]))
    written = "".join(
        f', {f["name"]}_dtype="{f["dtype"]}"' for f in plan.outputs if f["dtype"] != plan.inputs[0]["dtype"]
    )
    call = f"weft.{op}({passed}{asked}{written})"
    order = [f["name"] for f in plan.written]  # weft's results have another
    several = f"results = {call}\n    return {', '.join(f'results.{name}' for name in order)}"
    plan.reference = (
        f'"""The executable specification of weft\'s {op}, on the CPU."""\n\nimport weft\n\n\n'
        f"def reference({', '.join(names)}{', *, ' if plan.options else ''}{', '.join(plan.options)}):\n"
        f"    {several if len(order) > 1 else f'return {call}'}\n"
    )


def _optional(contract: dict[str, Any], name: str) -> bool:
    return bool(next(f for f in contract["fields"] if f["name"] == name).get("optional"))


def _axis(word: str, own: str, known: set[str]) -> str:
    """An axis as task.toml has it: a name, a number, or what follows from names that rows have; else a name of its
    own."""
    follows = set(re.findall(r"[a-z]\w*", word)) <= known  # which neither ceil() nor pad() does
    return word if follows else own


def _axis_names(words: list[str], rank: int) -> list[str]:
    """A contract's axes for a tensor of that rank; "..." stands for as many as are left."""
    if "..." not in words:
        return words
    at, more = words.index("..."), rank - len(words) + 1
    rows = ["rows"] if more == 1 else [f"rows{i}" for i in range(more)]
    return words[:at] + rows + words[at + 1 :]


def from_questions(plan: Plan, ask: Callable[[str], str]) -> None:
    """One question a line; an empty answer ends a list."""

    def several(question: str) -> list[str]:
        answers = []
        while answer := ask(question).strip():
            answers.append(answer)
        return answers

    plan.inputs = [operand(t) for t in several("an input, as x=bf16[S,D] (empty: no more): ")]
    plan.outputs = [operand(t) for t in several("an output, as out=bf16[S,D] (empty: no more): ")]
    options = ask("options with their values, as eps=1e-6 (empty: none): ").strip()
    plan.options = pairs(options) if options else {}
    plan.rows = [
        row_of(t)
        for t in several("a row of production, as S=4096,D=3072,source=its model (empty: no more): ")
    ]
    plan.tolerance = ask("tolerance, as atol=1e-2,rtol=1e-2, or exact (empty: by dtype): ").strip()
    names = ", ".join(f["name"] for f in plan.inputs)
    keywords = "".join(f", {name}" for name in plan.options)
    plan.reference = (
        f'"""What {plan.name} computes."""\n\n\ndef reference({names}{", *" if keywords else ""}{keywords}):\n'
        '    raise NotImplementedError("say what is computed: return the outputs in order")\n'
    )


def new(given: Any, outcome: Outcome) -> None:
    folder: Path = given.name
    if folder.exists():
        raise Refusal(f"{folder} is there already")
    plan = Plan(folder.name, given.device, tolerance=given.tolerance)
    if given.op:
        from_contract(given.op, plan)
    elif given.reference:
        from_reference(given, plan)
    else:
        from_questions(plan, _ask)
    plan.language = given.language or plan.language
    if not plan.inputs or not plan.outputs or not plan.rows:
        raise Usage("a task has an input, an output and a workload row")
    _write(folder, plan)
    from weft.task.spec import load  # noqa: PLC0415 - the folder must be right

    task = load(folder)
    outcome.check(
        f"{folder}/task.toml is read back: {len(task.rows)} workload rows, {len(list(task.grid()))} of a grid"
    )
    outcome.data["line"] = [task.line(row) for row in task.rows]
    outcome.note("Next: weft task baseline; then the two entries; then weft task lock, check, verify, bench.")


def _ask(question: str) -> str:
    try:
        return input(question)
    except EOFError:
        raise Usage(
            "the questions end before their answers: give --op or --reference, or answer all"
        ) from None


def _write(folder: Path, plan: Plan) -> None:
    for name in ("baseline", "solution", "bench", "docs"):
        (folder / name).mkdir(parents=True)
    try:
        (folder / "task.toml").write_text(task_toml(plan))
        (folder / "reference.py").write_text(plan.reference)
        (folder / ".gitignore").write_text(GITIGNORE)
        (folder / "baseline" / "entry.py").write_text(_python_entry(plan, "the baseline's adapter"))
        cuda = plan.language in ("cuda", "kit")
        text = _cuda_entry(plan) if cuda else _python_entry(plan, "the candidate")
        (folder / "solution" / f"kernel.{'cu' if cuda else 'py'}").write_text(text)
    except BaseException:
        shutil.rmtree(folder)
        raise
    sys.stdout.flush()
