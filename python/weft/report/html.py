"""One self-contained page of all evidence: pictures and a table with filters. Plotly's JavaScript is in the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.report import climbs
from weft.report.compare import Comparison, badness, comparisons, refusal, title_of
from weft.report.rows import WHOLE, read_all

TEMPLATE = Path(__file__).with_name("page.html")


def _record(c: Comparison, gpu: str, suite: str) -> dict[str, Any]:
    ours, timed, best = c.weft, c.timed, c.best
    interval = best.get("weft_speedup", {}) if best else {}
    several = suite in WHOLE and ours is not None
    return {
        "gpu": gpu,
        "suite": suite,
        "op": c.op,
        "title": f"{c.title}, {ours['name']}" if several and ours else c.title,
        "case": c.case,
        "time": c.time,
        "cache": c.cache,
        "us": timed["us"]["median"] if timed else None,
        "p10": timed["us"]["p10"] if timed else None,
        "p90": timed["us"]["p90"] if timed else None,
        "floor_us": ours["floor_us"] if ours else 0,
        "bytes": ours["bytes"] if ours else 0,
        "share": c.share,
        "rival": title_of(best) if best else "",
        "rival_us": best["us"]["median"] if best else None,
        "ratio": c.ratio(best),
        "low": interval.get("low"),
        "high": interval.get("high"),
        "verdict": c.verdict(best) if timed else "wrong",
        "why": refusal(ours) if ours and not timed else "",
        "checked_on": ours.get("checked_on", "") if ours else "",
        "card": [f"{row['name']}, {row['us']['median']:.2f}" for row in c.card],
        "wrong": [f"{row['name']}: {refusal(row)}" for row in c.wrong],
    }


def records(folder: Path) -> list[dict[str, Any]]:
    """What the page shows, worst first."""
    entries = list(_comparisons(folder))
    entries.sort(key=lambda entry: badness(entry[0]))
    return [_record(*entry) for entry in entries]


def _comparisons(folder: Path) -> Iterator[tuple[Comparison, str, str]]:
    """Of every file but the ladder's, with its card and suite; a pipeline once for each of weft's rows."""
    for path, rows in read_all(folder):
        if path.stem == climbs.SUITE:
            continue  # rungs are nobody's rivals; docs/learn has them
        for c in comparisons(rows):
            ours = [row for row in c.all if row["side"] == "weft"] if path.stem in WHOLE else [c.weft]
            for row in ours or [None]:
                yield replace(c, weft=row), path.parent.name, path.stem


def render(folder: Path) -> str:
    """The page. Needs the package plotly."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - only this page needs it

    environments = [row for _, rows in read_all(folder) for row in rows if "run" not in row]
    data = json.dumps({"records": records(folder), "environments": environments})
    page = TEMPLATE.read_text()
    for mark, text in (("/*PLOTLY*/", get_plotlyjs()), ("/*DATA*/", data)):
        page = page.replace(mark, text.replace("</script", "<\\/script"))
    return page
