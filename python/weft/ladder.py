"""The ladder's rungs as functions: `weft.ladder.softmax.safe_f32(x)`, with the signature of the rung's op.

A rung is `weft.ladder.<topic>.<name>`, its file's name without the number; `weft.ladder.named["safe_softmax_f32"]` is
what ladder/names.csv has for the name of a public collection (the last of its rungs). Tensors on a GPU run there, CPU
tensors in the emulator, which is slow: it is there to check. For PyTorch and NumPy, in a checkout that is built.
"""

from __future__ import annotations

import csv
import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tvm_ffi

from weft import _library
from weft._function import run, signature
from weft._op import OPS, Op

_LIBRARY = _library.PATH.with_name("libweft_ladder.so")
if not _LIBRARY.exists():
    raise ImportError(f"{_LIBRARY} was not found: ./weft build makes it")
_MODULE = tvm_ffi.load_module(str(_LIBRARY))  # its loading registers the rungs


class Rung(Op):
    """An op with one rung as its implementation."""

    def __init__(self, described: dict[str, Any]) -> None:
        super().__init__(OPS[described["op"]].contract)
        self.rung: str = described["name"]
        self.topic, file = self.rung.split("/")[1:]
        self.short = re.sub(r"^\d+_", "", file)
        self.wrong: bool = described["wrong"]
        self.lesson: str = described["lesson"]
        self.name = f"ladder_{self.topic}_{self.short}"
        self.function = functools.partial(_library.function("ladder.run"), self.rung)


def _function(rung: Rung, **fixed: str | float) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return run(rung, rung.bind(args, {**fixed, **kwargs}))

    call.__name__ = call.__qualname__ = rung.short
    call.__doc__ = rung.lesson
    call.__signature__ = signature(rung)  # type: ignore[attr-defined]
    return call


RUNGS = {rung.rung: rung for rung in map(Rung, json.loads(_library.function("ladder.rungs")()))}


def _topics() -> dict[str, SimpleNamespace]:
    topics: dict[str, SimpleNamespace] = {}
    for rung in RUNGS.values():
        setattr(topics.setdefault(rung.topic, SimpleNamespace()), rung.short, _function(rung))
    return topics


def _named() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    table = Path(__file__).resolve().parents[2] / "ladder" / "names.csv"
    if not table.exists():
        return found
    with table.open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            words = row["note"].split()
            options = [word.split("=") for word in words] if all("=" in word for word in words) else []
            fixed = {key: value if key == "activation" else float(value) for key, value in options}
            if row["rungs"]:
                found.setdefault(row["name"], _function(RUNGS[row["rungs"].split()[-1]], **fixed))
    return found


TOPICS = _topics()
named = _named()


def __getattr__(name: str) -> SimpleNamespace:
    if name not in TOPICS:
        raise AttributeError(f"weft.ladder has no topic {name!r}; it has {', '.join(TOPICS)}")
    return TOPICS[name]


def __dir__() -> list[str]:
    return [*globals(), *TOPICS]
