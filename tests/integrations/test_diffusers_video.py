"""What LTX-Video's blocks have in common: the mask of the text's keys, and the tables of the rotation."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
import torch

pytest.importorskip("diffusers")

import weft.diffusers
from diffusers.models.attention_dispatch import AttentionBackendName
from diffusers.pipelines.pipeline_loading_utils import _fetch_class_library_tuple
from weft import swap
from weft.diffusers import _backend, _sources, _video
from weft.swap._recipe import TRACED_PASSES

from tests.integrations.device import ATTENDS, DEVICE
from tests.integrations.diffusers_models import differ, made, run

FP32 = 5e-6 if DEVICE.type == "cpu" else 5e-5  # of the largest number: rounding in another order
SHIFTED = 2e-4  # scores less 10000, of which the library's fp32 keeps three digits behind the point


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    TRACED_PASSES.clear()
    _backend.CALLS.clear()


def masks() -> dict[str, torch.Tensor]:
    partly = torch.ones(2, 6, dtype=torch.int64)
    partly[1, 4:] = 0
    apart = partly.bool()
    apart[0, ::2] = False
    ones = torch.ones_like(partly)
    nothing = ones.clone()
    nothing[0] = 0
    return {"partly": partly, "apart": apart, "ones": ones, "nothing": nothing}


def ltx(mask: torch.Tensor | None) -> tuple[Any, dict[str, Any]]:
    model, inputs = made("ltx")
    return model, inputs | {"encoder_attention_mask": None if mask is None else mask.to(DEVICE)}


def refuse(*_: Any) -> None:
    raise AssertionError("somebody looked at the values of a mask, which waits for the GPU")


@pytest.mark.parametrize("name", masks())
def test_the_mask_is_one_of_keys(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weft's attention takes cross-attention, and nobody asks what the mask's values are."""
    model, inputs = ltx(masks()[name])
    expected = run(model, inputs)
    report = weft.diffusers.accelerate(model)
    monkeypatch.setattr(_backend, "_why_not_masked", refuse)
    assert differ(run(model, inputs), expected) < (SHIFTED if name == "nothing" else FP32)
    assert weft.diffusers.attention_calls() == Counter({ATTENDS: 4})
    assert report.calls()[""] == report.calls()["transformer_blocks.1.attn2"] == 1
    assert report.passed() == {}
    unmasked = run(model, inputs | {"encoder_attention_mask": masks()["ones"].to(DEVICE)})
    assert (differ(unmasked, expected) > 1e-3) == (name in ("partly", "apart"))


@pytest.mark.parametrize("name", masks())
@pytest.mark.parametrize("whole", [True, False])
def test_compiled(whole: bool, name: str) -> None:
    model, inputs = ltx(masks()[name])
    expected = run(model, inputs)
    report = weft.diffusers.accelerate(model)
    if whole:
        model.compile(fullgraph=True, backend="aot_eager")
    else:
        model.compile_repeated_blocks(fullgraph=True, backend="aot_eager")
    assert differ(run(model, inputs), expected) < (SHIFTED if name == "nothing" else FP32)
    assert set(weft.diffusers.attention_calls()) == {ATTENDS}
    assert report.silent() == []
    assert report.passed() == {}


def test_compiled_without_a_mask() -> None:
    model, inputs = ltx(None)
    expected = run(model, inputs)
    weft.diffusers.accelerate(model)
    model.compile(fullgraph=True, backend="aot_eager")
    assert differ(run(model, inputs), expected) < FP32
    assert set(weft.diffusers.attention_calls()) == {ATTENDS}


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (masks()["partly"].float(), "a mask of torch.float32 and 2 axes"),
        (masks()["partly"][:, None] * 3.0 - 3.0, "a mask of torch.float32 and 3 axes"),
    ],
)
def test_masks_that_may_say_more_are_left_alone(mask: torch.Tensor, reason: str) -> None:
    model, inputs = ltx(mask)
    expected = run(model, inputs)
    report = weft.diffusers.accelerate(model)
    assert differ(run(model, inputs), expected) < FP32
    assert next(iter(report.passed()[""])).startswith(reason)
    assert report.passed()["transformer_blocks.0.attn2"].total() == 1


