"""What a row's verdict is held against."""

from typing import Any

from weft.task.bench import cold, headline, pairs


def row(side: str, name: str, us: float, workload: str = "small") -> dict[str, Any]:
    times = {"median": us, "p10": us * 0.999, "p90": us * 1.001, "mean": us, "min": us, "std": 0.0}
    return {
        "run": "r", "case": f"op {workload}", "workload": workload, "side": side, "name": name, "us": times,
        "time": "device", "cache": "cold", "env": "e", "floor_us": 1.0, "checked": True,
    }  # fmt: skip


def test_a_slow_measurement_of_the_baseline_is_no_gain() -> None:
    rows = [row("baseline", "theirs", 17.4), row("weft", "ours", 4.0), row("noise", "theirs", 4.3)]
    (pair,) = pairs(rows)
    assert pair.best is not None and pair.best["us"]["median"] == 4.3
    assert pair.ratio(pair.best) == 4.3 / 4.0
    slower = [row("baseline", "theirs", 17.4), row("weft", "ours", 4.5), row("noise", "theirs", 4.3)]
    assert "1 loses" in headline(cold(slower))


def test_noise_of_another_side_and_a_slower_repeat_change_nothing() -> None:
    for again in (row("noise", "somebody else", 4.3), row("noise", "theirs", 18.0)):
        (pair,) = pairs([row("baseline", "theirs", 17.4), row("weft", "ours", 4.0), again])
        assert pair.best is not None and pair.best["us"]["median"] == 17.4
