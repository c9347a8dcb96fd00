"""Names of other kernel libraries for calls that weft's ops cover: `weft.names.gate_geglu_merged_fp8_fp16(x, scale)`.

The table `names.csv` binds each to an op, and `differs` says where results or demands are not those of the source.
`fields` are the entry's tensors in the order in which the source takes its inputs (with the dtypes that it takes;
weft's op takes more; `?`: it may be None), mostly named as the op's fields that they are. Numbers and any other keyword
of the op are given by keyword. `fixed` is what the name stands for, in the words of a case line:

- an option's value, an output's dtype, or `true` for an optional output;
- `cos=table.even`: a field is a view of a tensor (`_VIEWS`), or that tensor itself (`x=q`);
- `start=#x`: an option is the number of a tensor's tokens, its third axis from the end;
- `out=@x`: an output is the memory of a tensor (JAX: returned instead), `out=+x`: lies in memory as that tensor does;
- `out=~turned`, `out=~x`: a result is given as a view of it, or in the shape of a tensor; `out=:gate` calls it so.

A `name` is one or several names of an entry. Lines of the same name are the calls of one entry, of an op or of several,
which share its tensors: it returns the results of all of them. Lines after the first read only what `fixed` names, also
results of lines before (`out=:normed`, then `x=normed`); results whose name begins with `_` are not returned.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft._contract import Option
from weft._function import framework_of, run
from weft._op import OPS, Op

Arrays = dict[str, Any]  # an entry's tensors by name; None where one is left out


def _last(array: Any) -> Any:
    """Channels, the second axis, moved behind all others."""
    for axis in range(1, array.ndim - 1):
        array = array.swapaxes(axis, axis + 1)
    return array


def _first(array: Any) -> Any:
    """What `_last` was made of."""
    for axis in reversed(range(1, array.ndim - 1)):
        array = array.swapaxes(axis, axis + 1)
    return array


# Views by word; frameworks that have none make copies. "2of3": the second third of the last axis.
_VIEWS: dict[str, Callable[[Any], Any]] = {
    "flat": lambda array: array.reshape(-1),
    "turned": lambda array: array.swapaxes(-1, -2),
    "joined": lambda array: array.reshape(*array.shape[:-2], -1),
    "spatial": lambda array: array.reshape(*array.shape[:2], -1),
    "last": _last,
    "first": _first,
    "even": lambda array: array[..., ::2],
    "odd": lambda array: array[..., 1::2],
    "heads": lambda array: array.swapaxes(-2, -3),
    "one_head": lambda array: array.reshape(*array.shape[:-1], 1, array.shape[-1]),
    "one_sequence": lambda array: array.reshape(1, -1, *array.shape[-2:]),
    "tokens": lambda array: array.reshape(array.shape[0] * array.shape[1], -1),
    "table": lambda array: array.reshape(-1, array.shape[-1]),
    "packed": lambda array: array.reshape(-1, *array.shape[-3:]),
    "q_heads": lambda array: array[..., 0, :, :],
    "k_heads": lambda array: array[..., 1, :, :],
    "v_heads": lambda array: array[..., 2, :, :],
    "ranks": lambda array: array.swapaxes(0, 2),
    "batched": lambda array: array.reshape(1, *array.shape),
    "unbatched": lambda array: array.reshape(array.shape[1:]),
    "framed": lambda array: array.reshape(array.shape[0], 1, *array.shape[1:]),
    "unframed": lambda array: array.reshape(array.shape[0], *array.shape[2:]),
}
_PART = re.compile(r"(\d+)of(\d+)")


def viewed(array: Any, words: Sequence[str]) -> Any:
    """An array by each of the views in turn."""
    for word in words:
        if part := _PART.fullmatch(word):
            which, of = map(int, part.groups())
            size = array.shape[-1] // of
            array = array[..., (which - 1) * size : which * size]
        else:
            array = _VIEWS[word](array)
    return array


@dataclass(frozen=True)
class View:
    """One of an entry's tensors, or a view of it."""

    tensor: str
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.tensor, *self.words))

    def of(self, tensors: Mapping[str, Any]) -> Any:
        """The array that it is; None where the tensor is left out."""
        array = tensors[self.tensor]
        return None if array is None else viewed(array, self.words)


@dataclass(frozen=True)
class Given:
    """How an entry gives one of an op's results: under which name, as which view."""

    name: str
    view: str

    def of(self, result: Any, tensors: Mapping[str, Any]) -> Any:
        """The result as the entry gives it."""
        if self.view in tensors:
            return result.reshape(tensors[self.view].shape)
        return viewed(result, [self.view] if self.view else [])


