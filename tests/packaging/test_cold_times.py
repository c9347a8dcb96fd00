"""scripts/cold-times: each step starts from nothing, and its seconds are those of all that it starts."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    loader = SourceFileLoader("cold_times", str(ROOT / "scripts" / "cold-times"))
    spec = importlib.util.spec_from_loader("cold_times", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cold_times"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


cold_times = load()
# A step that fails where something of an earlier one is left, works half a second in a child, and leaves things.
WORK = """
[ ! -e build ] && [ ! -e "$CCACHE_DIR" ] || exit 9
mkdir build "$CCACHE_DIR"
python3 -c 'import time
while time.process_time() < 0.5: pass'
echo done
"""


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    steps = {"work": ["bash", "-c", WORK], "fail": ["bash", "-c", "echo what is wrong; exit 3"]}
    monkeypatch.setattr(cold_times, "STEPS", steps)
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree", tmp_path / "ccache", tmp_path / "log"


def test_a_step_starts_from_nothing(trees: tuple[Path, Path, Path]) -> None:
    tree, cache, log = trees
    for _ in range(2):
        timing = cold_times.run("work", tree, cache, log)
        assert timing.status == 0, "the build folder or the cache of an earlier step was there"
        assert log.read_text() == "done\n"


def test_the_seconds_of_children_count(trees: tuple[Path, Path, Path]) -> None:
    timing = cold_times.run("work", *trees)
    assert 0.5 <= timing.processor_s < timing.seconds + 0.5
    assert timing.others >= 0


def test_a_failure_is_said(trees: tuple[Path, Path, Path]) -> None:
    timing = cold_times.run("fail", *trees)
    assert timing.status == 3
    assert cold_times.row(timing).endswith("FAILED (3)")
    assert trees[2].read_text() == "what is wrong\n"


def test_every_step_is_a_command_of_the_launcher() -> None:
    launcher = (ROOT / "weft").read_text()
    for words in cold_times.STEPS.values():
        assert words[0] == "./weft"
        assert f"        {words[1]})\n" in launcher, words


@pytest.mark.skipif(not (ROOT / "build/release/compile_commands.json").exists(), reason="no release build")
def test_ccache_sees_each_path_of_the_checkout_that_a_compiler_is_given() -> None:
    """A path within a word stays absolute, and then no other checkout finds the object."""
    for entry in json.loads((ROOT / "build/release/compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        assert not [word for word in words if word.startswith("-isystem=")], entry["file"]
