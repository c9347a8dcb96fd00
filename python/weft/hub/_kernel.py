"""weft, loaded by the `kernels` package: every op as a function, `layers`, and attention for transformers.

This file is a build's `__init__.py`; the package that it finds beside itself is weft, whole.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_HERE = Path(__file__).resolve().parent


def _carried() -> ModuleType:
    """The package beside this file, under its own name: its modules and torch.ops know it by that."""
    place = _HERE / "weft" / "__init__.py"
    spec = importlib.util.spec_from_file_location(
        "weft", place, submodule_search_locations=[str(place.parent)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["weft"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        for name in [name for name in sys.modules if name.partition(".")[0] == "weft"]:
            del sys.modules[name]
        raise
    return module


def _weft() -> ModuleType:
    """A process has one weft, because its operators are torch.ops.weft: one that is there already serves both."""
    present = sys.modules.get("weft")
    if present is None:
        return _carried()
    contracts = present._library.function("contracts")()
    if hashlib.sha256(contracts.encode()).hexdigest() != (_HERE / "contracts.sha256").read_text().strip():
        raise ImportError(
            f"this process has weft {present.__version__} of {present.__file__}, whose ops are not those of "
            f"{_HERE}, and can't have two: load the kernel before anything imports weft, or install its version"
        )
    return present


_loaded = _weft()

from . import layers  # noqa: E402

supports_flash_attn = True  # by it and by flash_attn_forward transformers knows a whole attention function
__all__ = ["layers", *_loaded.__all__]  # noqa: PLE0604 - what the registry holds


def __getattr__(name: str) -> Any:
    """The ops, as `weft` has them, and what imports transformers: nobody else needs it."""
    if name == "flash_attn_forward":
        return importlib.import_module("weft.transformers")._attention.attention
    if name in _loaded.__all__:
        return getattr(_loaded, name)
    raise AttributeError(f"weft has no op {name!r}")
