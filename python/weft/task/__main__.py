"""weft task: one kernel against a real baseline, under rules that commands check.

A task is a folder. From nothing to a result:

  new        make the folder: spec, reference, a baseline's adapter, a candidate
  baseline   copy what is to be beaten from a git repository or a wheel, with its commit and hashes
  lock       freeze workloads, grid, tolerances, timing and flags
  check      every rule that needs no GPU: flags, fast math, streams, allocations, artefacts
  verify     is the baseline right, is the candidate, and would anybody notice if not
  bench      both sides interleaved on an idle card; --in-chain: between the ops of a model
  profile    the roofline, and Nsight Compute's counters where it is allowed
  dispatch   several candidates: the fastest of each bucket, as a table and as code
  log        ideas, and what became of them
  report     docs/results.md and a page, from the rows
  stage      exactly the files that a commit has
  done       is anything missing?
  no-go      end without a win: with numbers, an attempt, and a bound

Exit codes: 0 passed, 1 a rule is broken or a result is wrong, 2 bad usage, 3 not possible on this machine.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path

from weft.task import teach
from weft.task.outcome import ABSENT, REFUSED, USAGE, Absent, Outcome, Refusal, Usage
from weft.task.spec import Task, load

Given = argparse.Namespace
Work = Callable[[Task, Given, Outcome], None]


def _baseline(task: Task, given: Given, outcome: Outcome) -> None:
    from weft.task import source  # noqa: PLC0415 - each command loads what it needs

    if given.restore:
        source.restore(task, outcome, given.git or given.wheel)
    elif given.git or given.wheel:
        origin, contents = source.arguments(given)
        source.take(
            task, outcome, origin, contents, flags=given.upstream_flags.split(), committed=not given.no_commit
        )
    elif source.read(task):
        source.write_page(task)
    source.inspect(task, outcome)


def _lock(task: Task, given: Given, outcome: Outcome) -> None:
    from weft.task import lock  # noqa: PLC0415

    lock.lock(task, outcome, given.reason)


def _check(task: Task, given: Given, outcome: Outcome) -> None:
    from weft.task import check  # noqa: PLC0415

    check.check(task, outcome, given.compile)


def _verify(task: Task, given: Given, outcome: Outcome) -> None:
    from weft.task import verify  # noqa: PLC0415

    side, seed = task.candidate(given.candidate), given.seed or random.randrange(1 << 31)
    if given.emulator:
        verify.emulate(task, side, outcome, seed)
    else:
        verify.verify(task, side, outcome, seed)


def _bench(task: Task, given: Given, outcome: Outcome) -> None:
    side = task.candidate(given.candidate)
    if given.in_chain:
        from weft.task import chain  # noqa: PLC0415

        chain.bench(task, side, outcome, only=given.only, wait_s=given.wait_s, seed=given.seed)
    else:
        from weft.task import bench  # noqa: PLC0415

        bench.bench(task, side, outcome, only=given.only, wait_s=given.wait_s, seed=given.seed)


def _profile(task: Task, given: Given, outcome: Outcome) -> None:
    from weft.task import profile  # noqa: PLC0415

    profile.profile(task, task.candidate(given.candidate), outcome, given.only)


def _dispatch(task: Task, given: Given, outcome: Outcome) -> None:
    from weft.task import dispatch  # noqa: PLC0415

    dispatch.dispatch(task, outcome, wait_s=given.wait_s, seed=given.seed)


def _stage(task: Task, given: Given, outcome: Outcome) -> None:
    from weft.task import hygiene  # noqa: PLC0415

    hygiene.stage(task, outcome, given.add)


def _log(task: Task, given: Given, outcome: Outcome) -> None:
    from weft.task import journal  # noqa: PLC0415

    journal.log(task, outcome, given.idea, status=given.status, because=given.because, run=given.run)


def _report(task: Task, given: Given, outcome: Outcome) -> None:
    from weft.task import report  # noqa: PLC0415

    report.report(task, outcome, given.html)


def _done(task: Task, given: Given, outcome: Outcome) -> None:
    from weft.task import finish  # noqa: PLC0415

    finish.done(task, outcome)


def _no_go(task: Task, given: Given, outcome: Outcome) -> None:
    from weft.task import finish  # noqa: PLC0415

    finish.no_go(task, outcome, given.bound, given.reason)


def _add_json(parser: argparse.ArgumentParser, default: object) -> None:
    """Before the command and behind it; what stands before is not undone by what is missing behind."""
    parser.add_argument("--json", action="store_true", default=default, help="the outcome as one JSON object")


def _parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=summary, description=teach.OF[name], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_json(parser, default=argparse.SUPPRESS)
    return parser


def _new_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    new = _parser(commands, "new", "make a task's folder")
    new.add_argument("name", type=Path, help="the folder; its last part is the task's name")
    of = new.add_mutually_exclusive_group()
    of.add_argument(
        "--op", metavar="CASE", action="append", help="from a contract of weft: a case line, repeated"
    )
    of.add_argument(
        "--reference", metavar="FILE:FUNCTION", help="from a Python function that returns the outputs"
    )
    new.add_argument("--input", action="append", default=[], metavar="x=bf16[S,D]", help="an input, in order")
    new.add_argument(
        "--output", action="append", default=[], metavar="out=bf16[S,D]", help="an output, in order"
    )
    new.add_argument(
        "--row", action="append", default=[], metavar="S=4096,D=3072,source=...", help="a workload row"
    )
    new.add_argument("--tolerance", default="", metavar="atol=2e-2,rtol=1e-2", help="or: exact")
    new.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    new.add_argument(
        "--language", default="", help="of the candidate: cuda, kit, triton, cute, torch, weft, python"
    )
    new.set_defaults(work=None)


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, work: Work, summary: str
) -> argparse.ArgumentParser:
    parser = _parser(commands, name, summary)
    parser.add_argument("task", type=Path, nargs="?", default=Path(), help="its folder (default: this one)")
    parser.set_defaults(work=work)
    return parser


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="weft task", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_json(parser, default=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _new_parser(commands)
    baseline = _add(
        commands, "baseline", _baseline, "copy what is to be beaten, or look whether the copy is whole"
    )
    where = baseline.add_mutually_exclusive_group()
    where.add_argument(
        "--git", default="", metavar="URL", help="a repository, or the folder of a local clone"
    )
    where.add_argument("--wheel", default="", metavar="PACKAGE", help="an installed package, or a .whl file")
    baseline.add_argument("--branch", default="", help="of the repository (default: its own)")
    baseline.add_argument("--commit", default="", help="instead of the branch's newest")
    baseline.add_argument(
        "--file", action="append", default=[], help="a path in the repository or the wheel, repeated"
    )
    baseline.add_argument(
        "--upstream-flags", default="", help="the compiler flags that upstream builds it with"
    )
    baseline.add_argument(
        "--no-commit", action="store_true", help="commit hashes alone: licence or size forbid copies"
    )
    baseline.add_argument(
        "--restore", action="store_true", help="make the recorded copies again, and compare hashes"
    )
    _add(commands, "lock", _lock, "freeze workloads, grid, tolerances, timing and flags").add_argument(
        "--reason", default="", help="why a lock is left for a new one"
    )
    _add(commands, "check", _check, "every rule that needs no GPU").add_argument(
        "--compile", action="store_true", help="compile the CUDA sources of both sides as well (nvcc)"
    )
    verify = _add(commands, "verify", _verify, "both sides against the reference, on every row")
    verify.add_argument(
        "--emulator", action="store_true", help="a kernel on weft's kit, in the emulator on the CPU"
    )
    bench = _add(commands, "bench", _bench, "both sides, interleaved, on an idle card")
    bench.add_argument(
        "--in-chain", action="store_true", help="between the ops before and after it (chain.py)"
    )
    profile = _add(commands, "profile", _profile, "what bounds the candidate")
    dispatch = _add(commands, "dispatch", _dispatch, "the fastest candidate of each bucket")
    for command in (bench, profile):
        command.add_argument("--only", default="", help="workload rows whose name has this in it")
    for command in (bench, dispatch):
        command.add_argument(
            "--wait-s", type=float, default=None, help="for an idle card (default: [card] wait_s)"
        )
    for command in (verify, bench, profile):
        command.add_argument("--candidate", default="", help="which of several")
    for command in (verify, bench, dispatch):
        command.add_argument("--seed", type=int, default=0, help="of inputs and order (default: a new one)")
    log = _add(commands, "log", _log, "ideas and what became of them")
    log.add_argument("--idea", default="", help="what was tried, or is to be")
    log.add_argument("--status", default="open", choices=("open", "kept", "rejected"))
    log.add_argument("--because", default="", help="why it was kept or rejected")
    log.add_argument("--run", default="", help="whose rows say so")
    report = _add(commands, "report", _report, "docs/results.md from the rows")
    report.add_argument("--html", type=Path, help="a page with pictures as well")
    stage = _add(commands, "stage", _stage, "exactly the files that a commit has")
    stage.add_argument("--add", action="store_true", help="git add them")
    _add(commands, "done", _done, "is anything missing?")
    no_go = _add(commands, "no-go", _no_go, "end without a win")
    no_go.add_argument(
        "--bound", required=True, choices=("memory", "arithmetic", "launch", "latency", "other")
    )
    no_go.add_argument("--reason", required=True, help="why the bound can't be moved, in a sentence")
    return parser


def run(given: Given) -> Outcome:
    """One command, with what ended it."""
    outcome = Outcome(given.command)
    try:
        if given.command == "new":
            from weft.task import scaffold  # noqa: PLC0415

            scaffold.new(given, outcome)
        else:
            given.work(load(given.task.resolve()), given, outcome)
    except Refusal as refusal:
        if str(refusal):
            outcome.refused.append(str(refusal))
        outcome.code = REFUSED
    except Usage as usage:
        outcome.refused.append(str(usage))
        outcome.code = USAGE
    except Absent as absent:
        outcome.refused.append(str(absent))
        outcome.code = ABSENT
    return outcome


def main(words: list[str] | None = None) -> int:
    given = arguments().parse_args(words)
    outcome = run(given)
    print(outcome.json() if given.json else outcome.text())
    return outcome.code


if __name__ == "__main__":
    sys.exit(main())
