"""Products with the activation behind them: weft's where it may read the Linear's weight, else the Linear's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import weft
from torch import nn
from weft import swap
from weft.diffusers import _products

from tests.integrations.device import DEVICE

KINDS = {"gelu_tanh": nn.GELU("tanh"), "gelu_erf": nn.GELU(), "silu": nn.SiLU()}


class Hooked(nn.Linear):
    """A class that no kernel may look through, as an adapter's is."""


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why products were left to their Linears."""
    reasons: list[str] = []
    monkeypatch.setattr(swap, "handed_on", lambda module, reason: reasons.append(reason))
    return reasons


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("front", [None, 5])
@pytest.mark.parametrize("made", [nn.Linear, Hooked])
def test_an_activation_behind_its_product(
    kind: _products.Activation, bias: bool, front: int | None, made: type[nn.Linear], said: list[str]
) -> None:
    linear = made(24, 40, bias=bias).to(DEVICE, torch.bfloat16).requires_grad_(False)
    x = torch.randn(2, 7, 24, device=DEVICE, dtype=torch.bfloat16)
    before = None if front is None else torch.randn(2, 7, front, device=DEVICE, dtype=torch.bfloat16)

    def given(into: torch.Tensor | None) -> torch.Tensor:
        assert before is not None
        assert (into is None) == (made is Hooked), "there is a place for it where weft has the product"
        return before if into is None else into.copy_(before)

    if front is None:
        got = _products.activated(linear, linear, x, kind)
    else:
        got = _products.activated_behind(linear, linear, x, kind, given, front)
    expected = KINDS[kind](nn.functional.linear(x.float(), *(p.float() for p in linear.parameters())))
    assert got.is_contiguous()
    if before is not None:
        assert torch.equal(got[..., :front], before), "the front stays as it is"
    torch.testing.assert_close(got[..., front:].float(), expected, atol=0.02, rtol=0.02)
    assert said == ([] if made is nn.Linear else ["its product: it is a Hooked, not nn.Linear"])


def test_weft_has_the_product_in_one_call(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    calls: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        op = getattr(weft, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return op(*args, **kwargs)

        return call

    linear = nn.Linear(24, 40, device=DEVICE, dtype=torch.bfloat16).requires_grad_(False)
    x = torch.randn(3, 24, device=DEVICE, dtype=torch.bfloat16)
    for name in ("gemm", "activation"):
        monkeypatch.setattr(weft, name, counted(name))
    _products.activated(linear, linear, x, "silu")
    _products.activated_behind(linear, linear, x, "silu", lambda into: torch.zeros(3, 8), 8)
    assert calls == ["gemm", "gemm"]
    other = nn.Linear(24, 40, device=DEVICE).requires_grad_(False)
    with pytest.raises(RuntimeError):  # the Linear's own refusal of another dtype
        _products.activated(other, other, x, "silu")
    assert said == ["its product: its weight is torch.float32 beside torch.bfloat16"]
