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


def exact_rows(*shape, dtype):
    """Rows of mean 0 and mean square 25: their statistics are exact in any order, their quotients by 5 are not."""
    x = torch.where(torch.rand(*shape) < 0.5, -1.0, 1.0)
    x[..., 1::2] = -x[..., ::2]
    x[..., shape[-1] // 2 :] *= 7
    return x[..., torch.randperm(shape[-1])].to(dtype).to(DEVICE)


def rms(x):
    """RMSNorm in the models that are written with it, up to the cast."""
    return x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True))


def expect_only(eager, fused, expected):
    """Neither of the two modes passes for the other."""
    assert torch.equal(eager, expected)
    assert not torch.equal(fused, expected)


def operands(dtype, count):
    return [draw(2, 1, 256, dtype=dtype) for _ in range(count)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layer_norm_with_a_modulation(dtype):
    torch.manual_seed(17)
    x = exact_rows(2, 12, 256, dtype=dtype)
    scale, shift, scale2, shift2 = operands(dtype, 4)
    call = {"mod_scale": scale, "mod_shift": shift, "eps": 0}
    n = torch.nn.functional.layer_norm(x, [256], eps=0)
    expected = n * (1 + scale) + shift
    expect_only(weft.layer_norm(x, **call, rounding="eager"), weft.layer_norm(x, **call), expected)
    both = call | {"mod_scale2": scale2, "mod_shift2": shift2, "out2": True, "rounding": "eager"}
    first, second = weft.layer_norm(x, **both)
    assert torch.equal(first, expected)
    assert torch.equal(second, n * (1 + scale2) + shift2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layer_norm_of_a_gated_residual(dtype):
    torch.manual_seed(18)
    gate, residual = draw(2, 1, 256, dtype=dtype), draw(2, 12, 256, dtype=dtype)
    x, (scale, shift) = draw(2, 12, 256, dtype=dtype), operands(dtype, 2)
    call = {"residual": residual, "gate": gate, "residual_out": True, "eps": 1e-6}
    eager = weft.layer_norm(x, **call, mod_scale=scale, mod_shift=shift, rounding="eager")
    fused = weft.layer_norm(x, **call, mod_scale=scale, mod_shift=shift)
    expect_only(eager.residual_out, fused.residual_out, residual + gate * x)
    # The sum's statistics are no exact numbers: the norm of the stored sum is what follows.
    alone = {"mod_scale": scale, "mod_shift": shift, "eps": 1e-6, "rounding": "eager"}
    assert torch.equal(eager.out, weft.layer_norm(eager.residual_out, **alone))


@pytest.mark.parametrize("affine", [False, True])
def test_layer_norm_with_a_modulation_in_fp32(affine):
    """FP32LayerNorm, as in Wan: all is in fp32 up to the cast of the result."""
    torch.manual_seed(19)
    x, (scale, shift) = exact_rows(2, 400, 256, dtype=torch.bfloat16), operands(torch.float32, 2)
    weight, bias = (draw(256, dtype=torch.float32) for _ in range(2)) if affine else (None, None)
    n = torch.nn.functional.layer_norm(x.float(), [256], weight, bias, eps=0)
    expected = (n * (1 + scale) + shift).to(x.dtype)
    call = {"weight": weight, "bias": bias, "mod_scale": scale, "mod_shift": shift, "eps": 0}
    got = weft.layer_norm(x, **call, rounding="eager")
    different = (got != expected).float().mean()  # fp32 before a cast: what a last bit of n leaves behind
    assert different < 1e-3
    narrow = {"mod_scale": scale.to(x.dtype), "mod_shift": shift.to(x.dtype), "eps": 0, "rounding": "eager"}
    if not affine:
        assert (weft.layer_norm(x, **narrow) != expected).float().mean() > 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", ["none", "eager", "eager_cast", "bias"])
def test_rms_norm_with_a_modulation(form, dtype):
    torch.manual_seed(20)
    x, (scale, shift) = exact_rows(2, 12, 256, dtype=dtype), operands(dtype, 2)
    weight, bias = draw(256, dtype=dtype), draw(256, dtype=dtype)
    n = {
        "none": rms(x).to(dtype),
        "eager": (rms(x) * (1 + weight.float())).to(dtype),
        "eager_cast": weight * rms(x).to(dtype),
        "bias": weight * rms(x).to(dtype) + bias,
    }[form]
    call = {"mod_scale": scale, "mod_shift": shift, "eps": 0}
    call |= {} if form == "none" else {"weight": weight}
    call |= {"weight_offset": 1.0} if form == "eager" else {}
    call |= {"bias": bias} if form == "bias" else {}
    mode = "eager" if form in ("none", "eager") else "eager_cast"
    expected = n * (1 + scale) + shift
    expect_only(weft.rms_norm(x, **call | {"rounding": mode}), weft.rms_norm(x, **call), expected)
    if form in ("eager_cast", "bias"):
        other = {name: value for name, value in call.items() if name != "bias"}
        assert not torch.equal(weft.rms_norm(x, **other, rounding="eager"), expected)
        alone = {name: value for name, value in call.items() if not name.startswith("mod")}
        assert torch.equal(weft.rms_norm(x, **alone, rounding="eager_cast"), n)


def test_rms_norm_times_a_tanh():
    """Z-Image: x + gate.tanh() * norm(y)."""
    torch.manual_seed(21)
    x, residual = exact_rows(2, 12, 256, dtype=torch.bfloat16), draw(2, 12, 256, dtype=torch.bfloat16)
    (gate,) = operands(torch.bfloat16, 1)
    call = {"mod_scale": gate, "mod_shift": residual, "mod_offset": 0, "mod_tanh": True, "eps": 0}
    expected = residual + gate.tanh() * rms(x).to(x.dtype)
    expect_only(weft.rms_norm(x, **call, rounding="eager"), weft.rms_norm(x, **call), expected)


def test_rows_of_a_modulation_picked_from_a_table():
    torch.manual_seed(22)
    x = exact_rows(40, 256, dtype=torch.bfloat16)
    scale, shift = (draw(5, 256, dtype=torch.bfloat16) for _ in range(2))
    index = torch.randint(0, 5, (40,), device=DEVICE)
    expected = torch.nn.functional.layer_norm(x, [256], eps=0) * (1 + scale[index]) + shift[index]
    call = {"mod_index": index, "mod_scale": scale, "mod_shift": shift, "eps": 0}
    expect_only(weft.layer_norm(x, **call, rounding="eager"), weft.layer_norm(x, **call), expected)


def turn(x, cos, sin, pairs, *, addcmul=False):
    """x * cos + rotate(x) * sin; `cos` and `sin` have half of x's last axis."""
    a, b = x.chunk(2, -1) if pairs == "half" else (x[..., ::2], x[..., 1::2])
    if addcmul:
        turned = (a * cos).addcmul(-sin, b), (b * cos).addcmul(sin, a)
    else:
        turned = a * cos - b * sin, b * cos + a * sin
    together = torch.cat(turned, -1) if pairs == "half" else torch.stack(turned, -1).flatten(-2)
    return together.to(x.dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("pairs", ["half", "interleaved"])
def test_rope_with_tables_in_fp32(pairs, dtype):
    """Products of 16 bits by fp32 are fp32: nothing but the sum's cast rounds as `fused` does not."""
    torch.manual_seed(23)
    x, cos, sin = draw(2, 9, 3, 32, dtype=dtype), *(draw(9, 16, dtype=torch.float32) for _ in range(2))
    expected = turn(x, cos[:, None], sin[:, None], pairs)
    call = {"cos": cos, "sin": sin, "pairs": pairs}
    assert torch.equal(weft.rope(x, **call, rounding="eager"), expected)
    narrow = {"cos": cos.to(dtype), "sin": sin.to(dtype), "pairs": pairs, "rounding": "eager"}
    assert not torch.equal(weft.rope(x, **narrow), expected)


QK_FORMS = ["plain", "eager", "eager_cast", "addcmul", "fp32 tables", "row", "no norm"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("pairs", ["half", "interleaved"])
@pytest.mark.parametrize("form", QK_FORMS)
def test_qk_norm_rope(form, pairs, dtype):
    torch.manual_seed(24)
    tables = torch.float32 if form == "fp32 tables" else dtype
    row = form == "row"
    q, k = exact_rows(2, 9, 4, 128, dtype=dtype), exact_rows(2, 9, 2, 128, dtype=dtype)
    cos, sin = draw(9, 64, dtype=tables), draw(9, 64, dtype=tables)
    q_weight, k_weight = draw(512 if row else 128, dtype=dtype), draw(256 if row else 128, dtype=dtype)
    mode = "eager" if form in ("plain", "eager", "fp32 tables", "no norm") else "eager_cast"
    call = {"cos": cos, "sin": sin, "pairs": pairs, "eps": 0, "k_out": True}
    call |= {"norm": "none"} if form == "no norm" else {"norm": "row"} if row else {}
    if form not in ("plain", "no norm"):
        call |= {"q_weight": q_weight, "k_weight": k_weight}

    def expected(x, weight):
        n = rms(x.flatten(-2)).view(x.shape) if row else rms(x)
        weight = weight.view(-1, 128)
        normed = {"plain": n.to(dtype), "no norm": x}.get(form)
        if normed is None:
            cast = mode == "eager_cast"
            normed = weight * n.to(dtype) if cast else (n * weight.float()).to(dtype)
        return turn(normed, cos[:, None], sin[:, None], pairs, addcmul=form == "addcmul")

    steps = {"rounding": mode, "addcmul": form == "addcmul"}
    eager, fused = weft.qk_norm_rope(q, k, **call, **steps), weft.qk_norm_rope(q, k, **call)
    expect_only(eager.q_out, fused.q_out, expected(q, q_weight))
    expect_only(eager.k_out, fused.k_out, expected(k, k_weight))
    if form in ("eager_cast", "addcmul"):
        others = steps | ({"rounding": "eager"} if form == "eager_cast" else {"addcmul": False})
        assert not torch.equal(weft.qk_norm_rope(q, k, **call, **others).q_out, eager.q_out)


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
