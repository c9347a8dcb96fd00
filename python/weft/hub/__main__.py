"""python -m weft.hub FOLDER: weft as a kernel repository, which `kernels` loads from there or from the Hub."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from weft.hub._folder import libraries, write

TEXT = """
  from kernels import get_local_kernel
  weft = get_local_kernel(Path("{folder}"))

or, by the name that it will have on the Hub:

  LOCAL_KERNELS=ORG/weft={folder}  and  get_kernel("ORG/weft", revision="v{version}")
"""


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m weft.hub", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", type=int, default=1, help="the repository's, of branch vN (default: 1)")
    parser.add_argument(
        "--here-only",
        action="store_true",
        help="with a library that only this machine can load, to try it out",
    )
    given = parser.parse_args(words)
    try:
        variants = write(given.folder, given.version, given.here_only)
    except (ValueError, FileExistsError) as error:
        print(f"weft.hub: {error}", file=sys.stderr)
        return 1
    for variant in variants:
        print(f"wrote {given.folder / 'build' / variant}")
    if foreign := libraries()[1]:
        print(f"for this machine alone: the library needs {', '.join(foreign)}")
    print(TEXT.format(folder=given.folder.resolve(), version=given.version).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
