"""An installed weft serves a program that knows nothing of this tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path) -> str:
    result = subprocess.run(list(command), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", ROOT / "build" / "release", "--prefix", folder)
    return folder


def test_a_program_builds_on_the_package_and_runs(prefix: Path, tmp_path: Path) -> None:
    source = ROOT / "examples" / "find_package"
    run("cmake", "-G", "Ninja", "-S", source, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    sums, error = run(tmp_path / "example").splitlines()
    assert sums.split() == ["11", "22", "33", "44", "55", "66"]
    assert "residual_add" in error


def test_the_installed_headers_hold_no_path_of_the_tree(prefix: Path) -> None:
    for file in [*prefix.rglob("*.h"), *prefix.rglob("*.cmake")]:
        assert str(ROOT) not in file.read_text(), file


def test_every_op_header_is_installed(prefix: Path) -> None:
    for folder in sorted((ROOT / "ops").iterdir()):
        if (folder / f"{folder.name}.h").exists():
            header = f"ops/{folder.name}/{folder.name}.h"
            assert (prefix / "include" / "weft" / header).exists()
            assert f'"{header}"' in (prefix / "include" / "weft" / "ops.h").read_text()


def test_the_installed_tool_finds_its_library(prefix: Path) -> None:
    assert "residual_add" in run(prefix / "bin" / "weft", "list")
