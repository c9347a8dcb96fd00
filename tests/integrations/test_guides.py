"""The pages that users see first say what the library says, and what they show runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.conftest import TOOL
from tests.paths import PYTHON_PATH, ROOT

SKILL = ROOT / "python" / "weft" / "skill"
GUIDE = ROOT / "docs" / "integrate.md"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def run(*words: str | Path, **environment: str) -> str:
    given = (
        os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": PYTHON_PATH, "WEFT_TOOL": str(TOOL)} | environment
    )
    command = [str(word) for word in words]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def commands(tmp_path: Path) -> str:
    """A PATH on which `weft` and `python` are those under test."""
    for name, program in (("weft", TOOL), ("python", Path(sys.executable))):
        # Not a link: Python finds its packages by the place of the file that was started.
        (tmp_path / name).write_text(f'#!/bin/sh\nexec "{program}" "$@"\n')
        (tmp_path / name).chmod(0o755)
    return f"{tmp_path}{os.pathsep}{os.environ['PATH']}"


def test_the_page_of_gpus_is_current() -> None:
    run(ROOT / "scripts/gpu-page", "--check")


def test_the_guides_examples_run(tmp_path: Path, commands: str) -> None:
    """All of one process, in their order."""
    (written,) = [block for block in blocks(GUIDE, "sh") if "weft.hub" in block]
    folder = tmp_path / "repository"
    run("bash", "-ec", written.strip().replace("FOLDER", f"{folder} --here-only"), PATH=commands)
    run(sys.executable, "-c", "\n".join(blocks(GUIDE, "python")), WEFT_HUB_FOLDER=str(folder))


def test_the_guide_knows_every_module_that_is_replaced() -> None:
    pytest.importorskip("diffusers")
    import weft.diffusers  # noqa: PLC0415
    import weft.transformers  # noqa: PLC0415

    recipes = (*weft.transformers.recipes("fused"), *weft.diffusers.RECIPES)
    targets = [
        target if isinstance(target, str) else target.__qualname__ for r in recipes for target in r.targets
    ]
    names = {name.rpartition(".")[2] for name in targets}
    rows = re.findall(r"^\|(.*?)\| (?:transformers|diffusers) \|", GUIDE.read_text(), re.MULTILINE)
    table = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert table == names


def test_the_skills_commands_run(commands: str) -> None:
    told = run("bash", "-ec", "\n".join(blocks(SKILL / "SKILL.md", "sh")), PATH=commands)
    assert "compute capability 8.0" in told
    assert "0 of weft's results wrong" in told
    run(sys.executable, "-c", "\n".join(blocks(SKILL / "SKILL.md", "python")))


def test_the_skill_is_one_that_agents_read() -> None:
    head = re.match(r"---\n(.*?)\n---\n", (SKILL / "SKILL.md").read_text(), re.DOTALL)
    assert head is not None
    fields = dict(line.split(": ", 1) for line in head[1].splitlines())
    assert fields["name"] == "weft"
    assert 0 < len(fields["description"]) <= 1024


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ((), "project/.agents/skills"),
        (("--for", "claude"), "project/.claude/skills"),
        (("--global",), "home/.agents/skills"),
        (("--into", "mine"), "project/mine"),
    ],
)
def test_the_skill_is_added(words: tuple[str, ...], place: str, tmp_path: Path) -> None:
    for name in ("project", "home"):
        (tmp_path / name).mkdir()
    add = f"cd {tmp_path}/project && {ROOT}/weft skill add {' '.join(words)}"
    for _ in range(2):  # again: it is replaced
        assert place in run("bash", "-ec", add, HOME=str(tmp_path / "home"))
    skill = tmp_path / place / "weft"
    pages = {path.relative_to(skill) for path in skill.rglob("*") if path.is_file()}
    assert pages == {
        Path("SKILL.md"),
        *(Path("references") / page.name for page in (SKILL / "references").iterdir()),
    }
    for page in pages:
        for target in re.findall(r"\]\(([^)\s#:]+)", (skill / page).read_text()):
            assert ((skill / page).parent / target).is_file(), f"{page}: {target} leads nowhere"
