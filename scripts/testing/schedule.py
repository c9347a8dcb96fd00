"""Runs suites side by side, in the order given, each as soon as what it needs has passed.

A wide suite keeps every core busy but for its ends and its linking; narrow ones fill those. So one wide suite runs at a
time, with as many narrow ones beside it as there are cores, less one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from testing.deadline import Deadline
from testing.keys import forget
from testing.results import Results
from testing.suite import Count, Parts, Suite


@dataclass
class Done:
    """What became of a suite."""

    suite: Suite
    count: Count = field(default_factory=Count)
    seconds: float = 0
    parts: int = 0
    kept: int = 0  # parts whose stored result holds
    late: int = 0  # parts that there was no time for
    begun: bool = True
    left_out: str = ""  # the failed suite that it needs

    @property
    def passed(self) -> bool:
        """Nothing has failed; there may have been no time for some."""
        return not self.count.failed and not self.left_out


def keys_after(suite: Suite) -> Parts:
    """The keys once more: where a file was changed while the suite ran, nobody knows what it saw."""
    forget()
    return suite.parts()


def run_suite(suite: Suite, results: Results, log: Path) -> Done:
    """Runs the parts whose result is not stored."""
    log.unlink(missing_ok=True)
    start = time.monotonic()
    done = Done(suite)
    try:
        keys = dict(suite.parts())
        stored = {part: results.find(suite.name, part, key) for part, key in keys.items()}
        pending = [part for part, count in stored.items() if count is None]
        found = suite.run(log, pending) if pending else {}
        done.parts, done.kept = len(keys), len(keys) - len(pending)
        after = keys_after(suite) if pending else {}
        for part, key in keys.items():
            # A part that says nothing has not passed.
            count = stored[part] or found.get(part, Count(failed=1))
            if count is None:
                done.late += 1
                continue
            if part in pending and after.get(part) == key:
                results.keep(suite.name, part, key, count)
            done.count += count
    except Exception as error:  # of the suite's own code: it counts like a failed test
        with log.open("a") as output:
            output.write(f"{type(error).__name__}: {error}\n")
        done.count += Count(failed=1)
    done.seconds = time.monotonic() - start
    return done


def run_all(
    suites: Iterable[Suite],
    cores: int,
    run: Callable[[Suite], Done],
    report: Callable[[Done], None],
    *,
    watch: Callable[[list[str]], None] = lambda names: None,
    deadline: Deadline | None = None,
) -> list[Done]:
    """`report` is called for each suite that ends, `watch` with the names of those that run.

    An optional suite does not begin behind the deadline, nor does what needs one that had no time.
    """
    waiting = list(suites)
    chosen = {suite.name for suite in waiting}
    ended: dict[str, Done] = {}
    running: dict[Future[Done], Suite] = {}
    most = max(cores, 2)

    def is_late(suite: Suite, needs: list[str]) -> bool:
        passed = deadline is not None and deadline.passed()
        return suite.optional and (passed or any(not ended[name].begun for name in needs if name in ended))

    def has_room(suite: Suite) -> bool:
        return len(running) < most and not (suite.wide and any(other.wide for other in running.values()))

    def end(done: Done) -> None:
        ended[done.suite.name] = done
        report(done)

    with ThreadPoolExecutor(max_workers=most) as pool:
        while waiting or running:
            for suite in list(waiting):
                needs = [name for name in suite.needs if name in chosen]
                lost = [name for name in needs if name in ended and not ended[name].passed]
                if lost:
                    waiting.remove(suite)
                    end(Done(suite, left_out=lost[0]))
                elif is_late(suite, needs):
                    waiting.remove(suite)
                    end(Done(suite, begun=False))
                elif has_room(suite) and all(name in ended for name in needs):
                    waiting.remove(suite)
                    running[pool.submit(run, suite)] = suite
            watch([suite.name for suite in running.values()])
            if running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[future]
                    end(future.result())
    return list(ended.values())