@dataclass(frozen=True)
class Call:
    """One call of an op."""

    op: str
    reads: dict[str, View]  # by field
    writes: dict[str, View]  # outputs that are the memory of a tensor
    lies: dict[str, View]  # outputs whose memory is laid out as a tensor's
    counts: dict[str, View]  # options that are a tensor's number of tokens
    gives: dict[str, Given]  # results that are not given as they are
    fixed: dict[str, str]

    def __str__(self) -> str:
        words = [f"{name}={word}" for name, word in self.fixed.items()]
        words += [f"{field}={view}" for field, view in self.reads.items() if str(view) != field]
        words += [f"{field}=@{view}" for field, view in self.writes.items()]
        words += [f"{field}=+{view}" for field, view in self.lies.items()]
        words += [f"{option}=#{view}" for option, view in self.counts.items()]
        return f"weft.{self.op}({', '.join(words)})"

    def keywords(self, tensors: Arrays) -> dict[str, Any]:
        """The op's keywords that the name stands for, with these tensors."""
        options = {option.name: option for option in OPS[self.op].contract.options}
        optional = {field.name for field in OPS[self.op].contract.outputs if field.optional}
        # A plain loop: torch.compile does not trace through assignments within comprehensions.
        found: dict[str, Any] = {}
        for field, view in self.reads.items():
            array = view.of(tensors)
            if array is not None:
                found[field] = array
        for field, view in self.writes.items():
            owner = view.of(tensors)
            if getattr(framework_of(owner), "WRITES", True):
                found[field] = owner
            elif field in optional:
                found[field] = True
        for field, view in self.lies.items():
            owner = tensors[view.tensor]
            empty_like = getattr(framework_of(owner), "empty_like", None)
            if empty_like is not None:
                found[field] = viewed(empty_like(owner), view.words)
        for option, view in self.counts.items():
            found[option] = view.of(tensors).shape[-3]
        for name, word in self.fixed.items():
            if name in options:
                found[name] = value_of(options[name], word)
            elif word == "true":
                found[name] = True
            else:
                found[f"{name}_dtype"] = word
        return found

    def given(self, written: Any, tensors: Arrays) -> dict[str, Any]:
        """What the op returned, by the names under which the entry gives it."""
        first = OPS[self.op].contract.results[0].name
        fields = written._fields if isinstance(written, tuple) else (first,)  # type: ignore[attr-defined]
        by_field = dict(zip(fields, written if isinstance(written, tuple) else (written,), strict=True))
        plain = {field: Given(field, "") for field in by_field} | self.gives
        return {plain[field].name: plain[field].of(array, tensors) for field, array in by_field.items()}


@dataclass(frozen=True)
class Row:
    """One entry of the table."""

    name: str
    tensors: dict[str, str]  # dtypes by tensor
    optional: frozenset[str]
    calls: tuple[Call, ...]
    source: str
    differs: str


def value_of(option: Option, word: str) -> Any:
    """What a word of a case line is as a keyword."""
    if option.kind == "choice":
        return word
    return word == "true" if option.kind == "boolean" else type(option.default)(word)


def _pairs(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in text.split())


_WORD = re.compile(r"(?P<word>[^:~]*)(:(?P<name>\w+))?(~(?P<view>\w+))?")


def _call(line: Mapping[str, str], tensors: Mapping[str, str], before: Sequence[Call]) -> Call:
    known = {*tensors, *(given.name for call in before for given in call.gives.values())}
    reads: dict[str, View] = {}
    writes: dict[str, View] = {}
    lies: dict[str, View] = {}
    counts: dict[str, View] = {}
    gives: dict[str, Given] = {}
    fixed: dict[str, str] = {}
    for field, text in _pairs(line["fixed"]).items():
        found = _WORD.fullmatch(text)
        assert found is not None, f"{line['name']}: {field}={text}"
        word = found["word"]
        name, *views = word.lstrip("@+#").split(".")
        if found["name"] or found["view"]:
            gives[field] = Given(found["name"] or field, found["view"] or "")
        if name in known:
            {"@": writes, "+": lies, "#": counts}.get(word[0], reads)[field] = View(name, tuple(views))
        elif word:
            fixed[field] = word
    if before:
        return Call(line["op"], reads, writes, lies, counts, gives, fixed)
    read = {view.tensor for view in reads.values()}
    fields = {field.name for field in OPS[line["op"]].contract.fields}
    reads |= {name: View(name) for name in tensors if name in fields - read - reads.keys()}
    return Call(line["op"], reads, writes, lies, counts, gives, fixed)


