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


def test_gates_picked_from_a_table():
    torch.manual_seed(13)
    x, residual = draw(2, 40, 64, dtype=torch.bfloat16)
    gate, index = draw(5, 64, dtype=torch.bfloat16), torch.randint(0, 5, (40,), device=DEVICE)
    expected = residual + x * gate[index]
    call = {"gate": gate, "index": index}
    assert torch.equal(weft.residual_add(x, residual, **call, rounding="eager"), expected)
    assert not torch.equal(weft.residual_add(x, residual, **call), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("pairs", ["half", "interleaved"])
def test_rope(pairs, dtype):
    torch.manual_seed(14)
    x, cos, sin = (draw(*shape, dtype=dtype) for shape in ((2, 9, 3, 32), (9, 16), (9, 16)))
    halves = x.chunk(2, -1) if pairs == "half" else (x[..., ::2], x[..., 1::2])
    turned = torch.cat((-halves[1], halves[0]), -1)
    if pairs == "interleaved":
        turned = turned.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
    wide = [
        torch.cat((t, t), -1)[:, None] if pairs == "half" else t.repeat_interleave(2, -1)[:, None]
        for t in (cos, sin)
    ]
    expected = x * wide[0] + turned * wide[1]
    assert torch.equal(weft.rope(x, cos=cos, sin=sin, pairs=pairs, rounding="eager"), expected)
    if dtype != torch.float32:
        assert not torch.equal(weft.rope(x, cos=cos, sin=sin, pairs=pairs), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_norm_over_channels_of_given_lengths(dtype):
    torch.manual_seed(15)
    x, weight, bias = draw(2, 48, 35, dtype=dtype), draw(48, dtype=dtype), draw(48, dtype=dtype)
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp_min(1e-12)
    call = {"weight": weight, "bias": bias, "length": length}
    expected = x / length * 48**0.5 * weight[:, None] + bias[:, None]
    assert torch.equal(weft.channel_rms_norm(x, **call, rounding="eager"), expected)
    if dtype != torch.float32:
        assert not torch.equal(weft.channel_rms_norm(x, **call), expected)


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
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", ["silu", "gelu_tanh", "gelu_erf"])
def test_gated_activations_have_the_operators_bits(name, dtype):
    torch.manual_seed(16)
    gate, up = 3 * draw(200, 1000, dtype=dtype), draw(200, 1000, dtype=dtype)
    gate_bias, up_bias = draw(1000, dtype=dtype), draw(1000, dtype=dtype)
    act = ACTIVATIONS[name]
    call = {"gate": gate, "up": up, "activation": name}
    assert torch.equal(weft.gated_activation(**call, rounding="eager"), act(gate) * up)  # type: ignore[operator]
    if dtype != torch.float32:
        assert not torch.equal(weft.gated_activation(**call), act(gate) * up)  # type: ignore[operator]
    call |= {"gate_bias": gate_bias, "up_bias": up_bias}
    expected = act(gate + gate_bias) * (up + up_bias)  # type: ignore[operator]
    assert torch.equal(weft.gated_activation(**call, rounding="eager"), expected)


@pytest.mark.skipif(DEVICE == "cpu", reason="the CPU's reference computes in double")
def test_timestep_embedding():
    t = torch.rand(300, device=DEVICE) * 1000
    exponent = -math.log(10000) * torch.arange(128, dtype=torch.float32, device=DEVICE) / 128
    angle = t[:, None] * torch.exp(exponent)[None]
    expected = torch.cat([torch.sin(angle), torch.cos(angle)], -1)
    assert torch.equal(weft.timestep_embedding(t, dim=256), expected)
