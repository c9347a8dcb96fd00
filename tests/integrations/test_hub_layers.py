"""weft.hub's layers on small numbers, beside the modules that they stand in for."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional
from weft.hub import layers

from tests.integrations.conftest import TOOL

X = torch.linspace(-3, 3, 24).view(2, 3, 4)


def as_layer(layer: type[nn.Module], module: nn.Module, *given: object, **named: object) -> torch.Tensor:
    """As `kernelize` does it: the layer's forward with the module for self."""
    with torch.no_grad():
        result: torch.Tensor = layer.forward(module, *given, **named)
    return result


def halves_of(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]


ACTIVATIONS = {
    layers.SiLU: functional.silu,
    layers.GeLU: functional.gelu,
    layers.GeluTanh: lambda x: functional.gelu(x, approximate="tanh"),
    layers.NewGELU: lambda x: functional.gelu(x, approximate="tanh"),
    layers.FastGELU: lambda x: functional.gelu(x, approximate="tanh"),
    layers.QuickGELU: lambda x: x * torch.sigmoid(1.702 * x),
    layers.SiluAndMul: lambda x: functional.silu(halves_of(x)[0]) * halves_of(x)[1],
    layers.GeluAndMul: lambda x: functional.gelu(halves_of(x)[0]) * halves_of(x)[1],
    layers.GeluTanhAndMul: lambda x: functional.gelu(halves_of(x)[0], approximate="tanh") * halves_of(x)[1],
}


@pytest.mark.parametrize("layer", ACTIVATIONS, ids=lambda layer: layer.__name__)
def test_activations(layer):
    torch.testing.assert_close(as_layer(layer, nn.Identity(), X), ACTIVATIONS[layer](X), rtol=1e-5, atol=1e-6)
    assert layer.can_torch_compile and not layer.has_backward


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_is_that_of_the_module(approximate):
    got = as_layer(layers.GeLU, nn.GELU(approximate), X)
    torch.testing.assert_close(got, functional.gelu(X, approximate=approximate), rtol=1e-5, atol=1e-6)


class Cast(nn.Module):
    """A norm whose last step is weight * row, in the dtype of both; or whose weight counts from 1."""

    def __init__(self, offset=0.0, dtype=torch.float32, weight=True, cast=False):
        super().__init__()
        self.eps, self.offset, self.cast = 1e-3, offset, cast
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 4).to(dtype)) if weight else None

    def forward(self, x):
        n = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        if self.weight is None:
            return n.to(x.dtype)
        if self.cast:
            return (self.weight + 1.0) * n.to(x.dtype)
        if self.offset:
            return (n * (self.offset + self.weight.float())).to(x.dtype)
        return self.weight * n.to(x.dtype)


