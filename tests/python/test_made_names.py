"""Names whose positions, frequencies and tables weft makes: rotations of a video's tokens, and tables in fp64."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import weft
from weft._made import frequencies_of_axes, rows_of_axes

GRID = (3, 4, 5)
THIRDS = {64: (20, 20, 24), 128: (42, 42, 44), 48: (16, 16, 16), 4: (0, 0, 4), 7: (2, 2, 2)}
BASES = (10000.0, 10000.0, 10000.0)


def heads(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(shape, generator=generator).to(dtype) for _ in "qk"]


def turned(x, dims, bases=BASES, grid=GRID):
    """Neighbours of each section turn by the token's place on that section's axis; in float64, from fp32 angles."""
    place = torch.cartesian_prod(*(torch.arange(size) for size in grid)).float()
    out, begin = x.double(), 0
    for axis, (dim, base) in enumerate(zip(dims, bases, strict=True)):
        frequencies = torch.tensor([base ** (-2 * i / dim) for i in range(dim // 2)], dtype=torch.float32)
        angle = (place[:, axis, None] * frequencies).double()[:, None]
        a, b = (x[..., begin + at : begin + dim : 2].double() for at in (0, 1))
        out[..., begin : begin + dim : 2] = a * angle.cos() - b * angle.sin()
        out[..., begin + 1 : begin + dim : 2] = a * angle.sin() + b * angle.cos()
        begin += dim
    return out


@pytest.mark.parametrize("batch", [(), (1,), (2,)])
@pytest.mark.parametrize("head_dim", THIRDS)
def test_thirds_of_a_head_turn_by_frame_row_and_column(head_dim, batch):
    q, k = heads(*batch, 60, 3, head_dim)
    expected = [turned(x, THIRDS[head_dim], (500.0,) * 3) for x in (q, k)]
    result = weft.names.rope_3d(q, k, *GRID, theta_base=500)
    assert result._fields == ("q", "k") and result.q is q and result.k is k
    for got, exact in zip(result, expected, strict=True):
        torch.testing.assert_close(got.double(), exact, atol=2e-6, rtol=1e-6)


def test_a_third_s_base_is_10000_unless_given():
    for call in (
        lambda q, k: weft.names.rope_3d(q, k, *GRID),
        lambda q, k: weft.names.rope_3d_extended(q, k, *GRID, 20, 20, 24),
    ):
        q, k = heads(60, 2, 64)
        expected = turned(k, THIRDS[64])
        torch.testing.assert_close(call(q, k).k.double(), expected, atol=2e-6, rtol=1e-6)


def test_sections_of_given_sizes_turn_by_bases_of_their_own():
    dims, bases = (16, 24, 12), (100.0, 1000.0, 5000.0)  # the last 12 elements stay
    for dtype, step in ((torch.float32, 2e-6), (torch.bfloat16, 2**-8), (torch.float16, 2**-11)):
        q, k = heads(2, 60, 3, 64, dtype=dtype)
        expected = [turned(x, dims, bases) for x in (q, k)]
        weft.names.rope_3d_extended(q, k, *GRID, *dims, 100, theta_base_w=5000, theta_base_h=1000.0)
        for got, exact in zip((q, k), expected, strict=True):
            torch.testing.assert_close(got.double(), exact, atol=step, rtol=step)
            assert torch.equal(got[..., 52:].double(), exact[..., 52:])


def test_other_grids_have_other_positions():
    for grid in (GRID, (5, 4, 3), (60, 1, 1), (1, 1, 60)):
        q, k = heads(1, 60, 2, 48)
        expected = turned(q, THIRDS[48], grid=grid)
        torch.testing.assert_close(weft.names.rope_3d(q, k, *grid).q.double(), expected, atol=1e-5, rtol=1e-6)


def axis_tables(grid, dims):
    """Cosines and sines of each axis in turn, as the source takes them; no two are alike."""
    generator = torch.Generator().manual_seed(9)
    return [torch.rand(n, d // 2, generator=generator) for n, d in zip(grid, dims, strict=True) for _ in "cs"]


def chain(x, tables, dims):
    """The rotation in PyTorch's operators, in fp32."""
    parts, begin = [], 0
    for axis, dim in enumerate(dims):
        shape = [1] * 6
        shape[1 + axis], shape[5] = x.shape[1 + axis], dim // 2
        cos, sin = (table.reshape(shape) for table in tables[2 * axis : 2 * axis + 2])
        a, b = (x[..., begin + at : begin + dim : 2].float() for at in (0, 1))
        parts.append(torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype))
        begin += dim
    return torch.cat(parts, -1)


