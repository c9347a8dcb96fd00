"""./weft report: checks the rows of evidence, and renders them.

With nothing else asked for it prints the tables.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from weft.report import climbs, drawings, html, markdown, steps
from weft.report.chain import lost_files
from weft.report.rows import add_rows, problems, read

ROOT = Path(__file__).resolve().parents[3]


def case_problem(line: str) -> str:
    """What is wrong with a case line, or nothing."""
    from weft._library import parse_case  # noqa: PLC0415 - the tables need no library

    try:
        parse_case(line)
    except ValueError as error:
        return f"its case is none: {str(error).splitlines()[0]}"
    return ""


def check(folder: Path) -> int:
    """Prints what is wrong with the rows of a folder; the exit code."""
    files = sorted(folder.glob("*/*.jsonl"))
    found = [problem for path in files for problem in problems(path, case_problem)] + lost_files(folder)
    print(
        "\n".join(found) or f"{sum(len(read(path)) for path in files)} rows in {len(files)} files are right"
    )
    return 1 if found else 0


def write_learn(gpu: str) -> None:
    """The ladder's tables and pictures."""
    tool = Path(os.environ.get("WEFT_TOOL", ROOT / "build" / "release" / "weft"))
    for path, text in (climbs.files(ROOT, gpu) | drawings.files(ROOT, tool)).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./weft report", description=__doc__)
    parser.add_argument("--evidence", type=Path, default=ROOT / "evidence", help="the folder of rows")
    parser.add_argument("--check", action="store_true", help="say what is wrong with any row")
    parser.add_argument(
        "--add",
        nargs=2,
        type=Path,
        metavar=("ROWS", "FILE"),
        help="append new rows to a file of evidence, chained",
    )
    parser.add_argument("--pack", type=Path, metavar="FILE", help="write a file of evidence anew, packed")
    parser.add_argument(
        "--drop-superseded", type=Path, metavar="FILE", help="drop the cases that a later run measured again"
    )
    parser.add_argument(
        "--prove",
        nargs=2,
        type=Path,
        metavar=("OLD", "FILE"),
        help="say whether FILE has all rows of OLD, as it was before one of the steps above",
    )
    parser.add_argument(
        "--docs", type=Path, nargs="?", const=ROOT / "docs" / "performance.md", help="write the tables there"
    )
    parser.add_argument(
        "--learn",
        nargs="?",
        const="h200",
        metavar="GPU",
        help="write the ladder's tables and pictures into docs/learn, of this card's evidence (h200)",
    )
    parser.add_argument("--html", type=Path, help="write one page with pictures and filters there")
    given = parser.parse_args()
    if given.add:
        source, target = given.add
        add_rows(target, read(source), chained=True)
        return check(target.parent.parent)
    if given.prove:
        old, file = given.prove
        wrong = steps.proof_problems(old.read_bytes(), file)
        print(f"{file}: {wrong or 'has every row of ' + str(old) + ' but those that the step names'}")
        return 1 if wrong else 0
    if given.pack:
        steps.repack(given.pack)
        return check(given.pack.parent.parent)
    if given.drop_superseded:
        print(f"{steps.drop_superseded(given.drop_superseded)} cases of earlier runs were dropped")
        return check(given.drop_superseded.parent.parent)
    if given.docs:
        given.docs.write_text(markdown.render(given.evidence))
    if given.html:
        given.html.write_text(html.render(given.evidence))
    if given.learn:
        write_learn(given.learn)
    if given.check:
        return check(given.evidence)
    if not given.docs and not given.html and not given.learn:
        print(markdown.render(given.evidence))
    return 0


if __name__ == "__main__":
    sys.exit(main())
