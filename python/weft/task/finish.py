"""weft task done and no-go: what must be there before a task ends, with a win or without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.report.rows import geometric_mean
from weft.task import (
    bench,
    chain,
    check,
    dispatch,
    fingerprint,
    hygiene,
    journal,
    lock,
    profile,
    record,
    report,
    scaffold,
    source,
    verify,
)
from weft.task.outcome import Outcome, Refusal
from weft.task.spec import Side, Task

NO_GO = "docs/no_go.md"
WORST = 0.97  # a row below is a regression, unless the dispatcher gives it to the baseline
README = "README.md"


def _missing_rows(task: Task, side: Side) -> str:
    rows = record.latest(task, side) if record.measured(task, side) else []
    timed = {c.workload for c in bench.cold(rows) if c.timed is not None and c.best is not None}
    missing = [row.name for row in task.rows if row.name not in timed]
    return f"no right times of both sides for {', '.join(missing)} in one run" if missing else ""


def _speed(task: Task, side: Side) -> str:
    """Faster on the whole, and nowhere a regression."""
    found = bench.cold(record.latest(task, side)) if record.measured(task, side) else []
    ratios = {c.workload: ratio for c in found if (ratio := c.ratio(c.best)) is not None}
    if not ratios:
        return "nothing was compared"
    mean = geometric_mean(list(ratios.values()))
    slow = [f"{name} {ratio:.3f}x" for name, ratio in ratios.items() if ratio < WORST]
    if mean <= 1:
        return (
            f"the geometric mean is {mean:.3f}x: that is no win (`weft task no-go` ends a task without one)"
        )
    return f"{', '.join(slow)}: give these rows to the baseline (`weft task dispatch`)" if slow else ""


def _dispatched(task: Task) -> str:
    """The table, the code and the rows say the same."""
    if len([s for s in task.candidates if s != dispatch.NAME]) < 2:
        return ""
    made = record.of_kind(task, "dispatch")
    if not made or made[-1]["lock"] != lock.current(task):
        return "there are several candidates, and no dispatch under this lock"
    choices = [dispatch.Choice(**{**c, "rows": tuple(c["rows"])}) for c in made[-1]["choices"]]
    code = task.folder / "solution" / fingerprint.DISPATCHER
    page = task.folder / dispatch.PAGE
    if not code.exists() or code.read_text() != dispatch.code(task, choices):
        return f"solution/{fingerprint.DISPATCHER} is not what was measured: `weft task dispatch` writes it"
    if not page.exists() or page.read_text() != dispatch.render(task, choices, made[-1]["of_run"]):
        return f"{dispatch.PAGE} is not what was measured: `weft task dispatch` writes it"
    return ""


def _profiled(task: Task, side: Side) -> str:
    now = record.stamp(task, side)
    for entry in reversed(record.of_kind(task, "profile")):
        if (
            entry["candidate"] == side.name
            and entry["lock"] == now["lock"]
            and entry["sources"] == now["sources"]
        ):
            page = task.folder / profile.PAGE
            current = page.exists() and page.read_text() == profile.render(task, side, entry)
            return "" if current else f"{profile.PAGE} is not what the rows say: `weft task profile`"
    return "no bound was named for these sources: `weft task profile`"


def _emulated(task: Task) -> str:
    missing = [
        side.name
        for side in task.candidates.values()
        if side.language == "kit" and not record.verified(task, side, verify.EMULATOR)
    ]
    return f"`weft task verify --emulator` has not passed for {', '.join(missing)}" if missing else ""


def _unsourced(task: Task) -> str:
    """Rows of nobody's model are no workload."""
    missing = [row.name for row in task.rows if row.source in ("", scaffold.UNSAID)]
    return f"{', '.join(missing)}: write each row's source into task.toml" if missing else ""


