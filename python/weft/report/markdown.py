"""Tables in Markdown, rendered from rows of evidence: docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from weft.report import climbs, models, sample
from weft.report.chain import heads
from weft.report.compare import Comparison, comparisons, refusal, summary, title_of, worst_first
from weft.report.pack import Row
from weft.report.rows import read_all

HEAD = """# Performance

This page is rendered from the rows of `evidence/` by `./weft report --docs`; a test renders it again and compares.
Every time is a median of checked results: the outputs passed the reference before and after timing. How the times are
taken, and what is refused one, is in [measuring.md](measuring.md). Tables of different cards, or of different runs,
are not to be compared.

- **cold**, **hot**: operands rotate over three times the L2 cache, or stay the same; device time of calls in one CUDA
  Graph. **eager**: calls from the host, binding and launch included. Microseconds a call.
- **floor**: the share that is reached of the least possible time: each operand moved once at the card's measured
  bandwidth, or the arithmetic at its measured rate.
- **speedup**: the fastest baseline's cold device time over weft's. It is a win or a loss only where the p10-p90
  intervals of both have nothing in common; otherwise both are level. The worst rows come first, and none is left out.
  Where no baseline ran, the card's own copy and read of the same bytes stand in its place. A baseline that rounds in
  between stores what its framework's own operators would store between two steps, and is right as far as that goes.
"""


def _us(row: Row | None) -> str:
    if row is None or row["us"] is None:
        return "-"
    median = row["us"]["median"]
    return f"{median:.2f}" if median < 1000 else f"{median:.0f}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _line(cold: Comparison, others: dict[tuple[str, str], Comparison]) -> str:
    def other(time: str, cache: str) -> str:
        found = others.get((time, cache))
        return _us(found.timed if found else None)

    share = f"{100 * cold.share:.0f} %" if cold.share else "-"
    ratio = cold.ratio(cold.best)
    if cold.weft is not None and cold.timed is None:
        rival, speedup = refusal(cold.weft), "-"
    else:
        fastest = [cold.best] if cold.best else cold.card
        rival = ", ".join(f"{title_of(row)} {_us(row)}" for row in fastest) or "none applies"
        speedup = f"{ratio:.2f} {cold.verdict(cold.best)}" if ratio is not None else "-"
    name = f"`{cold.title}`"
    times = f"{_us(cold.timed)} | {other('device', 'hot')} | {other('eager', 'hot')}"
    return f"| {name} | {times} | {share} | {_cell(rival)} | {speedup} |"


def _suite(name: str, found: list[Comparison]) -> Iterator[str]:
    others: dict[tuple[str, str, str | None], dict[tuple[str, str], Comparison]] = {}
    for c in found:
        others.setdefault((c.run, c.case, c.workload), {})[(c.time, c.cache)] = c
    cold = worst_first(c for c in found if (c.time, c.cache) == ("device", "cold"))
    yield f"### {name}\n"
    yield summary(cold) + ".\n"
    yield "| case | cold | hot | eager | floor | fastest baseline, cold | speedup |"
    yield "|---|---:|---:|---:|---:|---|---:|"
    yield from (_line(c, others[(c.run, c.case, c.workload)]) for c in cold)
    yield ""


def _pipelines(found: list[Comparison]) -> Iterator[str]:
    """All that ran beside each other in a run: a pipeline's precisions are no rivals of each other."""
    yield "### pipelines\n"
    yield "| pipeline | what ran | ms | p10-p90 | floor |"
    yield "|---|---|---:|---|---:|"
    for c in found:
        for row in sorted([*c.all], key=lambda row: float(row["us"]["median"])):
            us = row["us"]
            share = f"{100 * row['floor_us'] / us['median']:.0f} %" if row["floor_us"] else "-"
            span = f"{us['p10'] / 1000:.3f}-{us['p90'] / 1000:.3f}"
            yield f"| `{c.title}` | {_cell(row['name'])} | {us['median'] / 1000:.3f} | {span} | {share} |"
    yield ""


def _environments(rows: Iterable[Row], used: set[str]) -> Iterator[str]:
    yield "Measured in:\n"
    for env in rows:
        if "run" in env or env["env"] not in used:
            continue
        libraries = ", ".join(f"{name} {version}" for name, version in env["libraries"].items())
        dirty = " with changes" if env["dirty"] else ""
        yield (
            f"- `{env['env']}`: {env['gpu']}, driver {env['driver']}, CUDA {env['cuda']}, {libraries}; commit "
            f"`{str(env['commit'])[:12]}`{dirty}, {env['date'][:10]}; {env['flags']}; made by `{env['command']}`"
        )
    yield ""


def render(folder: Path) -> str:
    """The page for an evidence folder."""
    parts = [HEAD]
    for gpu, files in groupby(read_all(folder), key=lambda entry: entry[0].parent.name):
        parts.append(f"## {gpu.upper()}\n")
        for path, rows in files:
            found = comparisons(rows)
            head = heads(folder).get(f"{gpu}/{path.name}", {})
            if path.stem == climbs.SUITE:
                parts.append(f"### {climbs.SUITE}\n\nIts tables are in [learn/climbs.md](learn/climbs.md).\n")
            elif path.stem == sample.SUITE:
                parts += sample.markdown(found)
            elif path.stem == models.SUITE:
                parts += models.markdown(found)
            else:
                parts += _pipelines(found) if path.stem == "pipelines" else _suite(path.stem, found)
            parts.append(f"`{gpu}/{path.name}`: {head.get('lines')} lines, chain `{head.get('chain')}`.\n")
            parts += _environments(rows, {c.env for c in found})
    return "\n".join(parts).rstrip("\n") + "\n"
