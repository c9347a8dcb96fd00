"""Where baselines are copied from, what is recorded of them, and the words of what goes wrong."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from weft.task import source
from weft.task.fingerprint import of_bytes
from weft.task.outcome import Outcome

from tests.task.made import UPSTREAM, Made, call, git, told


def test_a_baseline_from_a_folder_beside_the_task_in_a_repository(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git looks for a relative folder from the top of the repository around it."""
    git(made.root, "init", "-q")
    work = made.root / "work"
    work.mkdir()
    (made.root / "upstream").rename(work / "theirs")
    monkeypatch.chdir(work)
    outcome = call("baseline", made.folder, "--git", "theirs", "--file", "ops.py")
    assert outcome.code == 0, told(outcome)
    held = source.read(made.task)
    commit = git(work / "theirs", "rev-parse", "HEAD")
    assert (held["kind"], held["url"], held["branch"]) == ("git", "local clone theirs", "main")
    assert (held["commit"], source.title(held)) == (commit, f"local clone theirs at {commit[:12]}")
    digest, count = of_bytes(UPSTREAM.encode()), len(UPSTREAM.splitlines())
    assert held["files"] == [{"path": "ops.py", "sha256": digest, "lines": count}]
    assert outcome.checked[0] == f"ops.py is copied ({digest[:16]}, {count} lines)"
    assert (made.folder / "docs" / "baseline_source.md").read_text() == "\n".join([
        "# Baseline of mod", "", "Rendered by `weft task baseline` from `baseline/source.json`.", "",
        "- url: local clone theirs", "- branch: main", f"- commit: {commit}", f"- resolved: {held['resolved']}",
        "- upstream's compiler flags: none recorded", "- the copies are committed", "",
        "| file | lines | SHA-256 |", "|---|---:|---|", f"| ops.py | {count} | `{digest}` |", "",
        "Written for this task, with no line of upstream's: `baseline/entry.py`.", "",
    ])  # fmt: skip


def test_a_repository_on_no_branch(made: Made) -> None:
    git(made.upstream, "checkout", "-q", "--detach")
    outcome = made.call("baseline", "--git", str(made.upstream), "--file", "ops.py")
    assert outcome.code == 0, told(outcome)
    assert source.read(made.task)["branch"] == "HEAD"


def test_a_baseline_from_a_wheel(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "ops-1.5-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ops.py", UPSTREAM)
        archive.writestr(
            "ops-1.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: ops\nVersion: 1.5\nLicense: MIT\n"
        )
    words = ["--wheel", str(path), "--file", "ops.py", "--no-commit", "--upstream-flags", "-O2 -ftz=true"]
    outcome = made.call("baseline", *words)
    assert outcome.code == 0, told(outcome)
    held = source.read(made.task)
    assert {key: held[key] for key in ("kind", "package", "version", "license", "committed", "upstream_flags")} == {
        "kind": "wheel", "package": "ops", "version": "1.5", "license": "MIT", "committed": False,
        "upstream_flags": ["-O2", "-ftz=true"],
    }  # fmt: skip
    page = (made.folder / "docs" / "baseline_source.md").read_text()
    for line in (
        "- package: ops",
        "- version: 1.5",
        "- license: MIT",
        "- upstream's compiler flags: -O2 -ftz=true",
        "- the copies are not committed: `weft task baseline --restore` makes them again and compares hashes",
    ):
        assert f"\n{line}\n" in page
    assert (made.folder / ".gitignore").read_text().splitlines()[-1] == "baseline/ops.py"
    copy = made.folder / "baseline" / "ops.py"
    copy.unlink()
    said = "baseline/ops.py is missing (weft task baseline --restore brings it back)"
    assert source.edited(made.task) == [said]
    assert f"the baseline is the copy: {said}" in told(made.call("check"))
    restored = made.call("baseline", "--restore", "--wheel", str(path))
    assert restored.checked[0] == "1 files of ops 1.5 are here again, with the recorded hashes"
    assert copy.read_text() == UPSTREAM
    again = made.call("baseline", "--restore", "--wheel", str(path))
    assert again.checked[0] == "all 1 copies are here already, with the recorded hashes"
    made.edit("baseline/ops.py", "x[i]", "x[0]")
    (wrong,) = source.edited(made.task)
    assert wrong == (
        f"baseline/ops.py was edited after it was copied: its hash is {of_bytes(copy.read_bytes())[:16]}, that of the "
        f"copy {of_bytes(UPSTREAM.encode())[:16]}"
    )
    assert (
        told(made.call("baseline", *words))
        == f"{wrong}: put it back, or remove baseline/source.json to start over"
    )
    made.edit("baseline/source.json", '"version": "1.5"', '"version": "1.4"')
    assert (
        told(made.call("baseline", "--restore", "--wheel", str(path)))
        == "ops 1.5 is here, the baseline is 1.4"
    )


def test_what_is_said_of_what_is_not_there(made: Made, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr(
            "a-1.dist-info/METADATA", "Name: a\nVersion: 1\nLicense-Expression: MIT\nLicense: x\n"
        )
    for words, said in (
        (["--wheel", "no-such-package", "--file", "a"],
         "the package no-such-package is not installed here (a .whl file does as well)"),
        (["--wheel", str(tmp_path / "b.whl"), "--file", "a"], f"there is no {tmp_path / 'b.whl'}"),
        (["--wheel", str(tmp_path / "a.whl"), "--file", "x.py"], "a.whl has no file x.py"),
        (["--wheel", "pytest", "--file", "x.py"], f"pytest {pytest.__version__} has no file x.py"),
        (["--git", str(made.upstream), "--branch", "other", "--file", "a"], f"{made.upstream} has no branch other"),
        (["--git", str(made.upstream)], "say which files are copied: --file PATH, once for each"),
        (["--restore"], "no baseline was copied yet: there is nothing to restore"),
    ):  # fmt: skip
        assert told(made.call("baseline", *words)) == said
    outcome = Outcome("check")
    source.inspect(made.task, outcome)
    assert outcome.refused == [
        "the baseline's source is recorded: there is no baseline/source.json: `weft task baseline` copies one and "
        "records it"
    ]
    assert source.read(made.task) == {}


def test_a_page_that_is_not_rendered(made: Made) -> None:
    made.baseline().write("docs/baseline_source.md", "typed")
    outcome = Outcome("check")
    source.inspect(made.task, outcome)
    assert outcome.refused == [
        "docs/baseline_source.md says where they are from: it is missing, or is not what baseline/source.json says: it "
        "is rendered, never typed"
    ]
    held = json.loads((made.folder / "baseline" / "source.json").read_text())
    assert outcome.checked[1:] == [f"1 copied files are those of {source.title(held)}"]
