"""A task for each test."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.task.made import Made

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Tasks are small: threads that wait for each other cost more than they give."""
    import torch  # noqa: PLC0415 - nothing is collected without it

    torch.set_num_threads(1)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    from tests.task.made import Made  # noqa: PLC0415

    return Made(tmp_path)
