"""The launcher script: what it says where nothing can be installed, and what it leaves alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
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


def test_setting_up_is_a_part_of_the_tests_time(bare_machine: tuple[Path, dict[str, str]]) -> None:
    tree, environment = bare_machine
    shell = Path(environment["PATH"]) / "python"
    shell.write_text('#!/bin/bash\necho "$@"\n')
    shell.chmod(0o755)
    for library in (tree / "scripts" / "lib").glob("*.sh"):
        library.write_text("")
    steps = ("ensure_packages", "ensure_cuda", "build")
    (tree / "scripts" / "lib" / "build.sh").write_text(
        f"ensure_python() {{ python='{shell}'; SECONDS=7; }}\n"
        + "".join(f"{step}() {{ :; }}\n" for step in steps)
    )
    words = launch(tree, environment, "test", "--quick").stdout.split()
    assert words[0].endswith("/scripts/run_tests.py")
    assert words[1:] in (["--after", seconds, "--quick"] for seconds in ("7", "8"))


def test_nothing_is_done_twice() -> None:
    result = launch(ROOT, dict(os.environ), "setup")
    assert result.returncode == 0, result.stderr
    for step in ("system packages", "CUDA compiler", "cuBLAS headers", "configuration"):
        assert f"{step} ..." not in result.stderr


@pytest.fixture
def shell(bare_machine: tuple[Path, dict[str, str]]) -> Callable[..., str]:
    """Runs a line of bash with the launcher's functions, on a machine whose nvidia-smi and cmake are the test's."""
    tree, environment = bare_machine
    commands = Path(environment["PATH"])
    for name in ("sort", "grep", "rm"):
        (commands / name).symlink_to(shutil.which(name) or name)
    (commands / "cmake").write_text('#!/bin/bash\necho "$@" >"$HOME/cmake"\n')
    (commands / "cmake").chmod(0o755)
    sources = "; ".join(f"source '{path}'" for path in sorted((tree / "scripts/lib").glob("*.sh")))
    names = f"root='{tree}' home='{tree}/.weft' logs='{tree}/.weft/logs'"

    def run(line: str, gpus: Sequence[str] = ()) -> str:
        smi = commands / "nvidia-smi"
        smi.unlink(missing_ok=True)
        if gpus:
            smi.write_text(f"#!/bin/bash\nprintf '%s\\n' {' '.join(gpus)}\n")
            smi.chmod(0o755)
        script = f"set -euo pipefail; {names}; mkdir -p $logs; {sources}; {line}"
        result = subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, check=False, env=environment
        )
        assert result.returncode == 0, result.stderr
        return result.stdout + result.stderr

    return run


def test_the_demo_compiles_for_the_gpu_that_is_here_alone(shell: Callable[..., str]) -> None:
    assert shell("architectures alone", gpus=["8.9"]) == "89\n"
    assert shell("architectures alone", gpus=["9.0", "9.0"]) == "90a\n"
    assert shell("architectures", gpus=["8.9"]) == "90a;89\n"
    assert shell("architectures", gpus=["9.0"]) == "90a\n"
    assert shell("architectures") == "90a\n"


def test_without_a_gpu_the_demo_asks_for_no_compiler_of_cuda(
    shell: Callable[..., str], bare_machine: tuple[Path, dict[str, str]]
) -> None:
    asked = bare_machine[0].parent / "cmake"  # $HOME/cmake
    shell("configure demo")
    assert "-DWEFT_CUDA=OFF" in asked.read_text()
    shell("configure demo", gpus=["8.9"])
    assert "-DWEFT_CUDA_ARCHITECTURES=89" in asked.read_text()
    assert "-DWEFT_CUDA=OFF" not in asked.read_text()


def test_nothing_is_built_of_a_configuration_that_failed(
    shell: Callable[..., str], bare_machine: tuple[Path, dict[str, str]]
) -> None:
    commands = Path(bare_machine[1]["PATH"])
    (commands / "ninja").write_text('#!/bin/bash\necho "$@" >>"$HOME/ninja"\n')
    (commands / "ninja").chmod(0o755)
    built = bare_machine[0].parent / "ninja"
    assert "ended with 0" in shell("build release weft && echo ended with $?")
    assert "weft" in built.read_text()
    built.unlink()
    (commands / "cmake").write_text("#!/bin/bash\nexit 3\n")
    said = shell("rm -rf $home/stamps; status=0; build release weft || status=$?; echo ended with $status")
    assert "ended with 3" in said
    assert not built.exists()


def test_a_step_says_how_long_it_took_the_last_time(shell: Callable[..., str]) -> None:
    assert "something ...\n" in shell("step something some true")
    shell("echo 163 >$home/times/some")
    assert "something ... (163 s the last time)\n" in shell("step something some true")
    # It had nothing to do this time, which is no news of how long it takes.
    assert shell("cat $home/times/some") == "163\n"