def _entry(lines: Sequence[Mapping[str, str]]) -> Iterator[Row]:
    first = lines[0]
    pairs = _pairs(first["fields"])
    tensors = {name.removesuffix("?"): dtype for name, dtype in pairs.items()}
    optional = frozenset(name[:-1] for name in pairs if name.endswith("?"))
    calls: list[Call] = []
    for line in lines:
        calls.append(_call(line, tensors, calls))
    for name in first["name"].split():
        yield Row(name, tensors, optional, tuple(calls), first["source"], first["differs"])


def _read() -> dict[str, Row]:
    with (Path(__file__).parent / "names.csv").open(newline="", encoding="utf-8") as table:
        entries = itertools.groupby(csv.DictReader(table), key=lambda line: line["name"])
        return {row.name: row for _, lines in entries for row in _entry(list(lines))}


ROWS = _read()


_TYPES: dict[tuple[str, ...], Callable[..., Any]] = {}


def _returned(name: str, results: dict[str, Any]) -> Any:
    """One result, or several as a named tuple, whose type is made once: pytrees of equal results have equal types."""
    given = {key: array for key, array in results.items() if not key.startswith("_")}
    if len(given) == 1:
        return next(iter(given.values()))
    key = (name, *given)
    if key not in _TYPES:
        _TYPES[key] = namedtuple(name.strip("_"), tuple(given))
    return _TYPES[key](*given.values())


def _arguments(row: Row, args: Sequence[Any], kwargs: dict[str, Any]) -> Arrays:
    """The entry's tensors; those given by keyword are taken out of the keywords."""
    if len(args) > len(row.tensors):
        raise TypeError(f"{row.name}() takes {len(row.tensors)} positional arguments, got {len(args)}")
    tensors = dict.fromkeys(row.tensors) | dict(zip(row.tensors, args, strict=False))
    tensors |= {name: kwargs.pop(name) for name in row.tensors if name in kwargs}
    missing = [name for name, array in tensors.items() if array is None and name not in row.optional]
    if missing:
        raise TypeError(f"{row.name}() needs {', '.join(missing)}")
    return tensors


def _keywords_of(call: Call, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Those that a call takes: not an output that the entry gives by another name, or keeps to itself."""
    other = [field for field, given in call.gives.items() if given.name != field]
    other += [f"{field}_dtype" for field in other if call.gives[field].name.startswith("_")]
    own = OPS[call.op].defaults
    return {name: value for name, value in kwargs.items() if name in own and name not in other}


def results_of(row: Row, tensors: Arrays, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Every call in turn; all that they give, by name. A keyword goes to each call whose op has it."""
    own = [_keywords_of(call, kwargs) for call in row.calls]
    unknown = [name for name in kwargs if not any(name in taken for taken in own)]
    if unknown:
        raise TypeError(f"{row.name}() has no parameter {unknown[0]!r}")
    given: dict[str, Any] = {}
    for call, taken in zip(row.calls, own, strict=True):
        op, known = OPS[call.op], given | tensors
        given |= call.given(run(op, op.bind((), call.keywords(known) | taken)), known)
    return given


def _run(row: Row, tensors: Arrays, kwargs: dict[str, Any]) -> Any:
    if len(row.calls) > 1:
        return _returned(row.name, results_of(row, tensors, kwargs))
    (call,) = row.calls
    op: Op = OPS[call.op]
    written = run(op, op.bind((), call.keywords(tensors) | kwargs))
    return _returned(row.name, call.given(written, tensors)) if call.gives else written


def _function(row: Row) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        tensors = _arguments(row, args, kwargs)
        return _run(row, tensors, kwargs)

    differs = f" What differs: {row.differs}." if row.differs else ""
    taken = ", ".join(f"[{name}]" if name in row.optional else name for name in row.tensors)
    call.__name__ = call.__qualname__ = row.name
    call.__doc__ = f"{row.name}({taken}): {' and '.join(map(str, row.calls))}. Source: {row.source}.{differs}"
    return call


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in ROWS:
        raise AttributeError(f"weft.names has no {name!r}: names.csv lists what it has")
    function = globals()[name] = _function(ROWS[name])
    return function


def __dir__() -> list[str]:
    return [*globals(), *ROWS]
