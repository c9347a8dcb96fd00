"""rounding=eager has the bits of PyTorch's operators, and rounding=fused has others."""

from __future__ import annotations

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
