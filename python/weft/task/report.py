"""weft task report: docs/results.md from the rows, and a page with pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.report.compare import Comparison, refusal
from weft.report.pack import Row
from weft.report.rows import geometric_mean
from weft.task import dispatch, journal, record, source
from weft.task.bench import cold, headline, pairs
from weft.task.chain import latest, verdicts
from weft.task.outcome import Outcome, Refusal
from weft.task.profile import roof_text, roofline
from weft.task.spec import Side, Task

PAGE = "docs/results.md"
TEMPLATE = Path(__file__).with_name("page.html")


def attempts(task: Task, side: Side) -> list[dict[str, Any]]:
    """Every run of a candidate, oldest first: what it was of, and what it reached."""
    runs: dict[str, list[Row]] = {}
    for row in record.measured(task, side, anywhere=True):
        runs.setdefault(row["run"], []).append(row)
    now = record.stamp(task, side)
    dates = {row["env"]: row["date"] for row in record.rows(task) if "env" in row and "run" not in row}
    found = []
    for run, rows in runs.items():
        ratios = [ratio for c in cold(rows) if (ratio := c.ratio(c.best)) is not None]
        stamp = rows[0]
        found.append(
            {
                "run": run,
                "date": dates.get(stamp["env"], ""),
                "lock": stamp["lock"],
                "sources": stamp["sources"].get(side.name, ""),
                "mean": geometric_mean(ratios) if ratios else None,
                "worst": min(ratios, default=None),
                "rows": len(ratios),
                "refused": sorted(
                    {row["why"] for row in rows if row["us"] is None and row["side"] == "weft"}
                ),
                "of": ""
                if stamp["lock"] != now["lock"]
                else ("current" if stamp["sources"] == now["sources"] else "other sources"),
            }
        )
        if not found[-1]["of"]:
            found[-1]["of"] = "another lock"
    return found


def _us(row: Row | None) -> str:
    return "-" if row is None or row["us"] is None else f"{row['us']['median']:.2f}"


def _span(row: Row | None) -> str:
    return "-" if row is None or row["us"] is None else f"{row['us']['p10']:.2f}-{row['us']['p90']:.2f}"


def _rows_table(rows: list[Row]) -> Iterator[str]:
    others = {(c.title, c.time, c.cache): c for c in pairs(rows)}
    yield "| row | baseline us | p10-p90 | candidate us | p10-p90 | speedup | verdict | hot | eager | floor | TB/s |"
    yield "|---|---:|---|---:|---|---:|---|---:|---:|---:|---:|"

    def ratio(c: Comparison | None) -> str:
        value = c.ratio(c.best) if c else None
        return f"{value:.3f}" if value is not None else "-"

    for c in cold(rows):
        share = f"{100 * c.share:.0f} %" if c.share else "-"
        rate = f"{c.timed['bytes'] / c.timed['us']['median'] * 1e-6:.2f}" if c.timed else "-"
        verdict = c.verdict(c.best) or (refusal(c.weft) if c.weft and not c.timed else "-")
        hot, eager = others.get((c.title, "device", "hot")), others.get((c.title, "eager", "hot"))
        yield (
            f"| {c.title} | {_us(c.best)} | {_span(c.best)} | {_us(c.timed)} | {_span(c.timed)} | {ratio(c)} | "
            f"{verdict} | {ratio(hot)} | {ratio(eager)} | {share} | {rate} |"
        )


def _noise(rows: list[Row]) -> str:
    """The baseline against itself: what a difference means nothing below."""
    found = []
    for c in cold(rows):
        again = next((r for r in c.all if r["side"] == "noise"), None)
        first = next(
            (r for r in c.all if again and r["side"] == "baseline" and r["name"] == again["name"]), None
        )
        if again and first:
            found.append(abs(again["us"]["median"] / first["us"]["median"] - 1))
    return (
        f"{100 * max(found):.1f} % at most over {len(found)} rows; the faster counts"
        if found
        else "not measured"
    )


def _environment(task: Task, rows: list[Row]) -> Iterator[str]:
    env = next(r for r in record.rows(task) if r.get("env") == rows[-1]["env"] and "run" not in r)
    libraries = ", ".join(f"{name} {version}" for name, version in env["libraries"].items())
    yield f"- {env['gpu']}, driver {env['driver']}, CUDA {env['cuda']}; {libraries}; {env['date'][:10]}"
    yield f"- flags: {env['flags']}"
    yield f"- made by `{env['command']}`"
    for state in record.of_kind(task, "state"):
        if state["of_run"] == rows[-1]["run"]:
            told = {k: v for k, v in state.items() if k not in ("kind", "of_run", "lock", "when")}
            yield f"- the card {state['when']}: {json.dumps(told)}"


def outcome_line(task: Task, side: Side, rows: list[Row]) -> str:
    if (task.folder / "docs" / "no_go.md").exists():
        return f"**No go**: {headline(cold(rows))}. docs/no_go.md says what bounds it."
    return f"**{headline(cold(rows))}**, device time with cold caches."


def render(task: Task, side: Side) -> str:
    rows = record.latest(task, side) if record.measured(task, side) else []
    if not rows:
        raise Refusal(f"there are no times of {side.name} under this lock: `weft task bench` first")
    verified = record.verified(task, side)
    counts = (
        ", ".join(f"{name} {count} rows" for name, count in verified["rows"].items())
        if verified
        else "not now"
    )
    stamp = record.stamp(task, side)
    lines = [
        f"# Results of {task.name}",
        "",
        "Rendered by `weft task report` from `bench/evidence.jsonl`.",
        "",
    ]
    lines += [outcome_line(task, side, rows), ""]
    lines += [str(task.raw["task"].get("about", "")), ""] if task.raw["task"].get("about") else []
    lines += [
        f"- candidate: {side.name} ({side.language}); baseline: {source.title(source.read(task))}",
        f"- verified: {counts}, two poisons each, guards, inputs, special values, one element off",
        f"- the baseline against itself: {_noise(rows)}",
        f"- lock `{stamp['lock']}`, run `{rows[-1]['run']}`, sources {stamp['sources']}",
        "",
        *_rows_table(rows),
        "",
        "## Bound",
        "",
        *(f"- {roof_text(roof)}" for roof in roofline(rows)),
        "",
        *_chain(task, side),
        *_history(task, side),
        "## Provenance",
        "",
        *_environment(task, rows),
    ]
    return "\n".join(lines) + "\n"


def _chain(task: Task, side: Side) -> Iterator[str]:
    rows = latest(task, side)
    if rows:
        yield "## In a chain"
        yield ""
        yield from (f"-{line}" for line in verdicts(rows))
        yield ""


def _history(task: Task, side: Side) -> Iterator[str]:
    yield "## Attempts"
    yield ""
    yield "| run | date | of | rows | geometric mean | worst | refused |"
    yield "|---|---|---|---:|---:|---:|---|"
    for a in attempts(task, side):
        mean = f"{a['mean']:.3f}" if a["mean"] else "-"
        worst = f"{a['worst']:.3f}" if a["worst"] else "-"
        yield (
            f"| `{a['run']}` | {a['date'][:16]} | {a['of']} | {a['rows']} | {mean} | {worst} | "
            f"{'; '.join(a['refused'])[:160] or '-'} |"
        )
    yield ""
    ideas = journal.read(task)
    if ideas:
        yield "## Ideas"
        yield ""
        for i in ideas:
            rows = f" (run `{i['run']}`)" if i["run"] else ""
            yield f"- **{i['status']}** {i['idea']}: {i['because'] or 'open'}{rows}"
        yield ""


def html(task: Task, side: Side) -> str:
    """One page with the rows, and every attempt as a point. Needs the package plotly."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - only this page needs it

    rows = record.latest(task, side)
    data = {
        "name": task.name,
        "headline": headline(cold(rows)),
        "rows": [
            {
                "row": c.title,
                "baseline": c.best["us"] if c.best else None,
                "candidate": c.timed["us"] if c.timed else None,
                "floor": c.timed["floor_us"] if c.timed else 0,
                "ratio": c.ratio(c.best),
                "verdict": c.verdict(c.best),
            }
            for c in cold(rows)
        ],
        "attempts": attempts(task, side),
        "ideas": journal.read(task),
        "dispatch": [row["choices"] for row in record.of_kind(task, "dispatch")][-1:],
    }
    page = TEMPLATE.read_text()
    for mark, text in (("/*PLOTLY*/", get_plotlyjs()), ("/*DATA*/", json.dumps(data))):
        page = page.replace(mark, text.replace("</script", "<\\/script"))
    return page


def stale(task: Task, side: Side) -> str:
    """Is docs/results.md what the rows say now?"""
    path = task.folder / PAGE
    if not path.exists():
        return f"there is no {PAGE}: `weft task report`"
    try:
        current = path.read_text() == render(task, side)
    except Refusal as refusal:
        return str(refusal)
    return "" if current else f"{PAGE} is not what the rows say: `weft task report`"


def report(task: Task, outcome: Outcome, page: Path | None) -> None:
    side = task.candidate()
    (task.folder / PAGE).write_text(render(task, side))
    outcome.check(f"{PAGE} is rendered from {len(record.latest(task, side))} rows")
    if page:
        page.write_text(html(task, side))
        outcome.check(f"{page} shows rows and attempts")
    outcome.note(headline(cold(record.latest(task, side))))
    if task.raw.get("dispatch") and not (task.folder / dispatch.PAGE).exists():
        outcome.note("task.toml has buckets, but nothing was dispatched yet")
