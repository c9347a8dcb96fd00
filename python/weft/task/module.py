"""Python files of a task as modules."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.task.outcome import Absent, Usage


def load_module(path: Path, what: str) -> ModuleType:
    """A file as a module of its own; modules beside it can be imported while it loads."""
    if not path.exists():
        raise Usage(f"{what}: there is no {path}")
    name = f"weft_task_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # what Triton's and torch.compile's inspection looks for
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise Absent(f"{what} imports {error.name}, which is not installed here") from error
    except Exception as error:
        raise Usage(f"{what}: {path.name} can't be loaded: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def load_function(path: Path, function: str, what: str) -> Callable[..., Any]:
    """A function of a file."""
    module = load_module(path, what)
    found = getattr(module, function, None)
    if not callable(found):
        raise Usage(f"{what}: {path.name} has no function {function}")
    return found  # type: ignore[no-any-return]