@pytest.mark.parametrize("dims", [(16, 24, 24), (2, 4, 58), (30, 32, 2)])
@pytest.mark.parametrize("grid", [(3, 7, 5), (1, 1, 1), (1, 2, 9), (8, 1, 2)])
def test_axes_with_tables_of_their_own_have_pytorch_s_bits(dims, grid):
    q, k = heads(2, *grid, 3, 64, dtype=torch.bfloat16)
    kept, tables = q.clone(), axis_tables(grid, dims)
    result = weft.names.fused_ltx25_decoder_rope(q, k, *tables, *dims[:2])
    assert result._fields == ("q", "k") and torch.equal(q, kept)
    assert torch.equal(result.q, chain(q, tables, dims))
    assert torch.equal(result.k, chain(k, tables, dims))
    once = weft.names.fused_ltx25_decoder_rope(q, k, *tables, *dims[:2], rounding="fused")
    torch.testing.assert_close(once.q.float(), result.q.float(), atol=1e-6, rtol=2**-7)


def test_tables_in_fp64_are_rounded_to_fp32():
    q, k = heads(2, 129, 5, 112, dtype=torch.bfloat16)
    generator = torch.Generator().manual_seed(2)
    cos, sin = torch.randn(2, 1, 129, 1, 112, generator=generator, dtype=torch.float64)
    result = weft.names.fused_interleaved_rope_fp64(q, k, cos, sin)
    assert result._fields == ("q", "k")
    for got, x in zip(result, (q, k), strict=True):
        a, b, c, s = x[..., ::2].double(), x[..., 1::2].double(), cos[..., ::2], sin[..., 1::2]
        exact = torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)
        differ = got != exact.float().bfloat16()
        assert differ.float().mean() < 1e-4
        size = (a * c).abs().max() + (b * s).abs().max()
        assert ((got.double() - exact).abs() <= 2**-8 * exact.abs() + 1e-6 * size).all()


