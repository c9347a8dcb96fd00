"""Where the tests find the checkout and its scripts, and what processes that they start import from."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
# This checkout's package, then what this process was given.
PYTHON_PATH = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))


def script(name: str) -> ModuleType:
    """A script of the tree as a module."""
    loader = SourceFileLoader(name.removesuffix(".py"), str(ROOT / "scripts" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module
