"""Names of other kernel libraries for calls that weft's ops cover: `weft.names.gate_geglu_merged_fp8_fp16(x, scale)`.

The table `names.csv` binds each to an op, and `differs` says where results or demands are not those of the source.
`fields` are the entry's tensors in the order in which the source takes its inputs (with the dtypes that it takes;
weft's op takes more; `?`: it may be None), mostly named as the op's fields that they are. Behind them are numbers that
are no option of the op: `world_size=number`, or with a default, `theta_base?=10000.0`. Keywords of the op are given as
such. `fixed` is what the name stands for, in the words of a case line:

- an option's value, an output's dtype, or `true` for an optional output;
- `cos=table.even`: a field is a view of a tensor (`_views.py`), or that tensor itself (`x=q`); `q.over[world_size]`: a
  view by one of the numbers;
- `start=#x`: an option is the number of a tensor's tokens, its third axis from the end;
- `out=@x`: an output is the memory of a tensor (JAX: returned instead), `out=+x`: lies in memory as that tensor does;
- `out=~turned`, `out=~x`: a result is given as a view of it, or in the shape of a tensor; `out=:gate` calls it so;
- `makes=video_thirds`: keywords that a function of `_made.py` makes of the entry's tensors and numbers;
- `out=*out.1of3`: a result is that part of one that calls fill together (JAX: that is joined of theirs).

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
from weft._made import MAKERS
from weft._op import OPS, Op
from weft._views import BY_NUMBER, viewed

Arrays = dict[str, Any]  # an entry's tensors by name; None where one is left out


_BY_NUMBER = re.compile(r"(\w+)\[(\w+)\]")


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
        for word in self.words if array is not None else ():
            by = _BY_NUMBER.fullmatch(word)
            array = BY_NUMBER[by[1]](array, tensors[by[2]]) if by else viewed(array, [word])
        return array


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
class Part:
    """One of the parts along the last axis, all of one size, of a result that several calls fill."""

    whole: str
    word: str

    def __str__(self) -> str:
        return f"{self.whole}.{self.word}"

    @property
    def of_how_many(self) -> int:
        """The number of the parts."""
        return int(self.word.partition("of")[2])

    def of(self, array: Any) -> Any:
        """The part of an array."""
        if array.shape[-1] % self.of_how_many:
            raise ValueError(
                f"{self.whole}: expected rows of {self.of_how_many} parts, got {array.shape[-1]}"
            )
        return viewed(array, [self.word])


@dataclass(frozen=True)
class Call:
    """One call of an op."""

    op: str
    reads: dict[str, View]  # by field
    writes: dict[str, View]  # outputs that are the memory of a tensor
    lies: dict[str, View]  # outputs whose memory is laid out as a tensor's
    counts: dict[str, View]  # options that are a tensor's number of tokens
    gives: dict[str, Given]  # results that are not given as they are
    parts: dict[str, Part]  # results that are parts of one
    makes: str  # what makes further keywords, or nothing
    fixed: dict[str, str]

    def __str__(self) -> str:
        words = [f"{name}={word}" for name, word in self.fixed.items()]
        words += [f"{field}={view}" for field, view in self.reads.items() if str(view) != field]
        words += [f"{field}=@{view}" for field, view in self.writes.items()]
        words += [f"{field}=+{view}" for field, view in self.lies.items()]
        words += [f"{option}=#{view}" for option, view in self.counts.items()]
        words += [f"{field}=*{part}" for field, part in self.parts.items()]
        words += [f"makes={self.makes}"] if self.makes else []
        return f"weft.{self.op}({', '.join(words)})"

    def _arrays(self, tensors: Arrays) -> dict[str, Any]:
        """The fields that the call reads, and those that it writes where the entry says."""
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
        for field, part in self.parts.items():
            if part.whole in tensors:
                found[field] = part.of(tensors[part.whole])
        return found

    def keywords(self, tensors: Arrays) -> dict[str, Any]:
        """The op's keywords that the name stands for, with these tensors."""
        options = {option.name: option for option in OPS[self.op].contract.options}
        found = self._arrays(tensors) | (MAKERS[self.makes](tensors) if self.makes else {})
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

    def wholes(self, tensors: Arrays) -> Arrays:
        """The results that this call fills a part of, of the entry's caller or new; none where arrays are values."""
        found = {}
        for part in self.parts.values():
            like = next(iter(self.reads.values())).of(tensors)
            new = getattr(framework_of(like), "empty", None)
            if part.whole in tensors:
                found[part.whole] = tensors[part.whole]
            elif new is not None:
                found[part.whole] = new((*like.shape[:-1], part.of_how_many * like.shape[-1]), like)
        return found

    def given(self, written: Any, tensors: Arrays) -> dict[str, Any]:
        """What the op returned, by the names under which the entry gives it."""
        first = OPS[self.op].contract.results[0].name
        fields = written._fields if isinstance(written, tuple) else (first,)  # type: ignore[attr-defined]
        by_field = dict(zip(fields, written if isinstance(written, tuple) else (written,), strict=True))
        plain = {field: Given(field, "") for field in by_field} | self.gives
        for field, part in self.parts.items():
            plain[field] = Given(str(part), "")
            if part.whole in tensors:
                del by_field[field]
        return {plain[field].name: plain[field].of(array, tensors) for field, array in by_field.items()}


