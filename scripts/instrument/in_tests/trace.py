"""Which lines of a folder's sources a process runs."""

from __future__ import annotations

import ast
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

Line = tuple[str, int]


class Tracer:
    """`shared` are lines of which later tests make use without running them again: of what is being imported or
    cached, and all while `sharing`; `one` are the others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.one: set[Line] = set()
        self.shared: set[Line] = set()
        self.sharing = False
        self._depth = 0
        self._names: dict[str, str] = {}
        self._kept: dict[CodeType, bool] = {}
        self._cached: dict[str, set[int]] = {}

    def start(self) -> None:
        threading.settrace(self._calls)
        sys.settrace(self._calls)

    def _calls(self, frame: FrameType, event: str, argument: object) -> Any:
        file = frame.f_code.co_filename
        name = self._names.get(file)
        if name is None:
            path = Path(file)
            inside = path.is_relative_to(self.folder)
            name = self._names[file] = str(path.relative_to(self.folder)) if inside else ""
        if not name:
            return None
        if self._is_kept(frame.f_code):
            self._depth += 1
            return self._kept_lines
        return self._lines

    def _is_kept(self, code: CodeType) -> bool:
        """Whether what it does is done once for all tests: a module, or a function whose results are cached."""
        if code not in self._kept:
            cached = self._cached.get(code.co_filename)
            if cached is None:
                cached = self._cached[code.co_filename] = cached_functions(Path(code.co_filename))
            self._kept[code] = code.co_name == "<module>" or code.co_firstlineno in cached
        return self._kept[code]

    def _lines(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            lines = self.shared if self.sharing or self._depth else self.one
            lines.add((self._names[frame.f_code.co_filename], frame.f_lineno))
        return self._lines

    def _kept_lines(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "return":
            self._depth -= 1
        self._lines(frame, event, argument)
        return self._kept_lines


def cached_functions(path: Path) -> set[int]:
    """The first line of each, which is that of its decorators."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.decorator_list]
    return {
        at.decorator_list[0].lineno
        for at in functions
        if any("cache" in ast.unparse(decorator) for decorator in at.decorator_list)
    }