@pytest.mark.parametrize("dynamic", [None, True])
def test_what_is_made_compiles(dynamic):
    torch._dynamo.reset()
    turn = torch.compile(weft.names.rope_3d, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    axes = weft.names.fused_ltx25_decoder_rope
    by_tables = torch.compile(axes, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    before = len(weft.torch._CONSTANTS)
    for frames in (2, 3):
        q, k = heads(1, frames * 20, 2, 48)
        expected = turned(q, THIRDS[48], grid=(frames, 4, 5))
        torch.testing.assert_close(turn(q, k, frames, 4, 5).q.double(), expected, atol=2e-6, rtol=1e-6)
        q, k = heads(1, frames, 4, 5, 2, 64, dtype=torch.bfloat16)
        tables = axis_tables((frames, 4, 5), (16, 24, 24))
        assert torch.equal(by_tables(q, k, *tables, 16, 24).k, chain(k, tables, (16, 24, 24)))
    assert len(weft.torch._CONSTANTS) == before


def test_pytorch_makes_what_depends_on_numbers_once(monkeypatch):
    monkeypatch.setattr(weft.torch, "_CONSTANTS", {})
    for _ in range(2):
        weft.names.rope_3d(*heads(2, 60, 3, 64), *GRID)
    kept = list(weft.torch._CONSTANTS.values())
    assert [tuple(tensor.shape) for tensor in kept] == [(32,), (3, 60)]
    weft.names.rope_3d(*heads(60, 1, 64), *GRID)
    assert all(a is b for a, b in zip(kept, weft.torch._CONSTANTS.values(), strict=True))


MADE = (
    (rows_of_axes, (GRID, (8, 12, 12), (0, 16, 88))),
    (frequencies_of_axes, ((4, 6, 2), (100.0, 9.0, 2.0))),
)


@pytest.mark.parametrize(("make", "numbers"), MADE, ids=["rows", "frequencies"])
def test_what_is_made_is_beside_its_tensor(monkeypatch, make, numbers):
    by_numpy, by_torch = make(np, {}, *numbers), make(torch, {}, *numbers)
    assert torch.from_numpy(by_numpy).dtype == by_torch.dtype
    torch.testing.assert_close(torch.from_numpy(by_numpy), by_torch)
    monkeypatch.setattr(weft.torch, "_CONSTANTS", {})
    assert make(torch, {"device": "meta"}, *numbers).is_meta
    assert weft.torch.constant(make, numbers, torch.empty(1, device="meta")).is_meta
    assert not weft.torch.constant(make, numbers, torch.empty(1)).is_meta


def test_a_graph_is_not_captured_of_the_first_call(monkeypatch):
    like: Any = SimpleNamespace(is_cuda=True, device=torch.device("cpu"))
    make, numbers = MADE[0]
    monkeypatch.setattr(weft.torch, "_CONSTANTS", {})
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="can't be captured in a graph: run it once before"):
        weft.torch.constant(make, numbers, like)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    made = weft.torch.constant(make, numbers, like)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert weft.torch.constant(make, numbers, like) is made


def test_tracers_leave_nothing_behind(monkeypatch):
    monkeypatch.setattr(weft.torch, "_CONSTANTS", {})
    with torch._subclasses.FakeTensorMode():
        weft.names.rope_3d(torch.empty(60, 2, 48), torch.empty(60, 2, 48), *GRID)
    assert not weft.torch._CONSTANTS


def test_numpy_and_jax_arrays():
    q, k = heads(2, 60, 3, 64)
    expected = turned(q, THIRDS[64]), turned(k, THIRDS[64])
    arrays = [q.numpy(), k.numpy()]
    copies = [array.copy() for array in arrays]
    weft.names.rope_3d(*copies, *GRID)
    tables = axis_tables((3, 4, 5), (16, 24, 24))
    video = [x.reshape(2, 3, 4, 5, 3, 64) for x in (q, k)]
    by_tables = [chain(x, tables, (16, 24, 24)).numpy() for x in video]
    for got, exact in zip(copies, expected, strict=True):
        np.testing.assert_allclose(got, exact, atol=2e-6)
    axes = weft.names.fused_ltx25_decoder_rope
    given = [tensor.numpy() for tensor in (*video, *tables)]
    for got, exact in zip(axes(*given, 16, 24), by_tables, strict=True):
        np.testing.assert_array_equal(got, exact)

    jax = pytest.importorskip("jax")
    pytest.importorskip("jax_tvm_ffi")
    for function in (weft.names.rope_3d, jax.jit(weft.names.rope_3d, static_argnums=(2, 3, 4))):
        result = function(*map(jax.numpy.asarray, arrays), *GRID)
        for got, exact in zip(result, expected, strict=True):
            np.testing.assert_allclose(np.asarray(got), exact, atol=2e-6)
    for function in (axes, jax.jit(axes, static_argnums=(8, 9))):
        result = function(*map(jax.numpy.asarray, given), 16, 24)
        for got, exact in zip(result, by_tables, strict=True):
            np.testing.assert_array_equal(np.asarray(got), exact)


def test_what_they_refuse():
    q, k = heads(2, 60, 3, 64)
    video, dims = heads(1, *GRID, 2, 64), (16, 24, 24)
    tables = axis_tables(GRID, dims)
    sections = weft.names.rope_3d_extended
    axes = weft.names.fused_ltx25_decoder_rope
    said = "expected sections of even sizes in a head of 64, got "
    for call, error, message in (
        (lambda: weft.names.rope_3d(q, k, 3, 4), TypeError, "needs width"),
        (lambda: weft.names.rope_3d(q, k, 3, 4, 4), ValueError, r"positions: expected .*tokens=60.*48"),
        (lambda: weft.names.rope_3d(q, k, *GRID, 1, 1), TypeError, "takes 6 positional arguments, got 7"),
        (lambda: sections(q, k, *GRID, 16, 24, 26), ValueError, said + "16, 24, 26"),
        (lambda: sections(q, k, *GRID, 15, 24, 24), ValueError, said + "15, 24, 24"),
        (lambda: sections(q, k, *GRID, 40, -4, 24), ValueError, said + "40, -4, 24"),
        (lambda: sections(q, k, *GRID, 0, 0, 0), ValueError, said + "0, 0, 0"),
        (lambda: axes(*video, *tables, 16, 26), ValueError, r"cos_h: expected \[4, 13\], got \[4, 12\]"),
        (
            lambda: axes(*video, *axis_tables((3, 4, 6), dims), 16, 24),
            ValueError,
            r"cos_w: expected \[5, 12\], got \[6, 12\]",
        ),
    ):
        with pytest.raises(error, match=message):
            call()


def test_who_makes_no_positions_says_so():
    tvm_ffi = pytest.importorskip("tvm_ffi")
    q, k = (tvm_ffi.from_dlpack(x) for x in heads(60, 3, 64))
    with pytest.raises(TypeError, match="positions are made for PyTorch, JAX and NumPy"):
        weft.names.rope_3d(q, k, *GRID)


def test_their_help_says_what_is_made():
    said = weft.names.rope_3d.__doc__ or ""
    assert said.startswith(
        "rope_3d(q, k, num_frames, height, width, [theta_base]): weft.qk_norm_rope(norm=none, "
        "pairs=interleaved, q_out=@q, k_out=@k, makes=video_thirds). Source: Hugging Face"
    )