def test_a_mask_for_other_attention_is_the_librarys() -> None:
    """One cross-attention that is not weft's is enough: the model makes one mask for all."""

    def chosen(model: Any) -> None:
        model.transformer_blocks[1].attn2.processor._attention_backend = AttentionBackendName("_native_math")

    def another(model: Any) -> None:
        processor = model.transformer_blocks[1].attn2.processor
        processor.__class__ = type("Other", (type(processor),), {})

    def undone(model: Any) -> None:
        swap.undo(model.transformer_blocks[1].attn2)

    for change, reason in (
        (chosen, "attn2: its attention is not weft's"),
        (another, "attn2: its processor is a Other"),
        (undone, "attn2: it is none of weft's"),
    ):
        model, inputs = ltx(masks()["partly"])
        expected = run(model, inputs)
        report = weft.diffusers.accelerate(model)
        change(model)
        assert differ(run(model, inputs), expected) < FP32
        assert report.passed()[""] == {reason: 1}


def test_a_model_of_another_source_makes_its_own_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_sources.SOURCES, "LTXVideoTransformer3DModel", "0" * 64)
    target = "diffusers.models.transformers.transformer_ltx.LTXVideoTransformer3DModel"
    strange = _sources.recipe("mask of keys", target, _video._prepare_ltx_model)
    recipes = [recipe for recipe in weft.diffusers.RECIPES if recipe.target != target]
    monkeypatch.setattr(weft.diffusers, "RECIPES", (strange, *recipes))
    model, inputs = ltx(masks()["partly"])
    expected = run(model, inputs)
    report = weft.diffusers.accelerate(model)
    assert [row.reason[:14] for row in report.declined] == ["unknown source"]
    assert differ(run(model, inputs), expected) < FP32
    assert report.passed().keys() == {f"transformer_blocks.{i}.attn2" for i in range(2)}


def test_a_boolean_mask_of_other_axes_is_the_processors() -> None:
    """An attention that is called by itself: a mask of each query stays that of diffusers' processor."""
    model, _ = made("ltx")
    attn = model.transformer_blocks[0].attn2
    x, text = (torch.randn(2, tokens, 32, device=DEVICE) for tokens in (5, 6))
    mask = torch.ones(2, 5, 6, dtype=torch.bool, device=DEVICE).tril()
    with torch.no_grad():
        expected = attn(x, text, mask)
        report = weft.diffusers.accelerate(model)
        assert differ(attn(x, text, mask), expected) < FP32
    assert report.calls()["transformer_blocks.0.attn2"] == 0


def test_a_pipeline_finds_the_class_of_its_model() -> None:
    model, _ = made("ltx")
    before = _fetch_class_library_tuple(model), set(vars(model))
    weft.diffusers.accelerate(model)
    assert _fetch_class_library_tuple(model) == before[0] == ("diffusers", "LTXVideoTransformer3DModel")
    weft.diffusers.undo(model)
    assert (_fetch_class_library_tuple(model), set(vars(model))) == before


# --- tables ---


def copies(model: Any, inputs: dict[str, Any], whole: bool) -> list[int]:
    """How many tensors each graph of a compiled model makes contiguous."""
    counts = []

    def count(graph: Any, _: Any) -> Any:
        counts.append(sum(node.target == "contiguous" for node in graph.graph.nodes))
        return graph

    if whole:
        model.compile(fullgraph=True, backend=count)
    else:
        model.compile_repeated_blocks(fullgraph=True, backend=count)
    run(model, inputs)
    return counts


@pytest.mark.parametrize(("whole", "expected"), [(True, [2]), (False, [0])])
def test_tables_are_copied_once_a_step(whole: bool, expected: list[int]) -> None:
    """Of both tables, half: in the graph of a whole model, and outside of those of its blocks."""
    model, inputs = made("ltx")
    weft.diffusers.accelerate(model)
    assert copies(model, inputs, whole) == expected


def test_tables_from_somewhere_else() -> None:
    """A rotary embedding that is not weft's: each compiled block copies, and eager blocks share what the first did."""
    model, inputs = made("ltx")
    expected = run(model, inputs)
    weft.diffusers.accelerate(model)
    swap.undo(model.rope)
    assert differ(run(model, inputs), expected) < FP32
    table = torch.randn(2, 12, 16, device=DEVICE).repeat_interleave(2, -1)
    assert _video._half(table, 2).data_ptr() == _video._half(table, 2).data_ptr()
    assert torch.equal(_video._half(table, 2).flatten(2), table[..., ::2])
    assert copies(copy.deepcopy(model), inputs, False) == [2]
