"""Finds and loads the shared library, and hands out its functions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import tvm_ffi

_PACKAGE = Path(__file__).resolve().parent

# What tvm-ffi does not map by itself.
tvm_ffi.register_error("NotImplementedError", NotImplementedError)
tvm_ffi.register_error("OSError", OSError)


def _find() -> Path:
    """$WEFT_LIBRARY, else the library that was installed with the package, else the checkout's build."""
    places = [
        Path(os.environ["WEFT_LIBRARY"]) if "WEFT_LIBRARY" in os.environ else None,
        _PACKAGE / "lib" / "libweft_ffi.so",
        _PACKAGE.parents[1] / "build" / "release" / "libweft_ffi.so",
    ]
    found = next((place for place in places if place is not None and place.exists()), None)
    if found is None:
        tried = ", ".join(str(place) for place in places if place is not None)
        raise ImportError(f"weft's library was not found ({tried}); build it, or set WEFT_LIBRARY")
    return found


PATH = _find()
_MODULE = tvm_ffi.load_module(str(PATH))  # its loading registers the functions below


def function(name: str) -> tvm_ffi.Function:
    """The library's function `weft.<name>`."""
    found = tvm_ffi.get_global_func(f"weft.{name}")
    assert found is not None
    return found


def contracts() -> list[dict[str, Any]]:
    """Every op's contract, by name: its fields, options and what the documentation says of it."""
    described: list[dict[str, Any]] = json.loads(function("contracts")())
    return described


def parse_case(line: str) -> dict[str, Any]:
    """What a case line means, with the outputs that it leaves open inferred.

    Raises ValueError that shows the place in the line.
    """
    case: dict[str, Any] = json.loads(function("case")(line))
    return case


def generate_case(op: str, seed: int) -> dict[str, Any] | None:
    """A random legal case of an op for the CPU; the same one for the same seed. None where none was found."""
    case: dict[str, Any] | None = json.loads(function("generate")(op, seed))
    return case
