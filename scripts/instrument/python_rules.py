"""Faults by rule in a Python source: each a span of its text, and what stands there instead.

Not planted in docstrings, annotations, `__all__`, decorators, what only a type checker reads, or prose (a text of
several words): these decide nothing, or are a choice of words.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from instrument.rules import Site

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], str]] = {
    ast.Lt: (ast.LtE, "<= for <"),
    ast.LtE: (ast.Lt, "< for <="),
    ast.Gt: (ast.GtE, ">= for >"),
    ast.GtE: (ast.Gt, "> for >="),
    ast.Eq: (ast.NotEq, "!= for =="),
    ast.NotEq: (ast.Eq, "== for !="),
    ast.In: (ast.NotIn, "not in for in"),
    ast.NotIn: (ast.In, "in for not in"),
    ast.Is: (ast.IsNot, "is not for is"),
    ast.IsNot: (ast.Is, "is for is not"),
}
OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], str]] = {
    ast.Add: (ast.Sub, "- for +"),
    ast.Sub: (ast.Add, "+ for -"),
    ast.Mult: (ast.Add, "+ for *"),
    ast.Div: (ast.Mult, "* for /"),
    ast.FloorDiv: (ast.Mult, "* for //"),
    ast.Mod: (ast.Mult, "* for %"),
    ast.Pow: (ast.Mult, "* for **"),
    ast.BitOr: (ast.BitAnd, "& for |"),
    ast.BitAnd: (ast.BitOr, "| for &"),
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
TYPES = {
    "tuple",
    "list",
    "dict",
    "set",
    "type",
    "Callable",
    "Literal",
    "Iterator",
    "Iterable",
    "Sequence",
    "Mapping",
}
CHECKED = {"TypeVar", "ParamSpec", "NewType"}  # calls that only a type checker reads
WORDS = {"help", "metavar", "description", "epilog", "prog"}  # arguments of argparse that are prose
# Arguments that only assert, that another platform needs, or that say when something is seen.
SAME = {"strict", "check", "encoding", "newline", "flush"}
LONGEST = 40  # characters of a rule's detail

Function = ast.FunctionDef | ast.AsyncFunctionDef


def short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


Fault = tuple[
    str, ast.AST, ast.AST | None
]  # a rule, the node that changes, what it becomes: none where it is left out


def changed(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def without(things: list[Any], i: int) -> list[Any]:
    return things[:i] + things[i + 1 :]


class PythonFinder:
    """All sites of one Python source, each with one rule."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.lines = text.split("\n")
        self.starts = list(accumulate((len(line) + 1 for line in self.lines), initial=0))
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self.left_out = {id(node) for root in self._unread() for node in ast.walk(root)}

    def sites(self) -> list[tuple[Site, range, range]]:
        """Each with the lines of which one is run where its fault is, and those of the function around it."""
        found: dict[tuple[int, int, str], tuple[Site, range, range]] = {}
        for node in ast.walk(self.tree):
            if id(node) in self.left_out:
                continue
            for fault in self._faults(node):
                if site := self._site(*fault):
                    held = site, self._reach(fault[1]), self._around(fault[1])
                    found.setdefault((site.start, site.end, site.edits[0][1]), held)
        return sorted(found.values(), key=lambda at: (at[0].start, at[0].end, at[0].rules))

    def _unread(self) -> Iterator[ast.AST]:
        """What no rule is asked about, with all below it."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Module | ast.ClassDef | Function):
                yield from node.body[: ast.get_docstring(node, clean=False) is not None]
            if isinstance(node, ast.ClassDef | Function):
                yield from node.decorator_list
            if isinstance(node, ast.ClassDef):
                yield from node.bases
            for name in ("annotation", "returns"):
                yield from filter(None, [getattr(node, name, None)])
            if self._is_unread(node):
                yield node

    @staticmethod
    def _is_unread(node: ast.AST) -> bool:
        found = isinstance(node, ast.Assert | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal)
        match node:
            case ast.ClassDef(bases=bases):
                found = any(ast.unparse(base).split("[")[0].endswith("Protocol") for base in bases)
            case ast.Assign(targets=[ast.Name(id=name), *_]):
                found = name in ("__all__", "__slots__")
            case ast.If(test=test):
                found = "TYPE_CHECKING" in ast.unparse(test)
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name)):
                found = name in TYPES
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                found = name in CHECKED
            case ast.keyword(arg=name):
                found = name in WORDS | SAME
        return found

    def _faults(self, node: ast.AST) -> Iterator[Fault]:
        if isinstance(node, ast.stmt):
            yield from self._statements(node)
        elif isinstance(node, ast.Compare):
            for i, op in enumerate(node.ops):
                other, words = COMPARISONS[type(op)]
                yield (
                    f"a comparison: {words}",
                    node,
                    changed(node, ops=[*node.ops[:i], other(), *node.ops[i + 1 :]]),
                )
        elif isinstance(node, ast.BoolOp):
            yield from self._boolean(node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield f"a not left out: {short(node)}", node, node.operand
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            other_op, words = OPERATORS[type(node.op)]
            yield f"an operator: {words}", node, changed(node, op=other_op())
        elif isinstance(node, ast.Call):
            yield from self._arguments(node)
        elif isinstance(node, ast.Constant):
            yield from self._constant(node)
        elif isinstance(node, ast.FormattedValue):
            yield f"a field left out of a text: {short(node.value)}", node, ast.Constant("")
            if node.format_spec is not None:
                yield (
                    f"a format left out: {short(node.format_spec)[2:-1]}",
                    node,
                    changed(node, format_spec=None),
                )
        elif isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            yield from self._elements(node)
        elif isinstance(node, ast.ExceptHandler) and node.type is not None:
            yield f"nothing caught: {short(node.type)}", node.type, ast.Tuple([], ast.Load())
        yield from self._conditions(node)

    def _conditions(self, node: ast.AST) -> Iterator[Fault]:
        tests: list[ast.expr] = []
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            tests = [node.test]
        elif isinstance(node, ast.comprehension):
            tests = node.ifs
        for test in tests:
            yield f"a condition that never holds: {short(test)}", test, ast.Constant(False)
            if not isinstance(node, ast.While):
                yield f"a condition that always holds: {short(test)}", test, ast.Constant(True)

    @staticmethod
    def _boolean(node: ast.BoolOp) -> Iterator[Fault]:
        other, words = (ast.Or(), "or for and") if isinstance(node.op, ast.And) else (ast.And(), "and for or")
        yield f"an operator: {words}", node, changed(node, op=other)
        for i, value in enumerate(node.values):
            rest = without(node.values, i)
            yield (
                f"an operand left out: {short(value)}",
                node,
                rest[0] if len(rest) == 1 else changed(node, values=rest),
            )

    def _statements(self, node: ast.stmt) -> Iterator[Fault]:
        kept = f"a statement left out: {short(node)}"
        if isinstance(node, ast.Raise | ast.Delete | ast.Continue):
            yield kept, node, None
        elif isinstance(node, ast.Break):
            yield "a statement left out: break", node, None
        elif isinstance(node, ast.Expr) and isinstance(
            node.value, ast.Call | ast.Yield | ast.YieldFrom | ast.Await
        ):
            yield kept, node, None
        elif isinstance(node, ast.AugAssign):
            yield kept, node, None
            if type(node.op) in OPERATORS:
                other, words = OPERATORS[type(node.op)]
                yield f"an operator: {words}", node, changed(node, op=other())
        elif isinstance(node, ast.Assign):
            targets = node.targets[0]
            if isinstance(targets, ast.Attribute | ast.Subscript) or (
                isinstance(targets, ast.Name) and self._is_assigned_before(node, targets.id)
            ):
                yield kept, node, None
        elif isinstance(node, ast.Return):
            if node.value is None:
                yield kept, node, None
            elif not (isinstance(node.value, ast.Constant) and node.value.value is None):
                yield f"None returned: {short(node.value)}", node.value, ast.Constant(None)

    def _is_assigned_before(self, node: ast.Assign, name: str) -> bool:
        """Whether a function goes on without the assignment, with what its name stood for before."""
        scope: ast.AST = node
        while not isinstance(scope, Function | ast.Module | ast.ClassDef):
            scope = self.parents[scope]
        stored = [
            at
            for at in ast.walk(scope)
            if isinstance(at, ast.Name) and isinstance(at.ctx, ast.Store) and at.id == name
        ]
        is_argument = isinstance(scope, Function) and any(
            isinstance(at, ast.arg) and at.arg == name for at in ast.walk(scope.args)
        )
        return is_argument or any(at.lineno < node.lineno for at in stored)

    @staticmethod
    def _arguments(node: ast.Call) -> Iterator[Fault]:
        plain = not any(isinstance(arg, ast.Starred) for arg in node.args)
        for i, (first, second) in enumerate(zip(node.args, node.args[1:], strict=False)):
            if plain and ast.dump(first) != ast.dump(second):
                args = [*node.args[:i], second, first, *node.args[i + 2 :]]
                yield (
                    f"two arguments that change places: {short(first)}, {short(second)}",
                    node,
                    changed(node, args=args),
                )
        if plain and len(node.args) > 1:
            yield f"an argument left out: {short(node.args[-1])}", node, changed(node, args=node.args[:-1])
        for i, word in enumerate(node.keywords):
            if word.arg and word.arg not in WORDS | SAME:
                yield (
                    f"an argument left out: {short(word)}",
                    node,
                    changed(node, keywords=without(node.keywords, i)),
                )
        if isinstance(node.func, ast.Name) and (other := FUNCTIONS.get(node.func.id)):
            yield f"a function: {other} for {node.func.id}", node.func, ast.Name(other, ast.Load())

    def _constant(self, node: ast.Constant) -> Iterator[Fault]:
        value = node.value
        if isinstance(self.parents[node], ast.JoinedStr | ast.Expr):
            return
        if isinstance(value, bool):
            yield f"a constant: {not value} for {value}", node, ast.Constant(not value)
        elif isinstance(value, int):
            yield f"a constant off by one: {value}", node, ast.Constant(value + 1)
        elif isinstance(value, float):
            yield f"a constant off by a percent: {value}", node, ast.Constant(value * 1.01 if value else 1.0)
        elif isinstance(value, str) and not (
            re.search("[A-Za-z]", value) and re.search(r"\s", value.strip())
        ):
            yield f"another text: {short(node)}", node, ast.Constant(value + "_")

    @staticmethod
    def _elements(node: ast.Tuple | ast.List | ast.Set | ast.Dict) -> Iterator[Fault]:
        if isinstance(node, ast.Dict):
            for i, key in enumerate(node.keys):
                rest, values = without(node.keys, i), without(node.values, i)
                name = short(key) if key else f"**{short(node.values[i])}"
                yield f"an element left out: {name}", node, changed(node, keys=rest, values=values)
        elif len(node.elts) > 1 and not (
            isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Store)
        ):
            for i, element in enumerate(node.elts):
                yield (
                    f"an element left out: {short(element)}",
                    node,
                    changed(node, elts=without(node.elts, i)),
                )

    def _root(self, target: ast.AST) -> ast.AST:
        """What is written anew: a formatted text as a whole, whose parts have no places of their own."""
        root, node = target, self.parents.get(target)
        while node is not None and not isinstance(node, ast.stmt):
            root = node if isinstance(node, ast.JoinedStr) else root
            node = self.parents.get(node)
        return root

    def _site(self, rule: str, target: ast.AST, replacement: ast.AST | None) -> Site | None:
        """Of a fault; none where the text would be none."""
        root: Any = self._root(target)
        try:
            text = ast.unparse(copy.deepcopy(root, {id(target): replacement})) if replacement else "pass"
            text = text if isinstance(root, ast.stmt) else f"({text})"
            ast.parse(text)
        except (SyntaxError, ValueError):
            return None
        start, end = (
            self._offset(root.lineno, root.col_offset),
            self._offset(root.end_lineno, root.end_col_offset),
        )
        return Site(
            start, root.lineno, "fault", self.lines[root.lineno - 1].strip(), (rule,), [(start, text)], end
        )

    def _offset(self, line: int, column: int) -> int:
        """Of a place that the parser gives in bytes of UTF-8."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def _reach(self, target: ast.AST) -> range:
        """A statement without those below it; of what a function has by default, its body."""
        node = target
        while not isinstance(node, ast.stmt | ast.ExceptHandler):
            node = self.parents[node]
        end = node.end_lineno or node.lineno
        body: list[ast.stmt] = getattr(node, "body", [])
        if not body:
            return range(node.lineno, end + 1)
        if isinstance(node, Function):
            return range(body[0].lineno, end + 1)
        return range(node.lineno, max(body[0].lineno, node.lineno + 1))

    def _around(self, target: ast.AST) -> range:
        """The body of the function that it is in; nothing outside of functions."""
        node: ast.AST | None = target
        while node is not None and not isinstance(node, Function):
            node = self.parents.get(node)
        return range(node.body[0].lineno, (node.end_lineno or 0) + 1) if node else range(0)