@pytest.mark.parametrize(
    "module",
    [
        Cast(), Cast(dtype=torch.bfloat16), Cast(1.0), Cast(1.0, cast=True), Cast(weight=False),
        nn.RMSNorm(4, eps=1e-5),
        nn.RMSNorm(4, eps=1e-2, elementwise_affine=False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norms(module, dtype):
    x = X.to(dtype)
    with torch.no_grad():
        if isinstance(module, nn.RMSNorm):
            module = module.to(dtype)
        expected = module(x)
    for _ in range(2):
        got = as_layer(layers.RMSNorm, module, x)
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected, rtol=1e-6 if dtype == torch.float32 else 0.01, atol=1e-6)


@pytest.mark.parametrize("module", [Cast(), Cast(1.0), Cast(1.0, cast=True), Cast(weight=False)])
def test_rows_that_are_summed_in_another_order_are_rounded_once(module, monkeypatch):
    """As a GPU's kernels of eager sums decline rows of 64: such a model was refused when it ran."""
    monkeypatch.setattr(layers, "_in_order", lambda on_gpu, rows, dim: False)
    asked, run = [], weft.rms_norm

    def asks(*tensors, **options):
        asked.append(options["rounding"])
        return run(*tensors, **options)

    monkeypatch.setattr(weft, "rms_norm", asks)
    x = X.to(torch.bfloat16)
    with torch.no_grad():
        expected = module(x)
    got = as_layer(layers.RMSNorm, module, x)
    torch.testing.assert_close(got, expected, rtol=0.01, atol=1e-6)
    assert asked == ["fused"]


@pytest.mark.parametrize(
    "rows, dim",
    [
        (5, 124),
        (5, 128),
        (5, 130),
        (7, 4096),
        (1, 130560),
        (1, 130564),
        (1 << 17, 4096),
        ((1 << 17) + 1, 4096),
    ],
)
def test_which_rows_are_summed_in_order_is_what_the_dispatcher_says(rows, dim):
    case = f"rms_norm x=bf16[{rows},{dim}] weight=bf16[{dim}] rounding=eager_cast"
    said = subprocess.run(
        [TOOL, "explain", case, "--device", "h100"], check=False, capture_output=True, text=True
    )
    assert said.returncode in (0, 3), said.stderr
    assert (said.returncode == 0) == layers._in_order(True, rows, dim), said.stdout
    assert layers._in_order(False, rows, dim)


class Bare(nn.Module):
    """A norm that has no parameters, not even by name."""

    def __init__(self):
        super().__init__()
        self.eps = 1e-3

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


def test_a_norm_need_not_have_a_weight():
    torch.testing.assert_close(as_layer(layers.RMSNorm, Bare(), X), Bare()(X), rtol=1e-6, atol=1e-6)


def test_a_norm_is_tried_once(monkeypatch):
    module = Cast(1.0)
    found = layers._norm(module)
    assert found == (1e-3, 1.0, "eager")
    monkeypatch.setattr(layers, "read_norm", lambda module: "never asked")
    assert layers._norm(module) == found
    with pytest.raises(NotImplementedError) as raised:
        layers._norm(nn.SiLU())
    assert str(raised.value) == "weft's RMSNorm can't stand in for SiLU: never asked"
    monkeypatch.undo()
    with pytest.raises(NotImplementedError, match=r"for LayerNorm: it is a layer norm$"):
        layers._norm(nn.LayerNorm(4))


def turned(x, cos, sin, pairs):
    if pairs == "half":
        a, b = halves_of(x)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


def rotary(pairs, layout):
    """A model's own: pairs of halves or neighbours, and a table in one of three forms."""

    class Rotary(nn.Module):
        def forward(self, q, k, cos, sin, unsqueeze_dim=1):
            half = q.shape[-1] // 2
            if cos.shape[-1] != (half if layout == "single" else 2 * half):
                raise RuntimeError("tables of another width")
            tables = []
            for table in (cos, sin):
                one = {"halves": table[..., :half], "repeated": table[..., ::2], "single": table}[layout]
                tables.append(one.unsqueeze(unsqueeze_dim))
            cos, sin = tables
            return turned(q, cos, sin, pairs), turned(k, cos, sin, pairs)

    return Rotary()


@pytest.mark.parametrize("pairs", ["half", "interleaved"])
@pytest.mark.parametrize("layout", ["halves", "repeated", "single"])
@pytest.mark.parametrize("tables", [1, 2])
@pytest.mark.parametrize("axis", [1, 2])
def test_rotary_functions(pairs, layout, tables, axis):
    module = rotary(pairs, layout)
    angles = torch.linspace(0, 3, tables * 3 * 4).view(tables, 3, 4)
    cos, sin = angles.cos(), angles.sin()
    if layout == "halves":
        cos, sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
    elif layout == "repeated":
        cos, sin = cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1)
    q, k = torch.randn(2, 5, 3, 8), torch.randn(2, 2, 3, 8)
    if axis == 2:
        q, k = q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous()
    expected = module(q, k, cos, sin, axis)
    for _ in range(2):
        got = as_layer(layers.rotary_pos_emb, module, q, k, cos, sin, axis)
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    if axis == 1:
        got = as_layer(layers.rotary_pos_emb, module, q, k, cos, sin)
        torch.testing.assert_close(got[1], expected[1], rtol=1e-5, atol=1e-6)
    found = layers._pairs(module)
    assert found == (pairs, layout) and layers._PAIRS[module] == found


def test_a_rotary_function_is_tried_on_the_cpu_wherever_models_are_made():
    for device in ("meta", "cpu"):
        with torch.device(device):
            assert layers._pairs(rotary("half", "halves")) == ("half", "halves")


class Other(nn.Module):
    def __init__(self, result):
        super().__init__()
        self.result = result

    def forward(self, q, k, cos, sin):
        return RESULTS[-1](q, k)


RESULTS = [lambda q, k: (q, k), lambda q, k: (q[0], k), lambda q, k: (q, -k)]


def test_what_turns_otherwise_is_refused(monkeypatch):
    said = "weft's rotary_pos_emb can't stand in for this model's: it turns neither halves nor neighbours of a head"
    for result in tuple(RESULTS):
        monkeypatch.setattr(sys.modules[__name__], "RESULTS", [result])
        with pytest.raises(NotImplementedError) as raised:
            layers._pairs(Other(None))
        assert str(raised.value) == said
    half = rotary("half", "single")

    class KeyLeft(type(half)):
        def forward(self, q, k, *given):
            return super().forward(q, k, *given)[0], k

    with pytest.raises(NotImplementedError, match="neither halves nor neighbours"):
        layers._pairs(KeyLeft())
    for axis in (0, 3):
        with pytest.raises(NotImplementedError) as axes:
            as_layer(layers.rotary_pos_emb, half, X, X, X, X, axis)
        assert str(axes.value) == f"rotary_pos_emb: heads lie along axis 1 or 2, not {axis}"
