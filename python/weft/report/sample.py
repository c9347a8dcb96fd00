"""What a sample of drawn cases says: how the ratio is distributed, and which features of a case explain it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from weft.report.compare import Comparison, title_of
from weft.report.rows import geometric_mean

SUITE = "sampled"
SLOW = 0.9
_TENSOR = re.compile(r"(\w+)=([a-z]+[0-9]*(?:_\w+?)?)\[([0-9,]*)\](\{[0-9,]*\})?(\+[0-9]+)?")
_FLOATS = ("bf16", "fp16", "fp32", "fp8", "fp4", "int8", "int4")
_BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "int32": 32, "int64": 64, "fp4_e2m1": 4, "int4": 4}


@dataclass(frozen=True)
class Entry:
    """A case's ratio, and what it is a ratio to."""

    ratio: float
    rival: str
    case: Comparison


@dataclass(frozen=True)
class Distribution:
    """Of some ratios."""

    cases: int
    mean: float  # geometric
    p10: float
    under: float  # the share below SLOW

    @staticmethod
    def of(ratios: Iterable[float]) -> Distribution:
        found = sorted(ratios)
        at = 0.1 * (len(found) - 1)
        low = math.floor(at)
        p10 = found[low] + (at - low) * (found[min(low + 1, len(found) - 1)] - found[low])
        return Distribution(len(found), geometric_mean(found), p10, sum(r < SLOW for r in found) / len(found))


def entries(found: Iterable[Comparison], of_floor: bool = False) -> list[Entry]:
    """Device times with cold caches against the fastest baseline, or the floor; slowest first."""
    made = []
    for c in found:
        ratio = c.share if of_floor else c.ratio(c.best)
        if (c.time, c.cache) == ("device", "cold") and ratio:
            made.append(Entry(ratio, "the floor" if of_floor or not c.best else title_of(c.best), c))
    return sorted(made, key=lambda entry: entry.ratio)


def _dtypes(tensors: Sequence[tuple[str, str, str, str, str]], case: str) -> str:
    """What is read, and what is written: "bf16+fp32 to bf16". Scales, masks and numbers are left out."""
    floats = [
        (name, dtype) for name, dtype, shape, *_ in tensors if dtype.startswith(_FLOATS) and shape != "1"
    ]
    read = dict.fromkeys(dtype for name, dtype in floats if not name.endswith(("out", "lse")))
    written = [dtype for name, dtype in floats if name == "out"]
    shared = re.search(r"out=@(\w+)", case)
    if shared:
        written = [dtype for name, dtype in floats if name == shared[1]]
    return "+".join(read) + (f" to {written[0]}" if written and list(read) != written else "")


def _alignment(tensors: Sequence[tuple[str, str, str, str, str]]) -> str:
    if any(offset for *_, offset in tensors):
        return "some at odd addresses"
    for _, dtype, shape, *_ in tensors:
        if shape != "1" and dtype.startswith(_FLOATS):
            dim = int(shape.rsplit(",", 1)[-1] or 1)
            if dim * _BITS.get(dtype, 8) % 128:
                return "rows not of whole vectors"
    return "views of wider rows" if any(strides for *_, strides, _ in tensors) else "whole vectors, dense"


def _decade(count: float) -> str:
    for below, said in (
        (1e5, "under 0.1 MB"),
        (1e6, "0.1 to 1 MB"),
        (1e7, "1 to 10 MB"),
        (1e8, "10 to 100 MB"),
    ):
        if count < below:
            return said
    return "over 100 MB"


def features(c: Comparison) -> dict[str, str]:
    """What may explain a case's ratio."""
    tensors = _TENSOR.findall(c.case)
    ours = c.weft or {"bytes": 0, "name": ""}
    return {
        "op": c.op,
        "kernel": f"{c.op} {ours['name'].split(' ', 1)[0]}",
        "dtypes": _dtypes(tensors, c.case),
        "rows": _alignment(tensors),
        "size": _decade(ours["bytes"]),
    }


def by_feature(of: Sequence[Entry]) -> Iterator[tuple[str, str, Distribution]]:
    """Each feature's values, slowest first, with the distribution of the cases that have it."""
    described = [(features(entry.case), entry.ratio) for entry in of]
    for feature in described[0][0] if described else ():
        groups: dict[str, list[float]] = {}
        for values, ratio in described:
            groups.setdefault(values[feature], []).append(ratio)
        parts = [(value, Distribution.of(ratios)) for value, ratios in groups.items()]
        for value, part in sorted(parts, key=lambda pair: pair[1].mean):
            yield feature, value, part


def by_seed(of: Sequence[Entry]) -> Iterator[tuple[int, Distribution]]:
    """Samples of different seeds should agree."""
    groups: dict[int, list[float]] = {}
    for entry in of:
        seed = (entry.case.weft or {}).get("seed")
        if seed is not None:
            groups.setdefault(seed, []).append(entry.ratio)
    for seed, ratios in groups.items():
        yield seed, Distribution.of(ratios)


def sentence(of: Sequence[Entry], of_floor: bool) -> str:
    """The distribution in one sentence."""
    what = "the floor" if of_floor else "the best baseline of each"
    if not of:
        return f"no drawn case has {what}"
    d = Distribution.of(entry.ratio for entry in of)
    return (
        f"{d.cases} drawn cases against {what}: geometric mean {d.mean:.2f}, 10th percentile {d.p10:.2f}, "
        f"{100 * d.under:.0f} % under {SLOW:g}"
    )


def text(found: Iterable[Comparison], of_floor: bool = False) -> str:
    """All of it for a terminal."""
    of = entries(found, of_floor)
    lines = [sentence(of, of_floor)]
    for feature, value, part in by_feature(of):
        under = f"{100 * part.under:>3.0f} % under {SLOW:g}"
        lines.append(
            f"  {feature:<8}{value:<34}{part.cases:>5}  mean {part.mean:.2f}  p10 {part.p10:.2f}  {under}"
        )
    lines += ["worst:"] if of else []
    lines += [f"  {entry.ratio:.2f}  {entry.case.case}  ({entry.rival})" for entry in of[:10]]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def markdown(found: Iterable[Comparison]) -> Iterator[str]:
    """The section of docs/performance.md."""
    found = list(found)
    yield "### sampled\n"
    yield "Cases that no list names, drawn from the contracts as users have them ([measuring.md](measuring.md)).\n"
    for of_floor in (False, True):
        of = entries(found, of_floor)
        yield f"{sentence(of, of_floor)[0].upper()}{sentence(of, of_floor)[1:]}.\n"
        if not of:
            continue
        yield "| feature | value | cases | geometric mean | 10th percentile | under 0.9 |"
        yield "|---|---|---:|---:|---:|---:|"
        seeds = [("seed", str(seed), part) for seed, part in by_seed(of)]
        for feature, value, part in [*seeds, *by_feature(of)]:
            means = f"{part.mean:.2f} | {part.p10:.2f} | {100 * part.under:.0f} %"
            yield f"| {feature} | {_cell(value)} | {part.cases} | {means} |"
        yield ""
        yield "| worst | " + ("share of the floor" if of_floor else "against") + " | ratio |\n|---|---|---:|"
        for entry in of[:10]:
            name = (entry.case.weft or {"name": ""})["name"] if of_floor else entry.rival
            yield f"| `{entry.case.case}` | {_cell(name)} | {entry.ratio:.2f} |"
        yield ""
