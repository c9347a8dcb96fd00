"""weft skill: puts weft's skill, SKILL.md with its references, where coding agents look for skills.

Run as a file it needs Python alone, so that nothing has to be built for it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "weft"
# Where agents look, in a project and in a home alike; the first is the one that most of them share.
FOLDERS = {"agents": ".agents/skills", "claude": ".claude/skills"}
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")


def standing_alone(text: str, folder: Path) -> str:
    """A page whose links lead to what is installed with it; of the others, the words stay."""

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        path = target.partition("#")[0]
        there = re.match(r"[a-z]+:", target) or not path or (folder / path).is_file()
        return match[0] if there else str(words)

    return LINK.sub(link, text)


def add(into: Path) -> Path:
    """Installs the skill; one that is there is replaced."""
    skill = into / NAME
    shutil.rmtree(skill, ignore_errors=True)
    (skill / "references").mkdir(parents=True)
    shutil.copyfile(HERE / "SKILL.md", skill / "SKILL.md")
    for page in sorted((HERE / "references").glob("*.md")):
        shutil.copyfile(page, skill / "references" / page.name)
    for page in skill.rglob("*.md"):
        page.write_text(standing_alone(page.read_text(), page.parent))
    return skill


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="weft skill", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add", help="install it, or bring what is installed up to date")
    adding.add_argument(
        "--global", dest="everywhere", action="store_true", help="for all of this user's projects"
    )
    adding.add_argument(
        "--for", dest="agent", default="agents", choices=FOLDERS, help="whose folder (default: agents)"
    )
    adding.add_argument("--into", type=Path, help="a folder of skills, instead of those")
    given = parser.parse_args(words)
    base = Path.home() if given.everywhere else Path.cwd()
    into = given.into or base / FOLDERS[given.agent]
    print(f"added {add(into.resolve())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
