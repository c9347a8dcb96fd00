"""rounding=eager against the PyTorch operators that it names, bit for bit. Needs a GPU and PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)
weft = pytest.importorskip("weft", exc_type=ImportError)

DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
SHAPES = [
    (1, 128),
    (1, 4096),
    (1, 8192),
    (2, 1152),
    (7, 5120),
    (10, 1024),
    (16, 2048),
    (33, 16384),
    (256, 1152),
]
SHAPES += [
    (968, 2048),
    (4096, 3072),
    (512, 4096),
    (300, 132),
    (5, 3000),
    (64, 65536),
    (3, 130560),
    (20, 130000),
]
EPS = 1e-6


def bits(t):
    return t.view(torch.int32 if t.dtype == torch.float32 else torch.int16)


def inputs(rows, dim, dtype):
    torch.manual_seed(rows * 7 + dim)
    new = lambda *shape: torch.randn(*shape, device="cuda").to(dtype)  # noqa: E731
    return new(rows, dim), new(rows, dim), new(dim), new(dim)


def check(got, expected):
    different = int((bits(got) != bits(expected)).sum())
    assert different == 0, f"{different} of {got.numel()} elements differ with torch {torch.__version__}"


@pytest.mark.parametrize("dtype", DTYPES, ids=DTYPES.values())
@pytest.mark.parametrize(("rows", "dim"), SHAPES)
@pytest.mark.parametrize("mode", ["eager", "eager_cast", "eager with residual"])
def test_rms_norm(rows, dim, dtype, mode):
    x, residual, weight, _ = inputs(rows, dim, dtype)
    tensors = {"x": x, "weight": weight, "out": torch.empty_like(x)}
    if "residual" in mode:
        tensors |= {"residual": residual, "residual_out": torch.empty_like(x)}
        x = x + residual
    n = x.float()
    n = n * torch.rsqrt(n.pow(2).mean(-1, keepdim=True) + EPS)
    cast = mode == "eager_cast"
    expected = weight * n.to(dtype) if cast else (n * (1.0 + weight.float())).to(dtype)
    options = {"rounding": "eager_cast"} if cast else {"rounding": "eager", "weight_offset": 1.0}
    weft.rms_norm(**tensors, eps=EPS, **options)
    check(tensors["out"], expected)
    if "residual" in mode:
        check(tensors["residual_out"], x)


@pytest.mark.parametrize("dtype", DTYPES, ids=DTYPES.values())
@pytest.mark.parametrize(("rows", "dim"), SHAPES)
@pytest.mark.parametrize("affine", [False, True], ids=["plain", "affine"])
def test_layer_norm(rows, dim, dtype, affine):
    x, _, weight, bias = inputs(rows, dim, dtype)
    tensors = {"x": x, "out": torch.empty_like(x)}
    if affine:
        tensors |= {"weight": weight, "bias": bias}
    expected = torch.nn.functional.layer_norm(
        x, [dim], weight if affine else None, bias if affine else None, EPS
    )
    weft.layer_norm(**tensors, eps=EPS, rounding="eager")
    check(tensors["out"], expected)
