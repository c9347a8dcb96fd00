"""weft.swap.read_norm: what a norm computes, where it rounds, and what is said of what is none."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from weft import swap
from weft.swap import _modules

pytest.importorskip("accelerate")

from tests.integrations.test_swap import RECIPES, Scale
from tests.integrations.test_swap_tables import raising


class Chain(nn.Module):
    """An RMS norm that rounds as it is told."""

    def __init__(self, how, offset=0.0, weight=True):
        super().__init__()
        self.how, self.offset, self.norm_eps = how, offset, 1e-6
        self.weight = nn.Parameter(torch.ones(32)) if weight else None

    def forward(self, x):
        n = x.float()
        n = n * torch.rsqrt(n.pow(2).mean(-1, keepdim=True) + self.norm_eps)
        if self.weight is None:
            return n.to(x.dtype)
        if self.how == "eager_cast":
            return (self.weight if not self.offset else self.weight + 1.0) * n.to(x.dtype)
        if self.how == "eager":
            return (n * (self.weight.float() + self.offset)).to(x.dtype)
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.norm_eps)) * (
            self.weight + self.offset
        )


@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("how", ["eager_cast", "eager", "fused"])
def test_roundings_of_norms(how, offset):
    found = swap.read_norm(Chain(how, offset))
    assert found == swap.Norm("rms", 1e-6, offset, True, False, how)
    bare = swap.read_norm(Chain(how, weight=False))
    assert bare == swap.Norm("rms", 1e-6, 0.0, False, False, "eager")


@pytest.mark.parametrize("name", ["eps", "variance_epsilon", "epsilon", "norm_eps"])
def test_an_eps_by_any_name(name):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(32))
            setattr(self, name, 1e-3)

        def forward(self, x):
            n = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + getattr(self, name))
            return (n * self.weight.float()).to(x.dtype)

    assert swap.read_norm(Named()) == swap.Norm("rms", 1e-3, 0.0, True, False, "eager")


class Odd(nn.Module):
    def __init__(self, result):
        super().__init__()
        self.result = result

    def forward(self, x):
        return self.result(x)


def test_what_is_said_of_what_is_no_norm():
    assert swap.read_norm(nn.LayerNorm((4, 4))) == "it normalises over more than one axis"
    for result in (lambda x: x[:, :3], lambda x: (x, x), lambda x: None):
        assert swap.read_norm(Odd(result)) == "it does not return one tensor of its input's shape"
    assert (
        swap.read_norm(Odd(raising(RuntimeError("boom"))))
        == "it cannot be tried on a row: RuntimeError: boom"
    )
    assert (
        swap.read_norm(Odd(lambda x: 2 * x))
        == "it computes neither an RMS norm nor a layer norm of its eps and weight"
    )
    assert swap.read_norm(nn.LayerNorm(8, bias=False)) == swap.Norm("layer", 1e-5, 0.0, True, False, "fused")
    biased = nn.LayerNorm(8)
    assert swap.read_norm(biased) == swap.Norm("layer", 1e-5, 0.0, True, True, "fused")


def test_a_norm_is_read_as_it_was_before_it_was_swapped_or_hooked():
    norm = Scale(eps=1e-4)
    before = swap.read_norm(norm)
    swap.apply(norm, RECIPES)
    assert swap.read_norm(norm) == before and swap.report(norm).calls() == {"": 0}
    norm.forward = lambda x: 2 * x
    assert swap.read_norm(norm) == before == swap.Norm("rms", 1e-4, 0.0, True, False, "eager")
    twin = _modules._twin(norm, Scale, torch.bfloat16, 3)
    assert type(twin) is Scale and "forward" not in vars(twin) and twin.weight.dtype == torch.bfloat16
    assert not twin.weight.requires_grad and norm.weight.dtype == torch.float32
    again = _modules._twin(norm, Scale, torch.bfloat16, 3)
    assert torch.equal(again.weight, twin.weight) and vars(again).keys() == vars(twin).keys()
