"""What Python calls of the library by name: measurements that others' callables take part in, views of memory, rungs,
and the errors that come of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from weft import _library
from weft._library import function
from weft._op import OPS

from tests.paths import PYTHON_PATH

SOFTMAX = "softmax x=fp32[4,8]"
SAMPLING = {"rounds": 2, "replay_us": 20, "eager": False}


class Held:
    """Open measurements, closed at the end."""

    def __init__(self) -> None:
        self.open: list[int] = []

    def case(self, line: str, **options: Any) -> int:
        return self._opened(function("bench.open")(line, "cpu", 0, 0, json.dumps(SAMPLING | options)))

    def foreign(self, reset: Any, compare: Any, **problem: Any) -> int:
        whole = {"footprint": 64, "bytes": 64, "flops": 8} | SAMPLING | problem
        return self._opened(
            function("bench.open_foreign")("own x=fp32[16]", "cpu", 0, 0, json.dumps(whole), reset, compare)
        )

    def _opened(self, session: int) -> int:
        self.open.append(session)
        return session


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    yield made
    for session in made.open:
        function("bench.close")(session)


def run(session: int, workload: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(function("bench.run")(session, "r1", "e1", workload))
    return answer


def by_name(answer: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in answer["rows"]:
        found.setdefault(row["name"], []).append(row)
    return found


class Sum:
    """A problem of ours: `out` is to be twice `x`. Notes what the library asks of it."""

    def __init__(self) -> None:
        self.resets: list[int] = []
        self.compared: list[tuple[str, int]] = []
        self.delivered: list[int] = []
        self.recorded: list[tuple[int, int]] = []
        self.calls: list[int] = []
        self.replays = 0
        self.wrong = ""

    def reset(self, index: int) -> None:
        self.resets.append(index)

    def compare(self, name: str, index: int) -> str:
        self.compared.append((name, index))
        return self.wrong if name == "ours" else ""

    def call(self, index: int) -> None:
        self.calls.append(index)

    def record(self, sets: int, calls: int) -> Any:
        self.recorded.append((sets, calls))

        def replay() -> None:
            self.replays += 1

        return replay

    def deliver(self, index: int) -> None:
        self.delivered.append(index)


def test_measurements_are_told_apart_until_they_are_closed(held: Held) -> None:
    first, second = held.case(SOFTMAX), held.case("softmax x=fp32[2,16]")
    assert first != second
    function("bench.close")(first)
    for gone in (first, second + 1, 0):
        with pytest.raises(ValueError, match="no such measurement is open"):
            run(gone)
        with pytest.raises(ValueError, match="no such measurement is open"):
            function("bench.operand")(gone, 0, "x")
    function("bench.close")(first)
    assert held.case(SOFTMAX) not in (first, second), "a number is given once"
    function("bench.add_own")(second, True, False, False)
    assert {row["case"] for row in run(second)["rows"]} == {"softmax x=fp32[2,16] out=fp32[2,16]"}


def test_each_callable_has_its_side_and_its_times(held: Held) -> None:
    problem = Sum()
    session = held.foreign(problem.reset, problem.compare, eager=True)
    for name, kind in (("ours", "weft"), ("theirs", "baseline"), ("apart", "unrecorded")):
        function("bench.add")(session, name, kind, problem.call, None, None)
    rows = by_name(run(session))
    assert {row["side"] for row in rows["ours"]} == {"weft"}
    assert {row["side"] for name in ("theirs", "apart") for row in rows[name]} <= {"baseline", "noise"}
    assert {row["side"] for row in rows["apart"]} == {"baseline"}
    assert (
        {row["time"] for row in rows["ours"]}
        == {row["time"] for row in rows["theirs"]}
        == {"device", "eager"}
    )
    assert {row["time"] for row in rows["apart"] if row["us"]} == {"eager"}
    assert all(row["checked"] for some in rows.values() for row in some)
    assert {name for name, _ in problem.compared} == {"ours", "theirs", "apart"}
    assert set(problem.resets) | set(problem.calls) | {index for _, index in problem.compared} <= {0, 1}


def test_what_is_recorded_is_replayed_and_what_is_returned_delivered(held: Held) -> None:
    problem = Sum()
    session = held.foreign(problem.reset, problem.compare)
    function("bench.add")(session, "ours", "weft", problem.call, problem.record, problem.deliver)
    answer = run(session)
    assert problem.recorded and problem.replays >= 2 * SAMPLING["rounds"]
    hot, cold = sorted({sets for sets, _ in problem.recorded})[0], max(sets for sets, _ in problem.recorded)
    assert hot == 1 and cold == answer["sets"]
    assert all(calls >= sets and calls % sets == 0 for sets, calls in problem.recorded)
    assert max(calls for _, calls in problem.recorded) > 1
    assert problem.delivered == [index for _, index in problem.compared]
    assert len(problem.calls) < problem.replays, "it is timed by its replays"


@pytest.mark.parametrize("when", [1, 2])
def test_a_wrong_result_is_a_row_without_a_time(held: Held, when: int) -> None:
    problem = Sum()

    def compare(name: str, index: int) -> str:
        problem.compared.append((name, index))
        return f"off in set {index}" if len(problem.compared) >= when else ""

    session = held.foreign(problem.reset, compare)
    function("bench.add")(session, "ours", "weft", problem.call, None, None)
    rows = run(session)["rows"]
    assert {row["us"] for row in rows} == {None}
    assert all(
        row["why"].startswith("after timing: off in set " if when == 2 else "off in set 0") for row in rows
    )


def test_what_overwrites_its_inputs_is_checked_by_one_more_call(held: Held) -> None:
    """Of others the last timed sets are looked at, which are poisoned before."""
    for overwrites in (False, True):
        problem = Sum()
        session = held.foreign(problem.reset, problem.compare, overwrites_inputs=overwrites)
        function("bench.add")(session, "ours", "weft", problem.call, problem.record, None)
        run(session)
        assert ((1, 1) in problem.recorded[-2:]) is overwrites
        if overwrites:
            assert set(problem.resets) == {0}


def test_rows_and_text_name_the_case_the_row_and_the_run(held: Held) -> None:
    problem = Sum()
    session = held.foreign(problem.reset, problem.compare, math="bf16", flops=48, bytes=96, footprint=128)
    function("bench.add")(session, "ours", "weft", problem.call, None, None)
    plain, named = run(session), run(session, "llama/attention")
    assert plain["text"].startswith("own x=fp32[16]\n") or plain["text"].startswith("own x=fp32[16] ")
    assert named["text"].startswith("llama/attention  own x=fp32[16]")
    assert {row["workload"] for row in plain["rows"]} == {None}
    for row in named["rows"]:
        told = row["workload"], row["run"], row["env"], row["bytes"], row["flops"]
        assert told == ("llama/attention", "r1", "e1", 96, 48)


def test_whose_callables_are_added_is_asked_one_by_one(held: Held) -> None:
    for weft in (False, True):
        for card in (False, True):
            session = held.case(SOFTMAX)
            function("bench.add_own")(session, weft, False, card)
            sides = [row["side"] for row in run(session)["rows"]]
            assert ("weft" in sides) is weft
            assert ("baseline" in sides) is card
    problem = Sum()
    foreign = held.foreign(problem.reset, problem.compare)
    for words in ((True, False), (False, True)):
        with pytest.raises(ValueError, match="its operands are not weft's"):
            function("bench.add_own")(foreign, *words, False)
    function("bench.add_own")(foreign, False, False, False)
    for call in (
        lambda: function("bench.operand")(foreign, 0, "x"),
        lambda: function("bench.chosen")(foreign),
        lambda: function("bench.allow_chain")(foreign, lambda index: ""),
    ):
        with pytest.raises(ValueError, match="its operands are not weft's"):
            call()


def test_a_chain_is_asked_of_the_baseline_that_is_wrong(held: Held) -> None:
    for chain, passes in (("", True), ("out[0,0]", False)):
        session = held.case(SOFTMAX)
        asked: list[int] = []

        def of(index: int, chain: str = chain, asked: list[int] = asked) -> str:
            asked.append(index)
            return chain

        function("bench.allow_chain")(session, of)
        function("bench.add")(session, "theirs", "baseline", lambda index: None, None, None)
        rows = run(session)["rows"]
        assert asked[0] == 0
        assert {bool(row.get("rounds_between")) for row in rows} == {passes}
        assert {"and rounding between steps: out[0,0]" in row.get("why", "") for row in rows} == {not passes}


def test_a_case_s_own_implementation_is_the_one_that_was_asked_for(held: Held) -> None:
    assert function("bench.chosen")(held.case(SOFTMAX)) == function("bench.chosen")(held.case(SOFTMAX))
    named = held.case(SOFTMAX, implementation="nobody")
    function("bench.add_own")(named, True, False, False)
    assert {row["us"] for row in run(named)["rows"]} == {None}


def test_operands_are_views_of_each_set(held: Held) -> None:
    session = held.case(
        "gemm a=fp8_e4m3[6,32] b=fp8_e4m3[16,32] a_scale=fp32[1] b_scale=fp32[1] out=bf16[6,16]"
    )
    code = tvm_ffi.from_dlpack(function("bench.operand")(session, 0, "b"))
    assert (str(code.dtype), tuple(code.shape)) == ("uint8", (16, 32))
    scale = np.from_dlpack(function("bench.operand")(session, 0, "b_scale"))
    again = np.from_dlpack(function("bench.operand")(session, 0, "b_scale"))
    assert scale.shape == (1,) and scale.ctypes.data == again.ctypes.data
    sets: int = run(session)["sets"]
    for none in (-1, sets, sets + 1):
        with pytest.raises(ValueError, match=f"there is no operand set {none} among {sets}"):
            function("bench.operand")(session, none, "b_scale")
    last = np.from_dlpack(function("bench.operand")(session, sets - 1, "b_scale"))
    assert np.array_equal(last, scale)
    for absent in ("bias", "nobody"):
        with pytest.raises(ValueError, match=f"the case has no {absent}"):
            function("bench.operand")(session, 0, absent)


def test_operands_of_int4_come_two_in_a_byte(held: Held) -> None:
    line = "gemm a=bf16[6,128] b=int4[16,128]{256,1} b_group_scale=bf16[16,2] group=64 out=bf16[6,16]"
    packed = function("bench.operand")(held.case(line), 0, "b")
    assert (str(packed.dtype), tuple(packed.shape), tuple(packed.strides)) == ("uint8", (16, 64), (128, 1))


def test_drawn_cases_are_those_of_the_ops_that_are_named() -> None:
    def drawn(ops: list[str], cases: int, seed: int) -> list[str]:
        lines: list[str] = json.loads(function("bench.draw")(json.dumps(ops), cases, seed))
        return lines

    two = drawn(["rope", "amax"], 3, 5)
    assert sorted(line.split()[0] for line in two) == ["amax"] * 3 + ["rope"] * 3
    assert two == drawn(["rope", "amax"], 3, 5) != drawn(["rope", "amax"], 3, 6)
    assert two != drawn(["rope", "amax"], 3, 2**32 + 5), "all bits of a seed count"
    assert {line.split()[0] for line in drawn([], 1, 5)} == set(OPS)
    with pytest.raises(ValueError, match="no op is named ropes"):
        drawn(["rope", "ropes"], 1, 5)


def test_generated_cases_are_those_of_their_seed() -> None:
    first, again, other = (_library.generate_case("rms_norm", seed) for seed in (3, 3, 4))
    assert first is not None and first["op"] == "rms_norm"
    assert first == again != other
    assert first != _library.generate_case("rms_norm", 2**32 + 3), "all bits of a seed count"
    with pytest.raises(ValueError, match="no such op"):
        _library.generate_case("rms_norms", 3)


def test_the_library_says_what_it_was_built_with() -> None:
    assert bool(function("cuda_version")()) == bool(function("cuda_architectures")())


def test_an_array_is_a_view_of_its_memory() -> None:
    memory = np.arange(24, dtype=np.float32)
    array = function("array")(memory.ctypes.data, "fp32", tvm_ffi.Shape((2, 3, 2)), tvm_ffi.Shape((12, 2, 1)))
    view = np.from_dlpack(array)
    assert np.array_equal(view, np.lib.stride_tricks.as_strided(memory, (2, 3, 2), (48, 8, 4)))
    memory[13] = -1
    assert view[1, 0, 1] == -1
    shape = (1, 1, 1, 1, 2, 2)
    most = function("array")(
        memory.ctypes.data, "int32", tvm_ffi.Shape(shape), tvm_ffi.Shape((9, 9, 9, 9, 2, 1))
    )
    assert tuple(most.shape) == shape and str(most.dtype) == "int32"


def test_errors_of_a_call_are_pythons() -> None:
    """A field at fault that is missing, or of a dtype that it does not take, is a TypeError; all else a ValueError."""
    x, flat = np.ones((2, 8), np.float32), np.ones(8, np.float32)
    call = function("op.rms_norm")
    fields = [field.name for field in OPS["rms_norm"].contract.fields]

    def called(**given: Any) -> None:
        call(*[given.get(name) for name in fields])

    for kind, said, given in (
        (TypeError, r"rms_norm\.x: is required", {}),
        (TypeError, r"rms_norm\.x: expected dtype", {"x": x.astype(np.int32), "out": x}),
        (ValueError, r"rms_norm\.weight: expected \[dim=8\]", {"x": x, "weight": x, "out": x}),
        (TypeError, r"rms_norm\.x: expected a tensor, got .*Str", {"x": "x", "out": x}),
        (TypeError, r"rms_norm\.weight: expected a tensor, got int", {"x": x, "weight": 3, "out": x}),
    ):
        with pytest.raises(kind, match=said):
            called(**given)
    out = np.zeros_like(x)
    called(x=x * 3, weight=flat * 2, out=out)
    assert np.allclose(out, 2)


def test_a_choice_is_taken_by_its_word_or_its_number() -> None:
    x = np.linspace(-9, 9, 256, dtype=np.float32).reshape(2, 128)
    contract = OPS["activation"].contract
    (choice,) = [option for option in contract.options if option.kind == "choice" and len(option.choices) > 2]
    order = OPS["activation"].order

    def called(value: Any) -> np.ndarray:
        out = np.zeros_like(x)
        given = {"x": x, "out": out, "alpha": 0.5, choice.name: value}
        function("op.activation")(*[given.get(name) for name in order])
        return out

    results = [called(word) for word in choice.choices]
    for i, result in enumerate(results):
        assert np.array_equal(called(i), result)
        assert not any(np.array_equal(result, other) for other in results[:i])
    default = results[choice.choices.index(choice.default)]
    assert np.array_equal(called(None), default)
    with pytest.raises(
        ValueError, match=rf"activation\.{choice.name}: expected one of {', '.join(choice.choices)}, got"
    ):
        called(choice.choices[0] + "s")


def test_rungs_are_there_after_a_measurement_has_looked_for_one() -> None:
    """The ladder's library may be loaded last."""
    if not _library.PATH.with_name("libweft_ladder.so").exists():
        pytest.skip("this build has no ladder")
    script = f"""
import json
import numpy as np
import weft
from weft._library import function
from weft._op import OPS
session = function("bench.open")("{SOFTMAX}", "cpu", 0, 0, json.dumps({{"rounds": 1, "replay_us": 1}}))
function("bench.add_own")(session, True, False, False)
function("bench.run")(session, "run", "env", "")
from weft import ladder
assert len(ladder.RUNGS) > 100
rungs = json.loads(function("ladder.rungs")())
assert {{rung["wrong"] for rung in rungs}} == {{True, False}}
for rung in rungs:
    assert rung["title"] == rung["lesson"].split("\\n")[0] and rung["op"] in OPS, rung
f32 = [r for r in ladder.RUNGS.values() if r.contract.name == "softmax" and "f32" in r.short and not r.wrong]
x = np.linspace(-4, 4, 256, dtype=np.float32).reshape(16, 16)
softmax = getattr(ladder.softmax, f32[0].short)
assert np.allclose(softmax(x), weft.softmax(x), rtol=1e-5)
try:
    softmax(x.astype(np.float16))
except NotImplementedError as error:
    assert "no implementation for emulator takes this call" in str(error), error
else:
    raise AssertionError
try:
    function("ladder.run")("ladder/softmax/none")
except ValueError as error:
    assert str(error) == "no rung is named 'ladder/softmax/none'", error
else:
    raise AssertionError
"""
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "WEFT_LIBRARY": str(_library.PATH)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
