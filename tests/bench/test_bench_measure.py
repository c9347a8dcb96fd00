"""Who calls weft in a measurement: Python, as a user does, or the library for one implementation of the op."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("weft")

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
