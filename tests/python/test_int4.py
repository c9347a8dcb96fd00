"""Weights of int4 as Python has them: two in a byte of uint8, the even column in the low nibble."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import weft
from weft.torch import DTYPES, NAMES

ROWS, LENGTH, GROUP = 24, 256, 64


def checkpoint() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Unsigned codes and zero points as AWQ has them, scales, and the weights that they stand for."""
    generator = torch.Generator().manual_seed(3)
    codes = torch.randint(0, 16, (ROWS, LENGTH), generator=generator, dtype=torch.uint8)
    zeros = torch.randint(0, 16, (ROWS, LENGTH // GROUP), generator=generator, dtype=torch.uint8)
    scales = torch.rand(zeros.shape, generator=generator) * 0.01 + 0.001

    def spread(groups: torch.Tensor) -> torch.Tensor:
        return groups.float().repeat_interleave(GROUP, 1)

    return codes, zeros, scales, (codes.float() - spread(zeros)) * spread(scales)


def test_unsigned_checkpoints_become_int4() -> None:
    codes, zeros, scales, weights = checkpoint()
    packed = (codes[:, ::2] | codes[:, 1::2] << 4) ^ 0x88
    a = torch.randn(5, LENGTH, generator=torch.Generator().manual_seed(4))
    zero = zeros.to(torch.int8) - 8
    out = weft.gemm(a, packed, b_group_scale=scales, b_group_zero=zero, group=GROUP)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, a @ weights.T, rtol=1e-5, atol=1e-5)
    arrays = [tensor.numpy() for tensor in (a, packed, scales, zero)]
    same = weft.gemm(
        arrays[0], arrays[1], b_group_scale=arrays[2], b_group_zero=arrays[3], group=GROUP, out_dtype="fp32"
    )
    assert np.array_equal(same, out.numpy())


def test_rows_of_bytes_may_lie_apart() -> None:
    codes, _, scales, _ = checkpoint()
    packed = codes[:, ::2] | codes[:, 1::2] << 4
    wide = torch.full((ROWS, LENGTH), 255, dtype=torch.uint8)[:, : LENGTH // 2]
    wide.copy_(packed)
    a = torch.ones(1, LENGTH, dtype=torch.bfloat16)
    assert torch.equal(
        weft.gemm(a, wide, b_group_scale=scales, group=GROUP),
        weft.gemm(a, packed, b_group_scale=scales, group=GROUP),
    )


def test_bytes_are_int4_where_a_field_takes_no_uint8() -> None:
    packed = torch.zeros(ROWS, LENGTH // 2, dtype=torch.uint8)
    a = torch.ones(1, LENGTH, dtype=torch.bfloat16)
    with pytest.raises(TypeError, match=r"gemm\.b_group_scale: expected one for int4, got none"):
        weft.gemm(a, packed)
    with pytest.raises(ValueError, match=r"gemm\.b: expected \[n=24, k=128\], got \[24, 256\]"):
        weft.gemm(a[:, :128], packed)
    with pytest.raises(TypeError, match=r"gemm\.bias: expected dtype fp32, bf16, fp16, got uint8"):
        weft.gemm(a, a, bias=torch.zeros(1, dtype=torch.uint8))
    assert DTYPES["int4"] == torch.uint8 and NAMES[torch.uint8] == "uint8"