@dataclass(frozen=True)
class Row:
    """One entry of the table."""

    name: str
    tensors: dict[str, str]  # dtypes by tensor
    numbers: dict[str, float | None]  # defaults of those that are no option
    optional: frozenset[str]
    calls: tuple[Call, ...]
    source: str
    differs: str

    @property
    def wholes(self) -> dict[str, list[Part]]:
        """Results that calls fill together, with the parts in turn."""
        parts = [part for call in self.calls for part in call.parts.values()]
        return {part.whole: [other for other in parts if other.whole == part.whole] for part in parts}


def value_of(option: Option, word: str) -> Any:
    """What a word of a case line is as a keyword."""
    if option.kind == "choice":
        return word
    return word == "true" if option.kind == "boolean" else type(option.default)(word)


def _pairs(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in text.split())


_WORD = re.compile(r"(?P<word>[^:~]*)(:(?P<name>\w+))?(~(?P<view>\w+))?")


def _call(line: Mapping[str, str], tensors: Mapping[str, str], before: Sequence[Call]) -> Call:
    words = _pairs(line["fixed"])
    makes = words.pop("makes", "")
    known = {*tensors, *(given.name for call in before for given in call.gives.values())}
    reads: dict[str, View] = {}
    writes: dict[str, View] = {}
    lies: dict[str, View] = {}
    counts: dict[str, View] = {}
    gives: dict[str, Given] = {}
    parts: dict[str, Part] = {}
    fixed: dict[str, str] = {}
    for field, text in words.items():
        found = _WORD.fullmatch(text)
        assert found is not None, f"{line['name']}: {field}={text}"
        word = found["word"]
        name, *views = word.lstrip("@+#*").split(".")
        if found["name"] or found["view"]:
            gives[field] = Given(found["name"] or field, found["view"] or "")
        if word.startswith("*"):
            parts[field] = Part(name, views[0])
        elif name in known:
            {"@": writes, "+": lies, "#": counts}.get(word[0], reads)[field] = View(name, tuple(views))
        elif word:
            fixed[field] = word
    if before:
        return Call(line["op"], reads, writes, lies, counts, gives, parts, makes, fixed)
    read = {view.tensor for view in reads.values()}
    fields = {field.name for field in OPS[line["op"]].contract.fields}
    reads |= {name: View(name) for name in tensors if name in fields - read - reads.keys()}
    return Call(line["op"], reads, writes, lies, counts, gives, parts, makes, fixed)


def _entry(lines: Sequence[Mapping[str, str]]) -> Iterator[Row]:
    first = lines[0]
    pairs = _pairs(first["fields"])
    every = {name.removesuffix("?"): word for name, word in pairs.items()}
    tensors = {name: word for name, word in every.items() if word != "number" and not word[0].isdigit()}
    defaults = {name: word for name, word in every.items() if name not in tensors}
    numbers = {name: None if word == "number" else float(word) for name, word in defaults.items()}
    optional = frozenset(name[:-1] for name in pairs if name.endswith("?"))
    calls: list[Call] = []
    for line in lines:
        calls.append(_call(line, tensors, calls))
    for name in first["name"].split():
        yield Row(name, tensors, numbers, optional, tuple(calls), first["source"], first["differs"])


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
    """The entry's tensors and numbers; those given by keyword are taken out of the keywords."""
    names = [*row.tensors, *row.numbers]
    if len(args) > len(names):
        raise TypeError(f"{row.name}() takes {len(names)} positional arguments, got {len(args)}")
    tensors = dict.fromkeys(row.tensors) | row.numbers | dict(zip(names, args, strict=False))
    tensors |= {name: kwargs.pop(name) for name in names if name in kwargs}
    missing = [name for name, array in tensors.items() if array is None and name not in row.optional]
    if missing:
        raise TypeError(f"{row.name}() needs {', '.join(missing)}")
    return tensors


def _keywords_of(call: Call, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Those that a call takes: not an output that the entry gives by another name, or keeps to itself."""
    other = [*call.parts, *(field for field, given in call.gives.items() if given.name != field)]
    kept = [field for field in other if field in call.parts or call.gives[field].name.startswith("_")]
    other += [f"{field}_dtype" for field in kept]
    own = OPS[call.op].defaults
    return {name: value for name, value in kwargs.items() if name in own and name not in other}


def results_of(row: Row, tensors: Arrays, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Every call in turn; all that they give, by name. A keyword goes to each call whose op has it."""
    own = [_keywords_of(call, kwargs) for call in row.calls]
    wholes = row.wholes
    unknown = [name for name in kwargs if name not in wholes and not any(name in taken for taken in own)]
    if unknown:
        raise TypeError(f"{row.name}() has no parameter {unknown[0]!r}")
    given = {name: kwargs[name] for name in wholes if kwargs.get(name) is not None}
    for call, taken in zip(row.calls, own, strict=True):
        given |= call.wholes(given | tensors)
        op, known = OPS[call.op], given | tensors
        given |= call.given(run(op, op.bind((), call.keywords(known) | taken)), known)
    for name, parts in wholes.items():
        if name not in given:
            arrays = [given.pop(str(part)) for part in parts]
            framework: Any = framework_of(arrays[0])
            given[name] = framework.joined(arrays)
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
    names = [*row.tensors, *row.numbers]
    taken = ", ".join(f"[{name}]" if name in row.optional else name for name in names)
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
