"""Names whose calls fill one result together: the heads of Q, K and V, packed by the rank that they go to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import weft

pack = weft.names.pack_qkv_destination_major


def packed(tensors, ranks):
    """What goes to each rank: of every row its own heads, of each head Q beside K beside V."""
    per_rank = tensors[0].shape[1] // ranks
    mine = [[t[:, rank * per_rank : (rank + 1) * per_rank] for t in tensors] for rank in range(ranks)]
    return torch.stack([torch.cat(parts, -1) for parts in mine])


def projection(rows=5, heads=6, head_dim=16):
    """Q, K and V as views of one projection."""
    qkv = torch.randn(rows, 3, heads, head_dim, generator=torch.Generator().manual_seed(1))
    return qkv.bfloat16().unbind(1)


@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_each_rank_gets_its_heads(ranks):
    q, k, v = projection()
    for tensors in ((q, k, v), (q.contiguous(), k.contiguous(), v)):
        result = pack(*tensors, ranks)
        assert result.is_contiguous() and torch.equal(result, packed(tensors, ranks))


def test_it_goes_into_what_is_given():
    tensors = projection()
    out = torch.full((2, 5, 3, 48), 7.0).bfloat16()
    assert pack(*tensors, world_size=2, out=out) is out
    assert torch.equal(out, packed(tensors, 2))


def test_nothing_is_packed_of_no_rows():
    assert pack(*projection(rows=0), 2).shape == (2, 0, 3, 48)


@pytest.mark.parametrize("dynamic", [None, True])
def test_it_compiles(dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(pack, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for ranks in (3, 2):
        tensors = projection()
        assert torch.equal(compiled(*tensors, ranks), packed(tensors, ranks))


def test_it_packs_arrays_of_numpy_and_jax():
    tensors = [tensor.float() for tensor in projection()]
    arrays, expected = [tensor.numpy() for tensor in tensors], packed(tensors, 2).numpy()
    np.testing.assert_array_equal(pack(*arrays, 2), expected)
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax_tvm_ffi")
    values = [jax.numpy.asarray(array) for array in arrays]
    for function in (pack, jax.jit(pack, static_argnums=3)):
        np.testing.assert_array_equal(np.asarray(function(*values, 2)), expected)
    with pytest.raises(TypeError, match="JAX arrays can't be written to"):
        pack(*values, 2, out=jax.numpy.zeros(expected.shape))


def test_an_entry_may_fill_several_results():
    fixed = ("x=a out=*first.1of2", "x=b out=*second.1of2", "x=b out=*first.2of2", "x=a out=*second.2of2")
    line = {"name": "both", "op": "copy", "fields": "a=fp32 b=fp32", "source": "here", "differs": ""}
    (row,) = weft.names._entry([line | {"fixed": words} for words in fixed])
    both, (a, b) = weft.names._function(row), torch.randn(2, 3, 4)
    expected = torch.cat((a, b), -1), torch.cat((b, a), -1)
    first = torch.empty(3, 8)
    given = both(a, b, first=first)
    assert given._fields == ("first", "second") and given.first is first
    torch.testing.assert_close(tuple(given), expected)
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax_tvm_ffi")
    joined = both(jax.numpy.asarray(a.numpy()), jax.numpy.asarray(b.numpy()))
    assert joined._fields == ("first", "second")
    for got, exact in zip(joined, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(got), exact.numpy())


def test_what_it_refuses():
    q, k, v = projection()
    for call, error, said in (
        (lambda: pack(q, k, v, 4), ValueError, "expected a number of ranks that divides the 6 heads, got 4"),
        (lambda: pack(q, k, v, 0), ValueError, "expected a number of ranks that divides the 6 heads, got 0"),
        (lambda: pack(q, k[:, :4], v, 2), ValueError, r"copy\.x: expected"),
        (lambda: pack(q, k, v, 2, out=q.new_empty(2, 5, 3, 49)), ValueError, "out: expected rows of 3 parts"),
        (lambda: pack(q, k, v, 2, out=q.new_empty(2, 4, 3, 48)), ValueError, r"copy\.x: expected"),
        (lambda: pack(q, k, v), TypeError, "needs world_size"),
        (lambda: pack(q, k, v, 2, q), TypeError, "takes 4 positional arguments, got 5"),
        (lambda: pack(q, k, v, 2, out_dtype="fp16"), TypeError, "has no parameter 'out_dtype'"),
    ):
        with pytest.raises(error, match=said):
            call()
