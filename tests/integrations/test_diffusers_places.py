"""Where results are written: heads and activations side by side, and sequences that lie behind one another already."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import weft
import weft.diffusers
from weft.diffusers import _backend, _parts

from tests.integrations.device import ATTENDS, DEVICE
from tests.integrations.diffusers_models import differ, made, run

FP32 = 5e-6 if DEVICE.type == "cpu" else 5e-5


@pytest.fixture(autouse=True)
def fresh() -> None:
    _backend.CALLS.clear()


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor | None]:
    """The `out` of weft's attention in each call."""
    found: list[torch.Tensor | None] = []
    attention = weft.attention

    def noted(*args: Any, out: torch.Tensor | None = None, **kwargs: Any) -> Any:
        found.append(out)
        return attention(*args, out=out, **kwargs)

    monkeypatch.setattr(weft, "attention", noted)
    return found


@pytest.mark.skipif(ATTENDS != "weft", reason="weft's attention is asked on a CPU, or in 16 bits")
@pytest.mark.parametrize("name", ["flux", "flux2"])
def test_heads_are_written_beside_the_activation(name: str, places: list[torch.Tensor | None]) -> None:
    model, inputs = made(name)
    expected = run(model, inputs)
    weft.diffusers.accelerate(model)
    assert differ(run(model, inputs), expected) < FP32
    # Two blocks of two streams, whose heads are split afterwards, and two of one.
    assert places[:2] == [None, None]
    for out in places[2:]:
        assert out is not None
        assert out.stride(1) > out.shape[2] * out.shape[3], "a part of longer rows"
    assert len(places) == 4


@pytest.mark.parametrize("name", ["flux", "flux2"])
def test_another_backend_gives_a_tensor_of_its_own(name: str, places: list[torch.Tensor | None]) -> None:
    model, inputs = made(name)
    model.set_attention_backend("native")
    expected = run(model, inputs)
    weft.diffusers.accelerate(model)
    assert differ(run(model, inputs), expected) < FP32
    assert places == []


def test_an_attention_that_is_the_librarys_too() -> None:
    model, inputs = made("flux")
    expected = run(model, inputs)
    weft.diffusers.accelerate(model)
    for block in model.single_transformer_blocks:
        block.attn.norm_k.eps *= 2  # not what the attention was replaced for
        block.attn.norm_q.eps *= 2
    got = run(model, inputs)
    assert 0 < differ(got, expected) < 1e-3
    for block in model.single_transformer_blocks:
        block.attn.norm_k.weight = torch.nn.Parameter(block.attn.norm_k.weight.double(), requires_grad=False)
    report = weft.diffusers.accelerate(model)
    assert differ(run(model, inputs), got) < FP32
    assert any("norm_k: its weight is torch.float64" in str(why) for why in report.passed().values())


def test_an_attention_that_was_never_replaced() -> None:
    model, inputs = made("flux")
    for block in model.single_transformer_blocks:
        block.attn.processor = type("Another", (type(block.attn.processor),), {})()
    expected = run(model, inputs)
    weft.diffusers.accelerate(model)
    assert not hasattr(type(model.single_transformer_blocks[0].attn), "_weft_label")
    assert differ(run(model, inputs), expected) < FP32


@pytest.mark.parametrize("dropout", [0.0, 1e-30])
def test_the_place_is_written_whoever_computes(dropout: float) -> None:
    q = torch.randn(1, 6, 2, 16, device=DEVICE)
    out = torch.zeros(1, 6, 2, 24, device=DEVICE)[..., :16]
    got = _backend._attend(q, q, q, None, dropout, False, None, False, False, out)
    assert got.data_ptr() == out.data_ptr()
    heads = q.transpose(1, 2)
    expected = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2)
    torch.testing.assert_close(out, expected)
    assert _backend.CALLS["dropout"] == (dropout > 0)


def test_a_sequence_behind_another_is_a_view_where_it_lies_there() -> None:
    whole = torch.randn(2, 9, 4, device=DEVICE)
    for at in (0, 1, 5, 8):
        got = _parts.after(whole[:, :at], whole[:, at:])
        assert torch.equal(got, whole)
        assert got.data_ptr() == whole.data_ptr()


@pytest.mark.parametrize("batch", [1, 2])
def test_other_sequences_are_copied(batch: int) -> None:
    whole = torch.randn(batch, 9, 4, device=DEVICE)
    wide = torch.randn(batch, 9, 8, device=DEVICE)
    pairs = [
        (whole[:, 5:], whole[:, :5]),  # the other way round
        (whole[:, :4], whole[:, 5:]),  # with a token between
        (whole[:, :5], whole[:, 4:]),  # one token twice
        (whole[:, :5].clone(), whole[:, 5:]),
        (wide[:, :5, :4], wide[:, 5:, :4]),  # rows with gaps
        (whole[:, :5], whole.half()[:, 5:]),
        (whole[:, :6:2], whole[:, 6::2]),
    ]
    for first, second in pairs:
        got = _parts.after(first, second)
        assert torch.equal(got, torch.cat([first, second], dim=1))
        assert got.untyped_storage().data_ptr() != first.untyped_storage().data_ptr()
