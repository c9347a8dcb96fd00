"""clang-tidy over the host sources of the release build.

What was clean before is read again only when it, a header of the tree, or the configuration has changed.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
CLEAN = ROOT / ".weft" / "tidy-clean.json"
# Kernels and the emulator speak CUDA and fibers, which the checks misread; tests repeat gtest's macros.
CHECKED = re.compile(
    r"(src/(core|io|verify|bench|binding|cli)/[^/]+|(ops|pipelines)/[^/]+/(?!test)[^/]+)\.cpp"
)
HEADERS = ("include", "src", "ops", "pipelines")


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def common_key(tool: str) -> str:
    headers = sorted(path for folder in HEADERS for path in (ROOT / folder).rglob("*.h"))
    version = subprocess.run([tool, "--version"], capture_output=True, check=True).stdout
    return digest(version, (ROOT / ".clang-tidy").read_bytes(), *(path.read_bytes() for path in headers))


def sources() -> list[Path]:
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    files = {Path(entry["file"]) for entry in entries}
    return sorted(file for file in files if CHECKED.fullmatch(os.path.relpath(file, ROOT)))


def check(tool: str, file: Path) -> tuple[Path, str]:
    """One source and what must be mended in it; what is only worth a look is printed."""
    command = [
        tool,
        "-p",
        str(BUILD),
        "--quiet",
        "--extra-arg=-Wno-unknown-warning-option",
        "--extra-arg=-Wno-error",
        str(file),
    ]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if result.returncode:
        return file, result.stdout + result.stderr
    print(result.stdout, end="", flush=True)
    return file, ""


def main() -> int:
    tool = os.environ.get("CLANG_TIDY", "clang-tidy")
    common = common_key(tool)
    clean: dict[str, str] = json.loads(CLEAN.read_text()) if CLEAN.exists() else {}
    keys = {file: digest(common.encode(), file.read_bytes()) for file in sources()}
    pending = [file for file, key in keys.items() if clean.get(str(file.relative_to(ROOT))) != key]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, findings in pool.map(lambda file: check(tool, file), pending):
            name = str(file.relative_to(ROOT))
            if findings:
                failed += 1
                print(findings)
                clean.pop(name, None)
            else:
                clean[name] = keys[file]
    CLEAN.write_text(json.dumps(clean, indent=1))
    print(f"{len(keys)} sources, {len(pending)} read, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
