"""weft task check: every rule that needs no GPU."""

from __future__ import annotations

import ast

from weft.task import dispatch, hygiene, record, rules, source
from weft.task.outcome import Outcome, Refusal
from weft.task.spec import Side, Task


def _sources_problem(task: Task, side: Side) -> str:
    """Is the entry there, and is it Python that parses?"""
    if not side.path.exists():
        return f"there is no {side.path.relative_to(task.folder)}"
    if side.path.suffix != ".py":
        return ""
    try:
        tree = ast.parse(side.path.read_text())
    except SyntaxError as error:
        return f"{side.path.name}:{error.lineno}: {error.msg}"
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    names |= {t.id for node in ast.walk(tree) if isinstance(node, ast.Assign) for t in node.targets
              if isinstance(t, ast.Name)}  # fmt: skip
    names |= {
        a.asname or a.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names
    }
    return "" if side.function in names else f"{side.path.name} has no {side.function}"


def _compile(task: Task, side: Side, outcome: Outcome) -> None:
    from weft.task import builder  # noqa: PLC0415 - the other rules need no compiler

    try:
        library = builder.compile_cuda(task, side)
        builder.function_of(library, side)
    except Refusal as refusal:
        outcome.check(f"{side.name} compiles for {task.arch}", str(refusal))
        return
    outcome.check(f"{side.name} compiles for {task.arch} and exports {side.function}")


def check(task: Task, outcome: Outcome, compile_sources: bool) -> None:
    """Writes docs/benchmark_method.md, which records what was found."""
    source.inspect(task, outcome)
    sides = [
        task.baseline,
        *(s for s in task.candidates.values() if s.name != dispatch.NAME or s.path.exists()),
    ]
    outcome.check("there is a candidate", "" if task.candidates else "task.toml has no [candidates.NAME]")
    for side in sides:
        if not outcome.check(f"{side.name}: its entry is there", _sources_problem(task, side)):
            return
    for side in sides[1:]:
        rules.inspect(task, side, outcome)
    if compile_sources:
        for side in sides:
            if side.language in ("cuda", "kit"):
                _compile(task, side, outcome)
    broken = ""
    try:
        rows = record.rows(task)
    except Refusal as refusal:
        broken, rows = str(refusal), []
    outcome.check(f"the evidence is whole ({len(rows)} rows)", broken)
    hygiene.inspect(task, outcome)
    page = task.folder / rules.PAGE
    page.parent.mkdir(exist_ok=True)
    page.write_text(rules.render(task))
    outcome.check(f"{rules.PAGE} says how both sides are built and measured")
