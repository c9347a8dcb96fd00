"""Runs every test that this machine can run; ./weft test starts it once everything is set up.

Each suite prints one line with its counts and its time, and its output where something failed; then comes a table of
where the time went. The last line is the sum. The exit code is 0 only if nothing failed.

What passed is kept in .weft/results by the content of all that it depends on, and not run again until some of that
changes. --all runs everything regardless.

After an hour nothing begins that tests once more, with another tool, what has been tested: the sanitizers' builds,
planted faults, clang-tidy. The end says what there was no time for.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence

from testing import schedule
from testing.deadline import Deadline
from testing.results import Results
from testing.schedule import Done
from testing.suite import CORES, ROOT, Count, Suite
from testing.suites import sources, suites

LOGS = ROOT / ".weft" / "logs"


def say(text: str) -> None:
    """A line of its own, over the status line of a terminal."""
    print("\r\033[K" + text if sys.stdout.isatty() else text, flush=True)


def watch(names: list[str]) -> None:
    if sys.stdout.isatty() and names:
        print(f"\r\033[Krunning: {', '.join(names)}", end="", flush=True)


def report(done: Done) -> None:
    suite, count = done.suite, done.count
    if done.left_out:
        say(f"{suite.what}: not run, because {done.left_out} failed")
        return
    if not done.begun:
        say(f"{suite.what}: no time")
        return
    kept = f", {done.kept} of {done.parts} parts kept" if done.parts > 1 and done.kept else ""
    time_taken = "kept" if done.kept == done.parts and done.kept else f"{done.seconds:.0f} s{kept}"
    late = f", no time for {done.late} of {done.parts} parts" if done.late else ""
    say(f"{suite.what}: {count}{late} ({time_taken})")
    log = LOGS / f"test-{suite.name}.log"
    if count.failed:
        print("".join(log.read_text(errors="replace").splitlines(keepends=True)[-60:]))
        print(f"the whole output: {log.relative_to(ROOT)}", flush=True)
    elif suite.name in ("sizes", "costs", "coverage", "mutants") and log.exists():
        print(log.read_text().split("\n", 1)[1], end="")


def where_time_went(ended: Sequence[Done], seconds: float) -> str:
    """A row for each suite, its build beside it, the longest first. Suites ran side by side."""
    built = {
        done.suite.name.removeprefix("build-"): done.seconds
        for done in ended
        if done.suite.name.startswith("build")
    }
    if "build" in built:
        built["unit"] = built.pop("build")
    rows = []
    for done in ended:
        name = done.suite.name
        if not name.startswith("build"):
            rows.append(
                (built.pop(name, 0.0), done.seconds, f"{done.kept}/{done.parts}" if done.kept else "", name)
            )
    rows += [(took, 0.0, "", name) for name, took in built.items()]
    rows.sort(key=lambda row: -row[0] - row[1])
    lines = [f"{'suite':18} {'build s':>8} {'run s':>8} {'kept':>8}"]
    lines += [f"{name:18} {build:8.0f} {run:8.0f} {kept:>8}" for build, run, kept, name in rows]
    total = sum(row[0] + row[1] for row in rows)
    return "\n".join([*lines, f"{total:.0f} s of suites in {seconds:.0f} s"])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./weft test", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the unit suites of the release build alone")
    parser.add_argument(
        "--only", nargs="+", metavar="SUITE", help="these suites alone (or all of a kind: pytest)"
    )
    parser.add_argument(
        "--all", action="store_true", help="run what has passed before with the same inputs, too"
    )
    parser.add_argument(
        "--thorough", action="store_true", help="plant every fault, not one of each kind or a sample"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        help="begin nothing more after so many that can be left out (default: 60; of chosen suites: no end)",
    )
    parser.add_argument(
        "--after",
        type=float,
        default=0,
        metavar="SECONDS",
        help="what setting up took, a part of the minutes",
    )
    parser.add_argument("--list", action="store_true", help="name the suites and end")
    parser.add_argument("--sources", action="store_true", help="name the C++ sources and end")
    return parser.parse_args()


def named(word: str, known: list[Suite]) -> list[Suite]:
    """The suite of this name, or all of this kind: "pytest" is pytest-core and its like."""
    exactly = [suite for suite in known if suite.name == word]
    found = exactly or [suite for suite in known if suite.name.startswith(word + "-")]
    if not found:
        sys.exit(f"./weft test: no suite is named '{word}'; --list names them")
    return found


def main() -> int:
    options = parse()
    if options.sources:
        print("\n".join(sources()))
        return 0
    limit = math.inf if options.only or options.thorough or options.all else 60
    minutes = limit if options.minutes is None else options.minutes
    deadline = Deadline(60 * minutes - options.after)
    known = suites(thorough=options.thorough, deadline=deadline)
    wanted = options.only or []
    chosen = [suite for word in wanted for suite in named(word, known)] or known
    if options.quick:
        chosen = [suite for suite in chosen if suite.quick]
    if options.list:
        print("\n".join(f"{suite.name:18} {suite.what}" for suite in chosen))
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    results = Results(fresh=options.all)
    ended = schedule.run_all(
        chosen,
        CORES,
        lambda suite: schedule.run_suite(suite, results, LOGS / f"test-{suite.name}.log"),
        report,
        watch=watch,
        deadline=deadline,
    )
    total = Count()
    for done in ended:
        total += done.count
    say(where_time_went(ended, time.monotonic() - start))
    failed = [done.suite.name for done in ended if not done.passed]
    late = [done.suite.name for done in ended if done.late or not done.begun]
    if late:
        print(f"no time for all of {', '.join(late)}; go on: ./weft test --only {' '.join(late)}")
    if failed:
        print(f"failed: {', '.join(failed)}; again: ./weft test --only {' '.join(failed)}")
    print(total)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
