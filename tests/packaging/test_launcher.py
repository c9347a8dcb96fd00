"""The launcher script: what it says where nothing can be installed, and what it leaves alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What a bare root has; apt-get is not among it, as on a machine of another kind.
BARE = [
    "bash",
    "dirname",
    "readlink",
    "mkdir",
    "cat",
    "id",
    "uname",
    "sed",
    "head",
    "tail",
    "tr",
    "cut",
    "stat",
]


@pytest.fixture
def bare_machine(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A copy of the launcher, and an environment in which only the basic commands exist."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in BARE:
        (commands / name).symlink_to(shutil.which(name) or name)
    tree = tmp_path / "weft"
    tree.mkdir()
    shutil.copy(ROOT / "weft", tree)
    shutil.copytree(ROOT / "scripts" / "lib", tree / "scripts" / "lib")
    return tree, {"PATH": str(commands), "HOME": str(tmp_path)}


def launch(tree: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(tree / "weft"), *words], capture_output=True, text=True, check=False, env=environment
    )


def test_help_needs_nothing(bare_machine: tuple[Path, dict[str, str]]) -> None:
    result = launch(*bare_machine, "--help")
    assert result.returncode == 0
    assert "./weft demo" in result.stdout


def test_without_rights_it_names_the_packages(bare_machine: tuple[Path, dict[str, str]]) -> None:
    result = launch(*bare_machine, "demo")
    assert result.returncode == 1
    assert "apt-get install -y --no-install-recommends g++ cmake ninja-build" in result.stderr
    assert "weft cannot be built without g++" in result.stderr
    assert result.stdout == ""


def test_the_tests_ask_for_a_browser_too(bare_machine: tuple[Path, dict[str, str]]) -> None:
    """Without one, the report's page would go unseen."""
    asked = "the tests look at the report's page"
    assert asked in launch(*bare_machine, "test").stderr
    tree, environment = bare_machine
    assert asked not in launch(tree, environment, "demo").stderr
    (Path(environment["PATH"]) / "google-chrome").symlink_to("/bin/true")
    assert asked not in launch(tree, environment, "test").stderr


def test_nothing_is_done_twice() -> None:
    result = launch(ROOT, dict(os.environ), "setup")
    assert result.returncode == 0, result.stderr
    for step in ("system packages", "CUDA compiler", "cuBLAS headers", "configuration"):
        assert f"{step} ..." not in result.stderr
