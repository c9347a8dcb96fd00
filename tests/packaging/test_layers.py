"""What is linked into the library prints nothing, starts no process, and knows nothing of the tool and the bench."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = (
    *(f"src/{part}" for part in ("core", "io", "verify", "kit", "emulator", "sites", "binding")),
    *("include", "ops", "pipelines"),
)
# The Python package's library is beside libweft, and measures.
MEASURES = ROOT / "src/binding"
# Where dispatch is logged, which WEFT_VERBOSE asks for.
LOG = ROOT / "src/core/op.cpp"

PRINTS = re.compile(r"\b(?:fmt::print|printf|puts)\s*\(|std::(?:cout|cerr|clog)\b")
STARTS = re.compile(r"\b(?:std::)?system\s*\(|\bpopen\s*\(|\bfork\s*\(|\bexecv\w*\s*\(|\bposix_spawn")
INCLUDES_TOOL = re.compile(r'^#include "(?:cli/|pipelines/\w+/tool/)', re.MULTILINE)
INCLUDES_BENCH = re.compile(r'^#include "bench/', re.MULTILINE)


def library_sources() -> list[Path]:
    found = [path for folder in LIBRARY for path in (ROOT / folder).rglob("*")]
    return [
        path
        for path in found
        if path.suffix in {".h", ".cpp", ".cu", ".cuh"}
        and "tool" not in path.relative_to(ROOT).parts
        and not path.name.startswith("test")
    ]


def test_the_library_prints_nothing_and_starts_no_process() -> None:
    sources = library_sources()
    assert any(path.parts[-3] == "pipelines" for path in sources)
    for path in sources:
        text = path.read_text()
        assert STARTS.search(text) is None, path
        if path != LOG:
            assert PRINTS.search(text) is None, path


def test_the_library_includes_neither_the_tool_nor_the_bench() -> None:
    for path in library_sources():
        text = path.read_text()
        assert INCLUDES_TOOL.search(text) is None, path
        if MEASURES not in path.parents:
            assert INCLUDES_BENCH.search(text) is None, path


def test_the_patterns_find_what_they_are_for() -> None:
    assert PRINTS.search('fmt::print("x")') and PRINTS.search("std::cout << 1")
    assert STARTS.search("std::system(command)") and STARTS.search("popen (c, m)")
    assert INCLUDES_TOOL.search('#include "cli/pipeline.h"\n')
    assert INCLUDES_BENCH.search('#include "bench/bench.h"\n')