def bar(task: Task, side: Side) -> Iterator[tuple[str, str]]:
    """What a finished task has, and what is missing of it."""
    yield "the lock holds", ""  # record.stamp has asked
    yield "both sides are verified as they are", "" if record.verified(task, side) else "`weft task verify`"
    yield "kernels on weft's kit ran in the emulator", _emulated(task)
    yield "every workload row says where its shape comes from", _unsourced(task)
    yield (
        "there is a regression grid",
        ""
        if any(task.grid())
        else "task.toml has an empty [grid]: odd, small and ragged shapes belong there",
    )
    yield "every workload row has times of both sides", _missing_rows(task, side)
    yield "the bound is named", _profiled(task, side)
    in_chain = (task.folder / "chain.py").exists()
    yield (
        "the candidate was measured in its chain",
        "" if not in_chain or chain.latest(task, side) else "chain.py is there: `weft task bench --in-chain`",
    )
    yield "several candidates are dispatched by rows", _dispatched(task)
    yield (
        "ideas are on record",
        "" if journal.read(task) else "`weft task log --idea ...`: what was tried, and why",
    )
    yield "README.md says what the task is", "" if (task.folder / README).exists() else "there is none"
    yield "docs/results.md is what the rows say", report.stale(task, side)


def done(task: Task, outcome: Outcome) -> None:
    side = task.candidate()
    record.stamp(task, side)  # raises where the lock is broken
    check.check(task, outcome, compile_sources=False)
    for what, wrong in bar(task, side):
        outcome.check(what, wrong)
    if (task.folder / NO_GO).exists():
        outcome.check("it ends as a no-go, with its reason in docs/no_go.md", _no_go_problem(task, side))
    else:
        outcome.check("it is a win: faster on the whole, and nowhere slower", _speed(task, side))
    if not outcome.refused:
        outcome.note(f"{len(hygiene.to_stage(task))} files belong into the commit: weft task stage")


def _no_go_page(task: Task, end: dict[str, Any]) -> str:
    lines = [f"# No go: {task.name}", "", "Rendered by `weft task no-go`.", ""]
    lines += [f"Bound: **{end['bound']}**. {end['reason']}", ""]
    lines += [
        f"- {profile.roof_text(roof)}; the baseline needs {roof['baseline_us']:.2f} us"
        for roof in end["roofline"]
    ]
    lines += ["", "What was tried:", ""]
    lines += [f"- {entry['idea']}: {entry['because']} (run `{entry['run']}`)" for entry in end["tried"]]
    return "\n".join(lines) + "\n"


def _no_go_problem(task: Task, side: Side) -> str:
    """The page is the last no-go of what is there now."""
    now, ends = record.stamp(task, side), record.of_kind(task, "no-go")
    if not ends or any(ends[-1][key] != value for key, value in now.items()):
        return f"{NO_GO} is of other sources, or of another lock: `weft task no-go`, or remove it"
    current = (task.folder / NO_GO).read_text() == _no_go_page(task, ends[-1])
    return "" if current else f"{NO_GO} is not what the rows say: `weft task no-go`"


def no_go(task: Task, outcome: Outcome, bound: str, reason: str) -> None:
    """Ends a task without a win: only with numbers, a right attempt that was reasoned about, and a bound in figures."""
    side = task.candidate()
    source.inspect(task, outcome)
    outcome.check("there are numbers of the baseline", _missing_rows(task, side))
    tried = [e for e in journal.read(task) if e["status"] != "open" and e["because"] and e["run"]]
    right = {
        row["run"]
        for row in record.rows(task)
        if row.get("side") == "weft" and row.get("us") and "kind" not in row
    }
    reasoned = [entry for entry in tried if entry["run"] in right]
    outcome.check(
        "an attempt was right, measured and reasoned about",
        ""
        if reasoned
        else "no entry of `weft task log` names a run in which a candidate was right, with a reason",
    )
    outcome.check("the bound has figures", _profiled(task, side))
    if len(reason.split()) < 5:
        outcome.check(
            "the reason is a sentence", f"'{reason}' says too little: why can the {bound} bound not be moved?"
        )
    outcome.require()
    roofs = record.of_kind(task, "profile")[-1]["roofline"]
    named = {roof["bound"] for roof in roofs}
    if bound in ("memory", "arithmetic", "launch") and bound not in named:
        raise Refusal(f"the roofline says {', '.join(sorted(named))}, not {bound}")
    end = {"kind": "no-go", **record.stamp(task, side), "bound": bound, "reason": reason, "roofline": roofs}
    end["tried"] = [{key: entry[key] for key in ("idea", "because", "run")} for entry in reasoned]
    record.add(task, [end])
    (task.folder / NO_GO).write_text(_no_go_page(task, end))
    outcome.check(f"{NO_GO} says why, with {len(roofs)} rows of figures")
