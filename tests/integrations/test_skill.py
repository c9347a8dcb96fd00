"""What weft skill installs, and where: by itself, and run as a file, which needs Python alone."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from weft.skill import __main__ as skill


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see [it](there.md), [both](there.md)", "see [it](there.md), [both](there.md)"),
        ("[a part](there.md#part)", "[a part](there.md#part)"),
        ("[this page](#part)", "[this page](#part)"),
        ("[a site](https://example.org/gone.md)", "[a site](https://example.org/gone.md)"),
        ("[a page](gone.md) and [its part](gone.md#part)", "a page and its part"),
        ("[a folder](folder)", "a folder"),
        ("[](gone.md) [words] (gone.md)", " [words] (gone.md)"),
    ],
)
def test_links_lead_to_what_is_installed(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "there.md").touch()
    (tmp_path / "folder").mkdir()
    assert skill.standing_alone(text, tmp_path) == expected


def test_all_pages_are_installed_and_nothing_else_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    (own / "references").mkdir(parents=True)
    (own / "SKILL.md").write_text("[one](references/one.md) [other](../other.md)")
    (own / "references" / "one.md").write_text("[back](../SKILL.md) [two](two.md) [away](../../away.md)")
    (own / "references" / "two.md").write_text("two")
    (own / "references" / "drawing.svg").touch()
    monkeypatch.setattr(skill, "HERE", own)
    into = tmp_path / "agents" / "skills"
    expected = {
        "SKILL.md": "[one](references/one.md) other",
        "references/one.md": "[back](../SKILL.md) [two](two.md) away",
        "references/two.md": "two",
    }
    for _ in range(2):  # the second time what lies there is replaced
        added = skill.add(into)
        assert added == into / "weft"
        pages = {
            str(path.relative_to(added)): path.read_text() for path in added.rglob("*") if path.is_file()
        }
        assert pages == expected
        (added / "references" / "stale.md").touch()
    assert (own / "SKILL.md").read_text() == "[one](references/one.md) [other](../other.md)"


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ((), "project/.agents/skills"),
        (("--for", "agents"), "project/.agents/skills"),
        (("--for", "claude"), "project/.claude/skills"),
        (("--global",), "home/.agents/skills"),
        (("--global", "--for", "claude"), "home/.claude/skills"),
        (("--into", "mine"), "project/mine"),
        (("--global", "--into", "mine"), "project/mine"),
    ],
)
def test_the_options_say_where(
    words: tuple[str, ...],
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("project", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert skill.main(["add", *words]) == 0
    assert capsys.readouterr().out == f"added {tmp_path / place / 'weft'}\n"
    assert [str(path.parent.parent.relative_to(tmp_path)) for path in tmp_path.rglob("SKILL.md")] == [place]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "weft skill: error: the following arguments are required: command"),
        (("remove",), "weft skill: error: argument command: invalid choice: 'remove'"),
        (("add", "--for", "others"), "weft skill add: error: argument --for: invalid choice: 'others'"),
    ],
)
def test_words_that_it_does_not_know_are_refused(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        skill.main(words)
    assert left.value.code == 2
    assert said in capsys.readouterr().err


def test_the_options_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In full: an abbreviation of a longer name works as well."""
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit):
        skill.main(["add", "--help"])
    assert "weft skill add [-h] [--global] [--for {agents,claude}] [--into INTO]" in capsys.readouterr().out


def test_run_as_a_file_it_ends_with_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["weft skill", "add", "--into", str(tmp_path)])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(Path(skill.__file__)), run_name="__main__")
    assert left.value.code == 0 and (tmp_path / "weft" / "SKILL.md").is_file()


def test_run_as_a_file_it_needs_python_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-I", str(Path(skill.__file__)), "add", "--into", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"added {tmp_path.resolve() / 'weft'}\n"), done.stderr
    assert (tmp_path / "weft" / "SKILL.md").is_file()
