"""The way through the ladder, docs/learn: its links lead somewhere, its commands do what it says, its pictures are
those that the evidence and the kernels give."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from weft.report import climbs, drawings
from weft.report.rows import add_rows

from tests.bench import made_up
from tests.paths import ROOT
from tests.python.conftest import TOOL

LEARN = ROOT / "docs" / "learn"
CHAPTERS = sorted(LEARN.glob("[0-9]*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("ops/*/README.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(without_code(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(target), f"{link}: {target.name} has no such heading"


def test_the_chapters_are_on_the_way() -> None:
    assert len(CHAPTERS) == 10
    index = (LEARN / "README.md").read_text()
    for number, chapter in enumerate(CHAPTERS, 1):
        text = chapter.read_text()
        assert text.startswith(f"# {number}. "), chapter.name
        assert f"]({chapter.name})" in index, chapter.name
        following = f"({CHAPTERS[number].name})" if number < len(CHAPTERS) else "README.md"
        assert following in text, f"{chapter.name} does not say what is next"


def test_every_topic_has_its_climb_in_a_chapter() -> None:
    text = "".join(chapter.read_text() for chapter in CHAPTERS)
    for topic in climbs.topics(ROOT):
        assert topic.rungs and topic.cases, topic.name
        assert climbs.picture_name(topic.name) in text, topic.name


def steps(chapter: Path) -> list[tuple[str, list[str]]]:
    """Its commands, each with the lines that the chapter shows of what it prints."""
    found: list[tuple[str, list[str]]] = []
    for language, text in re.findall(
        r"^```(sh|text)\n(.*?)^```", chapter.read_text(), re.DOTALL | re.MULTILINE
    ):
        if language == "sh":
            found += [(line, []) for line in text.splitlines()]
        else:
            found[-1][1].extend(text.splitlines())
    return found


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_a_chapter_can_be_followed(chapter: Path) -> None:
    for command, lines in steps(chapter):
        assert command.startswith("./weft "), command
        # The launcher would build first what is built here already.
        done = subprocess.run(
            ["bash", "-c", command.replace("./weft", str(TOOL), 1)],
            cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        for line in lines:
            assert line in done.stdout, f"{command} prints\n{done.stdout}"


def test_what_is_wrong_on_purpose_fails_in_the_chapters() -> None:
    said = [command for chapter in CHAPTERS for command, _ in steps(chapter) if command.endswith("|| true")]
    assert said
    for command in said:
        tool = command.replace("./weft", str(TOOL), 1).removesuffix("|| true")
        done = subprocess.run(["bash", "-c", tool], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 1, f"{command}\n{done.stdout}{done.stderr}"


def test_pictures_and_tables_are_rendered_from_evidence_and_kernels() -> None:
    made = climbs.files(ROOT, "h200") | drawings.files(ROOT, TOOL)
    for path, text in made.items():
        assert path.read_text() == text, f"{path}: render it again: ./weft report --learn"
    assert set((LEARN / "pictures").iterdir()) == {path for path in made if path.suffix == ".svg"}


def test_the_drawings_say_what_the_layouts_are() -> None:
    banks = drawings.rows_of(TOOL, "banks")
    for kind, turns in (("plain", 8), ("padded", 1), ("swizzled", 1)):
        assert drawings.turns([row for row in banks if row["tile"] == kind]) == turns
    fragments = drawings.rows_of(TOOL, "fragments")
    for matrix, elements in (("A", 256), ("B", 128), ("C", 128)):
        of_matrix = [row for row in fragments if row["matrix"] == matrix]
        assert len({(row["row"], row["column"]) for row in of_matrix}) == elements
        assert len({(row["lane"], row["value"]) for row in of_matrix}) == elements
    used = [row["step"] for row in drawings.rows_of(TOOL, "ring") if row["what"] == "use"]
    assert used == [str(step) for step in range(10)], "a stage is used for the step that it was filled for"


def test_a_topic_is_drawn_with_gains_floor_and_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "ladder").mkdir()
    for name in ("01_naive", "02_wide", "03_wrong"):
        rung = tmp_path / "ladder" / "topic" / f"{name}.cu"
        rung.parent.mkdir(exist_ok=True)
        rung.touch()
    cases = ["softmax x=fp32[8,8] out=fp32[8,8]", "softmax x=fp32[9,9] out=fp32[9,9]"]
    (tmp_path / "ladder" / "shapes.csv").write_text(
        "topic,case\n" + "".join(f'topic,"{case}"\n' for case in cases)
    )
    (topic,) = climbs.topics(tmp_path)
    assert "not measured yet" in climbs.page(tmp_path, "h200")
    assert "not measured yet" in climbs.picture(tmp_path, "h200", topic)

    def row(name: str, side: str, us: float | None) -> made_up.Row:
        return made_up.row(cases[0], name, side, us, workload="ladder/topic", floor_us=2.0)

    rows = [
        made_up.ENVIRONMENT,
        row("rows lanes=32", "weft", 2.5),
        row("ladder/topic/01_naive", "baseline", 8.0),
        row("ladder/topic/02_wide", "baseline", 4.0),
        row("ladder/topic/03_wrong", "baseline", None),
        row("card copy", "baseline", 2.25),
        row("ladder/topic/01_naive", "noise", 8.0),
    ]
    add_rows(tmp_path / "evidence" / "h200" / "ladder.jsonl", rows, chained=True)
    page = climbs.page(tmp_path, "h200")
    assert "| [02_wide](../../ladder/topic/02_wide.cu) | 4.00, 2.00x, 50 % |" in page
    assert "| [03_wrong](../../ladder/topic/03_wrong.cu) | wrong: out[0,0]: got nan, expected 1 |" in page
    assert "| weft itself | 2.50, 80 % |" in page
    assert "1 of 2 cases are not measured yet." in page
    drawn = climbs.picture(tmp_path, "h200", topic)
    assert drawn.count("<circle") == 4 and "floor 2.00" in drawn and "no time: the table says why" in drawn
