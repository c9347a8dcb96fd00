"""A browser, in which pages are seen at desktop and phone widths."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}


def browser_file() -> str:
    """A page that nobody has looked at is no page that works: without a browser these tests fail."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.fail("no browser is installed: apt-get install --no-install-recommends chromium")
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser_file(), args=["--no-sandbox"])
        yield chromium
        chromium.close()
