"""How rows lie in a file of evidence: one line holds a case of a run, with the times of every side.

In memory a row is one time of one side (weft.report.rows). On disk what the rows of a measured case have in common is
written once:

    {"run": ..., "case": ..., "workload": ..., "floor_us": ..., "bytes": ..., "flops": ..., "env": ...,
     "sides": [{"side": "weft", "name": ..., "checked": true,
                "times": {"device cold": {"us": [median, mean, std, min, p10, p90], "samples": 15}, ...}}, ...]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Row = dict[str, Any]

STATISTICS = ("median", "mean", "std", "min", "p10", "p90")
_RATIO = ("ratio", "low", "high")
_TIMED = ("us", "samples", "weft_speedup", "dropped", "power_capped", "sm_mhz")  # of one time
_SIDE = ("side", "name", "checked", "why", "rounds_between", "error")  # of all times of a side
_AT = ("time", "cache")


def _listed(value: Any, names: tuple[str, ...]) -> Any:
    """An object of these very fields as a list; anything else as it is."""
    return [value[name] for name in names] if isinstance(value, dict) and set(value) == set(names) else value


def _named(value: Any, names: tuple[str, ...]) -> Any:
    return (
        dict(zip(names, value, strict=True))
        if isinstance(value, list) and len(value) == len(names)
        else value
    )


def _part(row: Row, names: tuple[str, ...]) -> Row:
    return {name: row[name] for name in names if name in row}


def pack(rows: Iterable[Row]) -> Iterator[Row]:
    """Lines of rows that follow each other; a row of another kind (an environment) is a line by itself."""
    open_line: Row | None = None
    for row in rows:
        if "time" not in row or "cache" not in row:
            if open_line is not None:
                yield open_line
            open_line = None
            yield row
            continue
        side, timed = _part(row, _SIDE), _part(row, _TIMED)
        common = {name: row[name] for name in row if name not in (*_SIDE, *_TIMED, *_AT, "chain")}
        if "us" in timed:
            timed["us"] = _listed(timed["us"], STATISTICS)
        if "weft_speedup" in timed:
            timed["weft_speedup"] = _listed(timed["weft_speedup"], _RATIO)
        if open_line is None or {k: v for k, v in open_line.items() if k != "sides"} != common:
            if open_line is not None:
                yield open_line
            open_line = {**common, "sides": []}
        at, sides = f"{row['time']} {row['cache']}", open_line["sides"]
        last = sides[-1] if sides else {"times": {}}
        if {k: v for k, v in last.items() if k != "times"} != side or at in last["times"]:
            sides.append({**side, "times": {}})
        sides[-1]["times"][at] = timed
    if open_line is not None:
        yield open_line


def unpack(line: Row) -> Iterator[Row]:
    """The rows of a line. Raises ValueError for one that `pack` does not write."""
    if "sides" not in line:
        yield {name: value for name, value in line.items() if name != "chain"}
        return
    common = {name: value for name, value in line.items() if name not in ("sides", "chain")}
    try:
        for side in line["sides"]:
            own = {name: value for name, value in side.items() if name != "times"}
            for at, timed in side["times"].items():
                time, cache = at.split(" ")
                row = {**common, **own, "time": time, "cache": cache, **timed}
                row["us"] = _named(row["us"], STATISTICS)
                if "weft_speedup" in row:
                    row["weft_speedup"] = _named(row["weft_speedup"], _RATIO)
                yield row
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"is no packed row: {type(error).__name__}: {error}") from error
