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


CHAINS = [(33, 5120), (256, 1152), (968, 2048), (4096, 3072)]


@pytest.mark.parametrize("dtype", DTYPES, ids=DTYPES.values())
@pytest.mark.parametrize(("rows", "dim"), CHAINS)
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_norm_of_a_gated_residual_with_a_modulation(norm, rows, dim, dtype):
    x, residual, gate, scale = inputs(rows, dim, dtype)
    shift = scale.flip(0)
    r = residual + gate * x
    if norm == "layer":
        n = torch.nn.functional.layer_norm(r, [dim], eps=EPS)
    else:
        n = r.float()
        n = (n * torch.rsqrt(n.pow(2).mean(-1, keepdim=True) + EPS)).to(dtype)
    op = weft.layer_norm if norm == "layer" else weft.rms_norm
    call = {"residual": residual, "gate": gate, "mod_scale": scale, "mod_shift": shift}
    y, stored = op(x, **call, residual_out=True, eps=EPS, rounding="eager")
    check(stored, r)
    check(y, n * (1 + scale) + shift)


@pytest.mark.parametrize("dtype", DTYPES, ids=DTYPES.values())
@pytest.mark.parametrize("shape", [(47, 24, 128), (1024, 4, 256), (64, 40, 128)])
@pytest.mark.parametrize("norm", ["head", "row"])
@pytest.mark.parametrize("mode", ["eager", "eager_cast"])
def test_qk_norm_rope(mode, norm, shape, dtype):
    tokens, heads, dim = shape
    q, _, weight, _ = inputs(tokens * heads, dim, dtype)
    q = q.view(tokens, heads, dim)
    if norm == "row":
        weight = inputs(1, heads * dim, dtype)[2]
    cos, sin = inputs(tokens, dim // 2, dtype)[:2]
    n = q.float().flatten(-2) if norm == "row" else q.float()
    n = n * torch.rsqrt(n.pow(2).mean(-1, keepdim=True) + EPS)
    n = weight * n.to(dtype) if mode == "eager_cast" else (n * weight.float()).to(dtype)
    a, b = n.view_as(q).chunk(2, -1)
    c, s = cos[:, None], sin[:, None]
    expected = torch.cat([a * c - b * s, b * c + a * s], -1)
    got = weft.qk_norm_rope(q, q_weight=weight, cos=cos, sin=sin, norm=norm, eps=EPS, rounding=mode)
    check(got, expected)
