"""Channel norm and SiLU in Triton: a program holds all channels of a few positions."""

import triton
import triton.language as tl


@triton.jit
def _kernel(
    x, gain, out, positions, eps, root, C: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr
):
    channels = tl.arange(0, BLOCK_C)
    columns = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    at = (
        tl.program_id(1).to(tl.int64) * C * positions
        + channels[:, None].to(tl.int64) * positions
        + columns[None, :]
    )
    here = (channels < C)[:, None] & (columns < positions)[None, :]
    values = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
    length = tl.sqrt_rn(tl.sum(values * values, axis=0))
    length = tl.where(length < eps, eps, length)  # NaN stays NaN
    gains = tl.load(gain + channels, mask=channels < C, other=0.0).to(tl.float32)
    y = values * (root / length)[None, :] * gains[:, None]
    tl.store(out + at, (y / (1 + tl.exp(-y))).to(out.dtype.element_ty), mask=here)


def run(x, gain, eps, out):
    batch, channels, positions = x.shape
    block_c = triton.next_power_of_2(channels)
    # About 64 values a thread; fewer positions a program where there are few altogether.
    block_p = max(16, min(64, 16384 // block_c))
    if positions < 40000:
        block_p = 16
    warps = 8 if block_c * block_p >= 8192 else 4
    _kernel[(triton.cdiv(positions, block_p), batch)](
        x,
        gain,
        out,
        positions,
        eps,
        channels**0.5,
        C=channels,
        BLOCK_C=block_c,
        BLOCK_P=block_p,
        num_warps=warps,
    )
