"""How a result is judged: what is too far from the reference, where, and by how much; and operands that show damage."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from weft.task import judge as judging
from weft.task import operands
from weft.task.judge import Judge, Part, _exactly, _moved, _nearly, _spot, differs
from weft.task.operands import GUARD, POISONS, Contents, Operands
from weft.task.outcome import Usage
from weft.task.spec import Field, Task, Tolerance, load

NAN, INF = math.nan, math.inf
OUT = Field("out", "fp32", ("S", "D"))
LOOSE = Tolerance(0.1, 0.01)


def tensor(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


@pytest.mark.parametrize(
    ("got", "right", "good"),
    [
        (1.0, 1.0, True), (1.109, 1.0, True), (1.111, 1.0, False), (0.891, 1.0, True), (0.889, 1.0, False),
        (-100.9, -100.0, True), (-101.2, -100.0, False), (0.0, -0.0, True),
        (NAN, NAN, True), (NAN, 1.0, False), (1.0, NAN, False), (INF, INF, True), (INF, -INF, False),
        (INF, 1e39, True), (1e38, 1e39, False), (-INF, -1e39, True), (INF, -1e39, False), (3e38, INF, False),
    ],
)  # fmt: skip
def test_near(got: float, right: float, good: bool) -> None:
    bad, _ = _nearly(tensor(got), torch.tensor([right], dtype=torch.float64), LOOSE)
    assert bool(bad) is not good


def test_distances_are_in_tolerances() -> None:
    right = tensor(1.0, 10.0, INF, NAN)
    assert _nearly(tensor(1.055, 10.0, INF, NAN), right, LOOSE)[1] == pytest.approx(0.5, abs=1e-5)
    assert _nearly(tensor(1.0, 10.4, INF, NAN), right, LOOSE)[1] == pytest.approx(2.0, abs=1e-5)
    assert _nearly(tensor(NAN, 10.0, INF, NAN), right, LOOSE)[1] == INF
    assert _nearly(tensor(), tensor(), LOOSE)[1] == 0
    assert _nearly(tensor(2.0), tensor(1.0), Tolerance())[1] == 0, "nothing is allowed: there is no unit"
    ints = tensor(3, 4, dtype=torch.int32)
    assert _nearly(ints, tensor(3, 5, dtype=torch.int32), Tolerance(1))[0].tolist() == [False, False]
    assert _nearly(ints, tensor(3, 6, dtype=torch.int32), Tolerance(1))[0].tolist() == [False, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.float8_e4m3fn])
def test_bit_for_bit(dtype: torch.dtype) -> None:
    right = torch.tensor([1.0, 0.0, NAN, -2.0])
    bad, worst = _exactly(right.to(dtype), right)
    assert bad.tolist() == [False] * 4 and worst == 0.0
    for place, value in ((0, 1.125), (1, -0.0), (2, 1.0), (3, NAN)):
        other = right.clone()
        other[place] = value
        bad, worst = _exactly(other.to(dtype), right)
        assert bad.tolist() == [i == place for i in range(4)] and worst == 1.0
    assert _exactly(tensor(-1, 3, dtype=torch.int64), tensor(-1, 4, dtype=torch.int64))[0].tolist() == [
        False,
        True,
    ]


def test_the_first_that_differs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch.arange(12.0).view(3, 4)
    assert differs(right.clone(), right, LOOSE, OUT, Part()) == ("", 0.0)
    got = right.clone()
    got[2, 1] = 9.5
    told = "out[2,1]: got 9.5, expected 9 (atol 0.1, rtol 0.01)"
    assert differs(got, right, LOOSE, OUT, Part())[0] == told
    assert differs(got, right, LOOSE, OUT, Part())[1] == pytest.approx(0.5 / 0.19)
    assert differs(got, right, LOOSE, OUT, Part("S", 7, 10))[0] == told.replace("[2,", "[9,")
    assert differs(got, right, LOOSE, OUT, Part("D", 3, 7))[0] == told.replace(",1]", ",4]")
    assert differs(got, right, LOOSE, OUT, Part("K", 7, 10))[0] == told
    got[1, 3] = got[2, 3] = NAN
    said = differs(got, right, LOOSE, OUT, Part())[0]
    assert said == "out[1,3]: got nan, expected 7 (atol 0.1, rtol 0.01) (3 elements here)"
    monkeypatch.setattr(judging, "_CHUNK", 5)
    said = differs(got, right, LOOSE, OUT, Part())[0]
    assert said == "out[1,3]: got nan, expected 7 (atol 0.1, rtol 0.01) (2 elements here)"
    got[1, 3] = 7.05
    said, worst = differs(got, right, LOOSE, OUT, Part())
    assert said.startswith("out[2,1]: got 9.5") and worst == pytest.approx(0.5 / 0.19), "of all so far"
    exact = differs(right + 0.5, right, Tolerance(exact=True), OUT, Part())
    assert exact == ("out[0,0]: got 0.5, expected 0 (bit for bit) (5 elements here)", 1.0)


def test_an_element_to_move_is_one_that_counts() -> None:
    assert _spot(tensor(0.0, 1.0, 2.0, NAN, 3.0, INF)) == 2
    assert _spot(tensor(0.0, NAN, -INF)) is None
    assert _spot(torch.ones(3, 5)) == 7
    far = torch.zeros((1 << 16) + 3)
    far[1 << 16] = 1
    assert _spot(far) is None, "of the first only"
    assert _spot(tensor(0, 3, dtype=torch.int32)) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn])
@pytest.mark.parametrize("value", [1.0, -3.0, 192.0, 0.0078125])
@pytest.mark.parametrize("tolerance", [LOOSE, Tolerance(1e-3), Tolerance(0, 1e-6), Tolerance(exact=True)])
def test_a_value_moved_is_refused_and_by_little(
    dtype: torch.dtype, value: float, tolerance: Tolerance
) -> None:
    right = torch.tensor([value], dtype=torch.float64)
    moved = _moved(right[0], dtype, tolerance)
    assert (
        moved.dtype == dtype and differs(moved.view(1), right, tolerance, Field("x", "T", ("S",)), Part())[0]
    )
    allowed = 0 if tolerance.exact else tolerance.atol + tolerance.rtol * abs(value)
    distance = abs(float(moved) - value)
    assert allowed < distance <= 2 * allowed + 4 * max(allowed, abs(value) * torch.finfo(dtype).eps)
    if allowed < abs(value) / 4:
        assert abs(float(moved)) <= abs(value), "toward zero"


def test_a_number_that_is_whole_moves_by_whole_steps() -> None:
    value = torch.tensor(7, dtype=torch.int32)
    assert int(_moved(value, torch.int32, Tolerance(exact=True))) == 8
    assert int(_moved(value, torch.int32, Tolerance(3.5))) == 14


TOML = """
[task]
name = "mod"
device = "cpu"
[spec]
reference = "reference.py:mod"
inputs = [
    {{ name = "x", dtype = "T", shape = "S D", low = 3, high = 0.5 }},
    {{ name = "state", dtype = "T", shape = "D", updated = true, fill = "uniform", low = -1, high = 3 }},
    {{ name = "index", dtype = "int32", shape = "S", low = 2, high = 5 }},
]
outputs = [{{ name = "out", dtype = "fp32", shape = "S D" }}]
options = {{ scale = 2.0 }}
{spec}
[tolerance]
out = {{ atol = 1e-3 }}
state = {{ atol = 1e-3 }}
[[workloads]]
name = "row"
S = 64
D = 32
T = "fp32"
"""
REFERENCE = """
def mod(x, state, index, scale):
    return state + 1, (x * scale + index[:, None]).to(x.dtype)
