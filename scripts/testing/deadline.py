"""How long a run may take. A slow machine tests less of what is tested in another way as well, and says what."""

from __future__ import annotations

import concurrent.futures
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from testing.suite import CORES

T = TypeVar("T")


class Deadline:
    """The moment at which a run begins nothing more that it can leave out."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.end = time.monotonic() + seconds

    def passed(self) -> bool:
        return time.monotonic() >= self.end

    def halfway(self) -> float:
        """Until when a suite begins parts: what it leaves is for the suites behind it."""
        now = time.monotonic()
        return now + max(self.end - now, 0) / 2


def each(run: Callable[[str], T], names: Iterable[str], until: float) -> Iterator[tuple[str, T | None]]:
    """Runs what can be begun until then, as many at a time as there are cores; None for the others.

    In random order, so that the next run leaves others out.
    """

    def in_time(name: str) -> T | None:
        return run(name) if time.monotonic() < until else None

    order = list(names)
    random.shuffle(order)
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        yield from zip(order, pool.map(in_time, order), strict=True)
