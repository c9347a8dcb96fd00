"""Who calls weft in a measurement: Python, as a user does, or the library for one implementation of the op."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("weft")

from weft._library import function
from weft.bench import Options, _measure, measure


def test_weft_is_called_from_python_unless_one_implementation_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, weft_call = [], _measure.weft_call

    def counted(session: _measure.Session) -> Any:
        made.append(session.case.op)
        return weft_call(session)

    monkeypatch.setattr(_measure, "weft_call", counted)

    def rows(implementation: str) -> list[dict[str, Any]]:
        options = Options("cpu", ("no baseline",), rounds=1, replay_us=1, implementation=implementation)
        return measure("softmax x=fp32[4,64]", options, "run", "env").rows

    plain = rows("")
    assert plain and all(row["checked"] for row in plain)
    assert made == ["softmax"]
    (named,) = rows(plain[0]["name"])
    assert made == ["softmax"], "the library calls it then"
    assert named["why"].startswith("failed: softmax: no implementation for cpu takes this call"), (
        "the reference is none"
    )


@pytest.mark.parametrize(("eager", "rounds"), [(True, 4), (False, 6), (None, None)])
def test_options_of_sampling_reach_the_library(eager: bool | None, rounds: int | None) -> None:
    """Absent ones are the library's own: eager times too, and 15 samples."""
    given = {"replay_us": 20, "seed": 1, "eager": eager, "rounds": rounds}
    told = json.dumps({name: value for name, value in given.items() if value is not None})
    session = function("bench.open")("softmax x=fp32[4,8]", "cpu", 0, 0, told)
    try:
        function("bench.add_own")(session, True, False, False)
        rows = json.loads(function("bench.run")(session, "run", "env", ""))["rows"]
    finally:
        function("bench.close")(session)
    assert {row["time"] for row in rows} == ({"device"} if eager is False else {"device", "eager"})
    asked = rounds or 15
    assert {row["samples"] for row in rows} <= {asked, asked + 1}, "one more of a call that is checked again"
