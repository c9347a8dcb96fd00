"""python -m weft.bench CASE | --workload FILE | --sample OP,...: weft beside every baseline that this machine has."""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from weft._library import function, parse_case
from weft.baselines import every, state
from weft.bench._measure import Measured, Options, environment, measure
from weft.bench._warm import warm
from weft.report import sample
from weft.report.compare import comparisons, summary_text
from weft.report.rows import add_rows, read


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m weft.bench", description=__doc__)
    parser.add_argument("case", nargs="*", help="a case line")
    parser.add_argument("--workload", type=Path, help="a CSV file with a column 'case'")
    parser.add_argument(
        "--sample", metavar="OP,...", help="cases drawn from the contracts of these ops, or all"
    )
    parser.add_argument("--cases", type=int, default=20, help="of a sample: how many an op")
    parser.add_argument("--floor", action="store_true", help="of a sample: report against the floor")
    parser.add_argument(
        "--only", default="", help="of the rows those whose name has this in it, or of this op"
    )
    parser.add_argument("--against", default="", metavar="NAME,...", help="these baselines alone")
    parser.add_argument("--list", action="store_true", help="say which baselines are here, and end")
    parser.add_argument("--out", type=Path, help="append rows to this file, one JSON object a line")
    parser.add_argument("--evidence", type=Path, help="append rows to SUITE.jsonl of this folder, chained")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="the CPU only for tests")
    parser.add_argument("--implementation", default="", help="of weft: this one, not the first that accepts")
    parser.add_argument("--rounds", type=int, default=15, help="samples of each time")
    parser.add_argument("--seed", type=int, default=None, help="of inputs and order (default: a new one)")
    parser.add_argument("--budget-s", type=float, default=0, help="begin no case after so many seconds")
    parser.add_argument(
        "--warm", type=int, default=0, metavar="N", help="first compile all that is measured, in N processes"
    )
    parser.add_argument("--skip-done", type=Path, help="leave out the cases that this file has rows of")
    given = parser.parse_args(words)
    given.seed = random.randrange(1 << 31) if given.seed is None else given.seed
    if not given.list and sum(map(bool, (given.case, given.workload, given.sample))) != 1:
        parser.error("give one case line, --workload FILE, or --sample OP,...")
    return given


def drawn(given: argparse.Namespace) -> list[str]:
    """The sample's case lines."""
    ops = [] if given.sample == "all" else given.sample.split(",")
    lines: list[str] = json.loads(function("bench.draw")(json.dumps(ops), given.cases, given.seed))
    return lines


def cases(given: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Names (empty for a case by itself) and lines, without those that are done."""
    done = set()
    if given.skip_done and given.skip_done.exists():
        done = {(row.get("workload"), row.get("case")) for row in read(given.skip_done)}
    if given.case:
        yield "", " ".join(given.case)
        return
    if given.sample:
        yield from (("", line) for line in drawn(given) if (None, line) not in done)
        return
    with given.workload.open(newline="") as file:
        for row in csv.DictReader(file):
            name = f"{given.workload.stem}/{row['row']}"
            for line in filter(None, (part.strip() for part in row["case"].split(";"))):
                wanted = given.only in name or line.startswith(given.only + " ")
                if wanted and (name, parse_case(line)["case"]) not in done:
                    yield name, line


def command(given: argparse.Namespace) -> str:
    """What makes the rows again."""
    what = f"--workload {given.workload}" if given.workload else f"'{' '.join(given.case)}'"
    if given.sample:
        what = f"--sample {given.sample} --cases {given.cases}"
    words = ["python -m weft.bench", what, f"--only {given.only}" if given.only else ""]
    words += [f"--against {given.against}" if given.against else "", f"--seed {given.seed}"]
    return " ".join(filter(None, words))


def destination(given: argparse.Namespace) -> Path | None:
    if given.evidence:
        suite = sample.SUITE if given.sample else given.workload.stem if given.workload else "cases"
        return Path(given.evidence) / f"{suite}.jsonl"
    return given.out  # type: ignore[no-any-return]


def tell_absent(told: set[str], measured: Measured) -> None:
    for name, reason in measured.absent.items():
        if name not in told:
            print(f"absent: {name}: {reason}", flush=True)
            told.add(name)


def failed(line: str, workload: str, run: str, env: str, why: str) -> Measured:
    """A case that could not be measured is a result without times, like a wrong one."""
    row = {
        "run": run,
        "case": parse_case(line)["case"],
        "workload": workload or None,
        "side": "weft",
        "name": "none",
        "time": "device",
        "cache": "cold",
        "us": None,
        "samples": 0,
        "floor_us": 0,
        "bytes": 0,
        "flops": 0,
        "checked": False,
        "env": env,
        "why": why,
    }
    return Measured([row], f"{workload}  {line}\n  not measured: {why}\n")


def list_baselines(given: argparse.Namespace) -> int:
    for baseline in every():
        reason = state(baseline, given.device == "cuda")
        print(f"{baseline.name:24} {'absent: ' + reason if reason else baseline.title()}: {baseline.about}")
    return 0


def attempt(line: str, options: Options, run: str, env: str, name: str) -> tuple[Measured, bool]:
    """A case's rows, and whether an error of CUDA's ended it, after which nothing can be relied on."""
    try:
        return measure(line, options, run, env, name), False
    except ValueError as error:  # a case that weft refuses is at fault alone
        return failed(line, name, run, env, str(error)), False
    except RuntimeError as error:
        return failed(line, name, run, env, str(error)), True


def measure_all(given: argparse.Namespace) -> int:
    options = Options(
        device=given.device,
        against=tuple(filter(None, given.against.split(","))),
        rounds=given.rounds,
        seed=given.seed,
        implementation=given.implementation,
    )
    env, run, begin = environment(given.device, command(given)), uuid.uuid4().hex[:12], time.monotonic()
    path, rows, left = destination(given), [env], 0
    told: set[str] = set()
    wanted = list(cases(given))
    if given.warm:
        took = warm([line for _, line in wanted], options, given.warm)
        print(f"{len(wanted)} cases compiled in {took:.0f} s", flush=True)
    for name, line in wanted:
        if given.budget_s and time.monotonic() - begin > given.budget_s:
            left += 1
            continue
        measured, broken = attempt(line, options, run, env["env"], name)
        if given.sample:
            measured.rows = [row | {"seed": given.seed} for row in measured.rows]
        tell_absent(told, measured)
        print(measured.text, flush=True)
        if path:
            new = rows + measured.rows if rows == [env] else measured.rows
            add_rows(path, new, chained=bool(given.evidence))
        rows += measured.rows
        if broken:
            print("The card may be unusable: the others are left to another run.")
            return 2
    print(summary_text(rows))
    if given.sample:
        print(sample.text(comparisons(rows), given.floor))
    if left:
        print(f"{left} cases are left: the budget of {given.budget_s:g} s is spent")
    ours = [row for row in rows if row.get("side") == "weft"]
    return 0 if ours and all(row["checked"] for row in ours) else 1


def main(words: Sequence[str] | None = None) -> int:
    given = arguments(words)
    if given.list:
        return list_baselines(given)
    if given.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch finds no GPU here (--device cpu times the host, for tests)", file=sys.stderr)
        return 3
    return measure_all(given)


if __name__ == "__main__":
    sys.exit(main())
