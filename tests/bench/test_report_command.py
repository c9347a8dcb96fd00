"""`weft report`: what each of its options does and prints, and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from weft.report import __main__ as report
from weft.report import climbs, drawings, html, markdown, steps
from weft.report.chain import append
from weft.report.rows import add_rows, problems, read

from tests.bench.test_rows import CASE, right, several, stored
from tests.paths import PYTHON_PATH, ROOT


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def call(*words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["report", *map(str, words)])
        code = report.main()
        return code, capsys.readouterr().out

    return call


def test_without_options_the_tables_are_printed(run, tmp_path):
    stored(tmp_path, right())
    assert run("--evidence", tmp_path) == (0, markdown.render(tmp_path) + "\n")


def test_pages_are_written_and_nothing_is_printed(run, tmp_path):
    stored(tmp_path / "e", right())
    words = ["--evidence", tmp_path / "e", "--docs", tmp_path / "docs.md", "--html", tmp_path / "page.html"]
    assert run(*words) == (0, "")
    assert (tmp_path / "docs.md").read_text() == markdown.render(tmp_path / "e")
    assert (tmp_path / "page.html").read_text() == html.render(tmp_path / "e")
    assert run(*words[:4], "--check") == (0, "3 rows in 1 files are right\n")
    assert run("--evidence", tmp_path / "e", "--html", tmp_path / "page.html") == (0, "")


def test_rows_are_added_and_checked(run, tmp_path):
    new = tmp_path / "new.jsonl"
    add_rows(new, right(), chained=False)
    target = tmp_path / "e" / "h200" / "cases.jsonl"
    assert run("--add", new, target) == (0, "3 rows in 1 files are right\n")
    assert read(target) == right() and problems(target, report.case_problem) == []
    add_rows(new, [right()[1] | {"side": "rival"}], chained=False)
    code, said = run("--add", new, target)
    assert code == 1 and "side is 'rival'" in said


def test_a_file_is_packed_and_proved(run, tmp_path):
    path = stored(tmp_path / "e", right())
    old = tmp_path / "old.jsonl"
    old.write_bytes(path.read_bytes())
    assert run("--prove", old, path) == (1, f"{path}: no step of it names that file\n")
    assert run("--pack", path) == (0, "3 rows in 1 files are right\n")
    proof = f"{path}: has every row of {old} but those that the step names\n"
    assert run("--prove", old, path) == (0, proof)


def test_superseded_cases_are_dropped(run, tmp_path):
    path = stored(tmp_path, several())
    stored(tmp_path, [row | {"run": "r2"} for row in right()[1:]])
    said = "1 cases of earlier runs were dropped\n5 rows in 1 files are right\n"
    assert run("--drop-superseded", path) == (0, said)
    assert [row.get("run") for row in read(path)] == [None, "r1", "r1", "r2", "r2"]


def test_the_ladder_s_pages_are_written_of_the_card_that_is_named(monkeypatch, tmp_path, run):
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.setenv("WEFT_TOOL", "elsewhere")
    where = tmp_path / "docs" / "learn" / "pictures"
    monkeypatch.setattr(climbs, "files", lambda root, gpu: {where / "climb.svg": f"{root} {gpu}"})
    monkeypatch.setattr(drawings, "files", lambda root, tool: {where / "drawing.svg": f"{root} {tool}"})
    for words, gpu in (["--learn"], "h200"), (["--learn", "b200"], "b200"):
        assert run(*words) == (0, "")
        assert (where / "climb.svg").read_text() == f"{tmp_path} {gpu}"
        assert (where / "drawing.svg").read_text() == f"{tmp_path} elsewhere"
    monkeypatch.delenv("WEFT_TOOL")
    run("--learn")
    assert (where / "drawing.svg").read_text() == f"{tmp_path} {tmp_path / 'build/release/weft'}"


def test_the_defaults_are_the_checkout_s(monkeypatch, tmp_path, run):
    assert report.ROOT == ROOT
    monkeypatch.setattr(markdown, "render", lambda folder: f"of {folder}")
    written: list[tuple[Path, str]] = []
    monkeypatch.setattr(Path, "write_text", lambda path, text: written.append((path, text)))
    assert run("--docs") == (0, "")
    assert written == [(ROOT / "docs" / "performance.md", f"of {ROOT / 'evidence'}")]


def test_it_is_a_program_whose_exit_code_is_that_of_the_check(tmp_path):
    path = stored(tmp_path, right())
    command = [sys.executable, "-m", "weft.report", "--evidence", str(tmp_path), "--check"]
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    for code in (0, 1):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        path.write_text(path.read_text() + "{}\n")


def test_a_step_that_goes_wrong_leaves_the_file_as_it_was(monkeypatch, tmp_path):
    path = stored(tmp_path, several())
    old = path.read_bytes()
    monkeypatch.setattr(steps, "proof_problems", lambda old, path: "something is amiss")
    with pytest.raises(ValueError, match=f"^{path}: something is amiss$"):
        steps.repack(path)
    assert path.read_bytes() == old


def test_a_step_refuses_a_file_whose_chain_is_broken(tmp_path):
    path = stored(tmp_path, several())
    for line, said in ((2, "the chain breaks here"), (3, "the chain breaks here")):
        old = path.read_bytes()
        lines = old.splitlines(keepends=True)
        lines[line - 1] = lines[line - 1].replace(b'"samples":15', b'"samples":16')
        path.write_bytes(b"".join(lines))
        with pytest.raises(ValueError, match=f"^{path}:{line}: {said}"):
            steps.repack(path)
        path.write_bytes(old)


def test_rows_from_before_the_chain_began_may_be_packed(tmp_path):
    path = stored(tmp_path, [right()[0]])
    path.write_text(json.dumps(right()[0]) + "\n")
    append(path, right()[1:])
    steps.repack(path)
    assert problems(path, report.case_problem) == []


def test_each_step_names_the_file_that_it_was_made_of(tmp_path):
    path = stored(tmp_path, several())
    stored(tmp_path, [row | {"run": "r2"} for row in right()[1:]])
    for make, step in ((steps.repack, "packed"), (steps.drop_superseded, "superseded")):
        old = path.read_bytes()
        make(path)
        last = json.loads(path.read_text().splitlines()[-1])
        assert (last["step"], last["before"]) == (
            step,
            {"lines": old.count(b"\n"), "sha256": steps.digest(old)},
        )
    assert last["dropped"] == [["r1", CASE, None]]
    assert list(steps.step_problems([{"step": "edited", "before": {}}])) == [
        (1, "is no step that weft report makes")
    ]
    assert list(steps.step_problems([{"run": "r"}, {"step": "packed", "before": 3}])) == [
        (2, "is no step that weft report makes")
    ]
