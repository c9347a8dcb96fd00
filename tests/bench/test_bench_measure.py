"""Who calls weft in a measurement: Python, as a user does, or the library for one implementation of the op."""

from __future__ import annotations

import json
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("weft")

from weft._library import function  # noqa: E402
from weft.bench import Options, _measure, measure  # noqa: E402


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


def test_a_problem_of_the_caller_is_told_as_it_was_given() -> None:
    problem = {
        "footprint": 4,
        "bytes": 4,
        "flops": 1,
        "math": "fp16",
        "checked_on": "one of two",
        "rounds": 2,
    }
    open_foreign = function("bench.open_foreign")

    def opened(**changes: Any) -> int:
        nothing = (lambda index: None), (lambda name, index: "")
        session: int = open_foreign("own x=fp32[1]", "cpu", 0, 0, json.dumps(problem | changes), *nothing)
        return session

    session = opened(replay_us=20)
    try:
        function("bench.add")(session, "mine", "weft", lambda index: None, None, None)
        rows = json.loads(function("bench.run")(session, "run", "env", "row"))["rows"]
    finally:
        function("bench.close")(session)
    for row in rows:
        assert (row["checked_on"], row["bytes"], row["flops"]) == ("one of two", 4, 1)
        assert (row["case"], row["workload"]) == ("own x=fp32[1]", "row")
    with pytest.raises(ValueError, match="math: there is no dtype fp17"):
        opened(math="fp17")


def test_what_is_wrong_with_a_case_is_no_error_of_the_card() -> None:
    for call in (
        lambda: function("bench.open")("softmax x=fp31[4,8]", "cpu", 0, 0, "{}"),
        lambda: function("bench.draw")(json.dumps(["softmx"]), 1, 0),
        lambda: function("bench.environment")("tpu", 0, ""),
        lambda: function("bench.run")(0, "run", "env", ""),
    ):
        with pytest.raises(ValueError):
            call()
    if function("cuda_version")() and not torch.cuda.is_available():
        with pytest.raises(RuntimeError):
            function("bench.environment")("cuda", 0, "")