"""


def made(folder: Path, spec: str = "", reference: str = REFERENCE) -> Task:
    (folder / "task.toml").write_text(TOML.format(spec=spec))
    (folder / "reference.py").write_text(reference)
    return load(folder)


def contents(task: Task, seed: int = 1, special: bool = False) -> Contents:
    return Contents(task, task.rows[0], "cpu", seed, special)


def right(held: Contents) -> dict[str, torch.Tensor]:
    x, state, index = (held.inputs[name] for name in ("x", "state", "index"))
    return {"state": state + 1, "out": x * 2 + index[:, None]}


def test_contents_are_as_the_spec_says(tmp_path: Path) -> None:
    task = made(tmp_path)
    held = contents(task).inputs
    assert held["x"].mean() == pytest.approx(3, abs=0.05) and held["x"].std() == pytest.approx(0.5, abs=0.05)
    assert -1 <= held["state"].min() < -0.5 and 2 < held["state"].max() <= 3
    assert set(held["index"].tolist()) == {2, 3, 4} and held["index"].dtype == torch.int32
    again, other = contents(task).inputs, contents(task, seed=2).inputs
    assert all(torch.equal(held[name], again[name]) for name in held)
    assert not torch.equal(held["x"], other["x"])
    special = contents(task, special=True).inputs
    strange = {
        name: int((~t.isfinite() | ((t == 0) & t.signbit())).sum())
        for name, t in special.items()
        if name != "index"
    }
    assert 1 <= strange["state"] <= 1 and 1 <= strange["x"] <= 64 * 32 // 400
    assert special["state"].isnan().sum() == 1
    once_more = contents(task, special=True).inputs
    assert all(
        torch.equal(operands._bytes(special[name]), operands._bytes(once_more[name])) for name in special
    )


def test_a_right_result_and_wrong_ones(tmp_path: Path) -> None:
    held = contents(made(tmp_path))
    judge = Judge(held)
    good = right(held)
    assert judge.compare(good) == "" and judge.worst < 0.01 and judge.checked_on == ""
    assert judge.compare(good | {"state": good["state"] + 5e-4}) == "" and judge.worst == pytest.approx(
        0.5, abs=0.01
    )
    assert judge.compare(good | {"out": good["out"] + 1}).startswith("out[0,0]: got ") and judge.worst > 900
    assert judge.compare(good | {"state": good["state"] - 1}).startswith("state[0]: got ")
    assert judge.compare(good) == "" and judge.worst < 0.01, "of the last comparison"
    assert judge.insensitive(good) == ""


def test_a_tolerance_that_refuses_nothing_is_told(tmp_path: Path) -> None:
    held = contents(made(tmp_path))
    judge = Judge(held)
    judge.tolerances["out"] = Tolerance(INF)
    assert judge.insensitive(right(held)) == (
        "out with one element off by twice the tolerance passes: atol inf, rtol 0 refuses nothing here"
    )
    judge.tolerances["out"] = Tolerance(1000.0)
    assert judge.insensitive(right(held)) == "out of zeros passes: atol 1000, rtol 0 is wider than the values"


def test_special_values_may_be_one(tmp_path: Path) -> None:
    task = made(tmp_path, reference="def mod(x, state, index, scale):\n    return state, x / 0\n")
    held = contents(task)
    infinite = {"state": held.inputs["state"], "out": torch.full((64, 32), NAN)}
    assert "expected inf" in Judge(held).compare(infinite)
    task.raw["verify"] = {"special": "nonfinite"}
    assert Judge(contents(task)).compare(infinite) == ""
    finite = infinite | {"out": torch.zeros(64, 32)}
    assert "got 0, expected inf" in Judge(contents(task)).compare(finite)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (
            "def mod(*given, scale):\n    raise KeyError('k')\n",
            "the reference failed on row 'row': KeyError: 'k'",
        ),
        (
            "def mod(x, state, index, scale):\n    return x\n",
            "the reference returned 1 results; the spec writes state, out",
        ),
        (
            "def mod(x, state, index, scale):\n    return state, x[1:]\n",
            "the reference's out has the shape [63, 32], the spec's [64, 32]",
        ),
    ],
)
def test_what_is_said_of_a_reference(tmp_path: Path, reference: str, said: str) -> None:
    with pytest.raises(Usage) as raised:
        Judge(contents(made(tmp_path, reference=reference)))
    assert str(raised.value) == said


def test_a_reference_is_named(tmp_path: Path) -> None:
    for name in ("reference.py", ":mod", ""):
        task = made(tmp_path)
        task.raw["spec"]["reference"] = name
        with pytest.raises(Usage, match=r"^task\.toml: spec\.reference is FILE:FUNCTION$"):
            judging.reference_of(task)


def test_precision_is_double_unless_given(tmp_path: Path) -> None:
    seen: list[torch.dtype] = []

    def reference(x: torch.Tensor, state: torch.Tensor, index: torch.Tensor, scale: float) -> Any:
        seen.extend((x.dtype, index.dtype))
        assert scale == 2.0 and not torch.is_grad_enabled()
        return [state, x]

    Judge(contents(made(tmp_path)), reference=reference)
    Judge(contents(made(tmp_path, 'precision = "given"')), reference=reference)
    assert seen == [torch.float64, torch.int32, torch.float32, torch.int32]


def test_a_large_row_is_judged_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = contents(made(tmp_path, 'independent = "S"'))
    everything = sum(t.numel() for t in held.inputs.values())
    monkeypatch.setitem(judging._MOST, "cpu", everything)
    assert Judge(held).parts == [Part()] and Judge(held).checked_on == ""
    monkeypatch.setitem(judging._MOST, "cpu", everything // 2)
    judge = Judge(held, seed=5)
    each = 64 // 2 // 6
    assert judge.parts[0] == Part("S", 0, each) and judge.parts[-1] == Part("S", 64 - each, 64)
    assert 2 < len(judge.parts) <= 6 and all(part.end - part.begin == each for part in judge.parts)
    assert [part.begin for part in judge.parts] == sorted({part.begin for part in judge.parts})
    ranges = ", ".join(f"{part.begin}-{part.end - 1}" for part in judge.parts)
    assert judge.checked_on == f"S {ranges} of 64"
    assert Judge(held, seed=5).parts == judge.parts != Judge(held, seed=6).parts
    good = right(held)
    assert judge.compare(good) == "" and judge.insensitive(good) == ""
    for place, seen in ((0, True), (63, True), (judge.parts[1].begin, True)):
        wrong = good["out"].clone()
        wrong[place, 3] += 1
        assert (judge.compare(good | {"out": wrong}) != "") is seen
        assert f"out[{place},3]: got" in judge.compare(good | {"out": wrong})
    monkeypatch.setitem(judging._MOST, "cpu", 1)
    assert all(part.end - part.begin == 1 for part in Judge(held).parts)
    monkeypatch.setitem(judging._MOST, "cpu", 1)
    assert Judge(contents(made(tmp_path))).parts == [Part()], "no axis is independent"


@pytest.mark.parametrize("poison", POISONS)
def test_operands_show_what_a_call_did(tmp_path: Path, poison: int) -> None:
    task = made(tmp_path)
    held = contents(task)
    one = Operands(held, poison)
    sizes = {"x": 64 * 32 * 4, "state": 32 * 4, "index": 64 * 4, "out": 64 * 32 * 4}
    assert one.footprint == sum(sizes.values()) + 4 * 2 * GUARD and list(one.written) == ["state", "out"]
    assert all(torch.equal(one.tensors[name], held.inputs[name]) for name in held.inputs)
    assert bool((operands._bytes(one.tensors["out"]) == poison).all()) and one.damage() == ""
    if poison == 0xFF:
        assert bool(one.tensors["out"].isnan().all())
    one.tensors["out"].fill_(3)
    one.tensors["state"].add_(1)
    assert one.damage() == "", "these are the call's to write"
    one.reset()
    assert torch.equal(one.tensors["state"], held.inputs["state"])
    assert bool((operands._bytes(one.tensors["out"]) == poison).all())
    for name, size in sizes.items():
        for end, at in (("before", GUARD - 1), ("before", 0), ("after", GUARD + size), ("after", -1)):
            whole = one._whole[name]
            was = int(whole[at])
            whole[at] = was ^ 1
            assert one.damage() == f"it wrote {end} {name}: the guard there is overwritten"
            one.reset()
            assert one.damage() == ""
    one.tensors["index"][3] += 1
    assert one.damage() == "the input index is changed"


def test_a_call_s_arguments(tmp_path: Path) -> None:
    task = made(tmp_path)
    named = {name: torch.tensor(i) for i, name in enumerate(("out", "index", "state", "x"))}
    call = operands.arguments(task, task.rows[0], named)
    assert call == [named["x"], named["state"], named["index"], 2.0, named["out"]]
