"""rounding=eager has the bits of PyTorch's operators, and rounding=fused has others."""

from __future__ import annotations

import math

import pytest
import torch
import weft

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def draw(*shape, dtype):
    return torch.randn(*shape, dtype=torch.float32).to(dtype).to(DEVICE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_modulate(dtype):
    torch.manual_seed(7)
    x, shift = draw(2, 12, 96, dtype=dtype), draw(2, 12, 96, dtype=dtype)
    scale = draw(2, 1, 96, dtype=dtype)
    expected = x * (1 + scale) + shift
    assert torch.equal(weft.modulate(x, scale=scale, shift=shift, rounding="eager"), expected)
    if dtype != torch.float32:
        assert not torch.equal(weft.modulate(x, scale=scale, shift=shift), expected)
    assert torch.equal(weft.modulate(x, scale=scale[:, 0], offset=0, rounding="eager"), x * scale)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_residual_add(dtype):
    torch.manual_seed(8)
    x, residual = draw(3, 40, 64, dtype=dtype), draw(3, 40, 64, dtype=dtype)
    bias, gate = draw(64, dtype=dtype), draw(3, 1, 64, dtype=dtype)
    expected = residual + (x + bias) * gate
    assert torch.equal(weft.residual_add(x, residual, bias=bias, gate=gate, rounding="eager"), expected)
    assert not torch.equal(weft.residual_add(x, residual, bias=bias, gate=gate), expected)


def test_rows_picked_from_a_table():
    torch.manual_seed(9)
    x, scale, shift = (
        draw(40, 64, dtype=torch.bfloat16),
        *(draw(5, 64, dtype=torch.bfloat16) for _ in range(2)),
    )
    index = torch.randint(0, 5, (40,), device=DEVICE)
    expected = x * (1 + scale[index]) + shift[index]
    assert torch.equal(weft.modulate(x, index=index, scale=scale, shift=shift, rounding="eager"), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_euler_step(dtype):
    torch.manual_seed(10)
    sample, velocity, conditional = (draw(3, 40, 64, dtype=dtype) for _ in range(3))
    tensors = {"velocity": velocity, "sample": sample, "conditional": conditional}
    expected = sample + 0.1 * (velocity + 4.5 * (conditional - velocity))
    assert torch.equal(weft.euler_step(**tensors, step=0.1, guidance=4.5, rounding="eager"), expected)
    if dtype != torch.float32:
        assert not torch.equal(weft.euler_step(**tensors, step=0.1, guidance=4.5), expected)
    wide = sample.float()
    assert torch.equal(
        weft.euler_step(velocity, sample=wide, step=-0.25, rounding="eager"), wide - 0.25 * velocity
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_before_an_activation(dtype):
    torch.manual_seed(11)
    x, add, bias = draw(40, 64, dtype=dtype), draw(40, 64, dtype=dtype), draw(64, dtype=dtype)
    call = {"add": add, "bias": bias, "activation": "relu"}
    expected = torch.relu(x + add + bias)
    assert torch.equal(weft.activation(x, **call, rounding="eager"), expected)
    assert not torch.equal(weft.activation(x, **call), expected)


ACTIVATIONS = {
    "silu": torch.nn.functional.silu,
    "sigmoid": torch.sigmoid,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "gelu_erf": torch.nn.functional.gelu,
    "hardswish": torch.nn.functional.hardswish,
}


@pytest.mark.skipif(DEVICE == "cpu", reason="the CPU's reference computes in double")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_have_the_operators_bits(name, dtype):
    torch.manual_seed(12)
    x = 3 * draw(200, 1000, dtype=dtype)
    assert torch.equal(weft.activation(x, activation=name, rounding="eager"), ACTIVATIONS[name](x))  # type: ignore[operator]


@pytest.mark.skipif(DEVICE == "cpu", reason="the CPU's reference computes in double")
def test_timestep_embedding():
    t = torch.rand(300, device=DEVICE) * 1000
    exponent = -math.log(10000) * torch.arange(128, dtype=torch.float32, device=DEVICE) / 128
    angle = t[:, None] * torch.exp(exponent)[None]
    expected = torch.cat([torch.sin(angle), torch.cos(angle)], -1)
    assert torch.equal(weft.timestep_embedding(t, dim=256), expected)
