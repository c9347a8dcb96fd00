"""Every rung of the ladder from Python: in the emulator on CPU tensors, beside the op's own result on the CPU."""

from __future__ import annotations

import csv
import re

import pytest
import torch
import weft
from weft import _library
from weft._op import OPS
from weft.torch import DTYPES

from tests.paths import ROOT

if not _library.PATH.with_name("libweft_ladder.so").exists():
    pytest.skip("this build has no ladder", allow_module_level=True)

from weft import ladder

SIZE = "16"  # of every letter of a form: whole vectors, and less than a tile


def forms(topic: str) -> list[str]:
    """The topic's case lines, with a size for each letter."""
    lines = (ROOT / "ladder" / topic / "forms.txt").read_text().splitlines()
    return [re.sub(r"(?<=[\[,{])[A-Z]\b", SIZE, line) for line in lines if line and not line.startswith("#")]


def tensors_of(line: str) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    """A case's inputs and options."""
    case = _library.parse_case(line)
    generator = torch.Generator().manual_seed(1)
    inputs = {}
    for field in OPS[case["op"]].contract.inputs:
        spec = case["tensors"].get(field.name)
        if spec is None:
            continue
        shape, dtype = spec["shape"], DTYPES[spec["dtype"]]
        if dtype in (torch.int32, torch.int8, torch.uint8):
            values = torch.randint(0, 8, shape, generator=generator, dtype=torch.int32).to(dtype)
        else:
            values = torch.randn(shape, generator=generator).to(dtype)
        strides = spec.get("strides") or spec.get("stride")
        if strides and len(shape) == 2 and list(strides) == [1, shape[0]]:
            values = values.t().contiguous().t()
        inputs[field.name] = values
    return inputs, case["options"]


def results(written: object) -> tuple[torch.Tensor, ...]:
    return tuple(written) if isinstance(written, tuple) else (written,)  # type: ignore[return-value]


@pytest.mark.parametrize("name", sorted(ladder.RUNGS))
def test_every_rung_gives_what_its_op_gives(name: str) -> None:
    rung = ladder.RUNGS[name]
    call = getattr(getattr(ladder, rung.topic), rung.short)
    op = getattr(weft, rung.contract.name)
    taken = 0
    for line in forms(rung.topic):
        inputs, options = tensors_of(line)
        case = _library.parse_case(line)
        outputs = {
            f"{field.name}_dtype": case["tensors"][field.name]["dtype"]
            for field in rung.contract.typed_outputs
            if case["tensors"].get(field.name)
        }
        try:
            got = call(**inputs, **options, **outputs)
        except NotImplementedError:
            continue
        taken += 1
        if rung.wrong:
            break
        for one, other in zip(results(got), results(op(**inputs, **options, **outputs)), strict=True):
            torch.testing.assert_close(one.float(), other.float(), rtol=2e-2, atol=2e-2)
        if taken == 2:
            break
    assert taken > 0, "it takes none of its topic's forms"


def test_names_of_the_collections_are_there() -> None:
    with (ROOT / "ladder" / "names.csv").open(newline="", encoding="utf-8") as table:
        for row in csv.DictReader(table):
            assert (row["name"] in ladder.named) == bool(row["rungs"]), row["name"]
    x = torch.randn(3, 33)
    torch.testing.assert_close(ladder.named["safe_softmax_f32"](x), torch.softmax(x, -1))
    torch.testing.assert_close(ladder.named["relu_f32"](x), torch.relu(x))
