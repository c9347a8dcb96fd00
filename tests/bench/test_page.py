"""The page of all evidence, seen in a browser at desktop and phone widths. Its screenshots are in build/report/."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from weft.report import html

from tests.bench import made_up
from tests.bench.conftest import WIDTHS, browser_file

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "build" / "report"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evidence")
    file = folder / "report.html"
    file.write_text(html.render(made_up.evidence(folder)))
    return file


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, browser: Any, page_file: Path) -> Iterator[Any]:
    width, height = WIDTHS[request.param]
    opened = browser.new_page(viewport={"width": width, "height": height})
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda asked: said.append(asked.url) if asked.url.startswith("http") else None)
    opened.goto(page_file.as_uri())
    opened.wait_for_selector("#floor .point", timeout=60_000)
    opened.width = width
    opened.shot = SHOTS / f"{request.param}.png"
    yield opened
    assert said == [], "the page asks for nothing and complains of nothing"
    opened.close()


def shown(page: Any) -> list[str]:
    texts: list[str] = page.eval_on_selector_all("#rows tr", "rows => rows.map((row) => row.textContent)")
    return texts


def test_without_a_browser_nothing_is_skipped(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(pytest.fail.Exception, match="no browser is installed"):
        browser_file()


def test_everything_is_shown_and_fits(page):
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=page.shot)
    page.screenshot(path=page.shot.with_stem(page.shot.stem + "-full"), full_page=True)
    assert page.shot.stat().st_size > 20_000
    assert page.evaluate("document.documentElement.scrollWidth") <= page.width, "nothing hangs over the side"
    rows = shown(page)
    assert len(rows) == len(made_up.listed()) + made_up.DRAWN, (
        "a row for each case, by device time with cold caches"
    )
    assert "wrong: out[0,0]: got nan" in rows[0], "what failed is first"
    for chart in ("#speedup", "#floor"):
        points = page.locator(f"{chart} .point").count()
        assert points == sum("wrong" not in row for row in rows)
        box = page.locator(f"{chart} .plotly .cartesianlayer").first.bounding_box()
        assert box["width"] > 250 and box["height"] > 150
    ratios = [float(row.rsplit("x ", 1)[0][-4:]) for row in rows if "wrong" not in row]
    assert ratios == sorted(ratios), "worst first"


def test_drawn_cases_have_a_picture_of_their_own(page):
    page.select_option("#filter-suite", "sampled")
    assert page.locator("#distribution .scatterlayer .trace").count() == 1, "one op"
    box = page.locator("#distribution .plotly .cartesianlayer").first.bounding_box()
    assert box["width"] > 250 and box["height"] > 150
    assert "% under 0.9" in page.locator("#facts").inner_text()
    page.locator("#sampled").screenshot(path=page.shot.with_stem(page.shot.stem + "-sampled"))
    page.select_option("#filter-suite", "norms")
    assert page.locator("#sampled").is_hidden()


def test_filters_change_pictures_table_and_figures(page):
    page.select_option("#filter-suite", "transformer")
    page.select_option("#filter-op", "softmax")
    rows = shown(page)
    assert 0 < len(rows) < 20 and all("softmax" in row for row in rows)
    assert page.locator("#speedup .point").count() == sum("wrong" not in row for row in rows)
    assert page.locator("#facts b").first.inner_text() == str(len(rows))
    page.select_option("#filter-verdict", "loses")
    assert all("loses" in row for row in shown(page))
    page.select_option("#filter-op", "")
    page.select_option("#filter-verdict", "")
    page.select_option("#filter-cache", "hot")
    page.fill("#filter-text", "llama-rope")
    assert len(shown(page)) == 5
