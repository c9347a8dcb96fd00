"""The chapters of docs/learn, seen in a browser at desktop and phone widths. Their screenshots are in build/learn/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.bench.conftest import WIDTHS
from tests.paths import ROOT

LEARN, SHOTS = ROOT / "docs" / "learn", ROOT / "build" / "learn"
# As hosts of repositories lay out Markdown: pictures shrink to the page, code and tables scroll by themselves.
STYLE = (
    "body { font: 16px/1.5 sans-serif; max-width: 860px; margin: 0 auto; padding: 16px }"
    "img { max-width: 100% } pre { overflow: auto } table { display: block; overflow: auto }"
    "code { overflow-wrap: anywhere } pre code { overflow-wrap: normal }"
)


@pytest.mark.parametrize("width", WIDTHS)
def test_chapters_fit_and_their_pictures_are_there(browser: Any, width: str, tmp_path: Path) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    across, down = WIDTHS[width]
    page = browser.new_page(viewport={"width": across, "height": down})
    for chapter in sorted(LEARN.glob("*.md")):
        body = MarkdownIt("commonmark").enable("table").render(chapter.read_text())
        html = tmp_path / "page.html"
        html.write_text(f"<base href='{LEARN.as_uri()}/'><meta charset='utf-8'><style>{STYLE}</style>{body}")
        page.goto(html.as_uri())
        page.screenshot(path=SHOTS / f"{chapter.stem}-{width}.png", full_page=True)
        broken = page.evaluate("[...document.images].filter(i => i.naturalWidth === 0).map(i => i.src)")
        assert broken == [], chapter.name
        assert page.evaluate("document.documentElement.scrollWidth") <= across, f"{chapter.name}: hangs over"
    page.close()
