"""A task for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.task.made import Made  # noqa: E402 - it needs PyTorch


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)
