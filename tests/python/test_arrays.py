"""NumPy and JAX: every op, bit for bit the reference's results, and their errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import weft
import weft.numpy
from weft import _library
from weft._op import OPS

from tests.python import cases

EVERY_OP = pytest.mark.parametrize("op", OPS)


def to_numpy(tensor: Any) -> Any:
    """The same memory as a NumPy array, bf16 and fp8 as ml_dtypes has them."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    name = weft.torch.NAMES[tensor.dtype]
    carrier = {1: torch.uint8, 2: torch.int16}.get(tensor.element_size(), tensor.dtype)
    return tensor.view(carrier).numpy().view(weft.numpy.dtype_of(name))


def to_torch(array: Any) -> torch.Tensor:
    array = np.asarray(array)
    carrier = {1: np.uint8, 2: np.int16}.get(array.itemsize, array.dtype)
    dtype = weft.torch.DTYPES[weft.numpy.NAMES[array.dtype.name]]
    return torch.from_numpy(array.view(carrier).copy()).view(dtype)


@EVERY_OP
def test_numpy(op, dumped):
    for case in cases.read(dumped, op):
        if case.is_packed or not case.is_functional:
            continue
        keywords = {name: to_numpy(value) for name, value in case.functional().items()}
        written = case.results(getattr(weft, op)(**keywords))
        case.expect({name: to_torch(array) for name, array in written.items()})


@EVERY_OP
def test_numpy_destination(op, dumped):
    """Strided, shifted and in place."""
    for case in cases.read(dumped, op):
        if case.is_packed:
            continue
        arrays = {name: to_numpy(tensor) for name, tensor in case.laid_out().items()}
        written = case.results(getattr(weft, op)(**arrays, **case.options))
        case.expect({name: to_torch(array) for name, array in written.items()})


def test_numpy_outputs_that_are_given_or_declined():
    x, weight = np.ones((4, 16), np.float32), np.full(16, 3, np.float32)
    out = np.empty_like(x)
    assert weft.rms_norm(x, weight, out=out, out_dtype="fp32") is out
    assert np.allclose(out, 3)
    alone: object = weft.rms_norm(x, weight, residual=x, residual_out=False)
    assert isinstance(alone, np.ndarray)
    assert np.allclose(alone, 3)


def test_numpy_errors():
    x = np.ones((4, 8), np.float32)
    frozen = np.ones((4, 8), np.float32)
    frozen.setflags(write=False)
    packed = np.zeros((4, 8), [("a", np.float32), ("b", np.int8)])["a"]
    rms_norm: Any = weft.rms_norm
    amax: Any = weft.amax
    assert rms_norm(frozen).shape == (4, 8)
    for message, kind, call in (
        (r"rms_norm\.x: weft has no dtype float64", TypeError, lambda: rms_norm(x.astype(np.float64))),
        (r"rms_norm\.x: weft has no dtype >f4", TypeError, lambda: rms_norm(x.astype(">f4"))),
        (r"rms_norm\.out: the array is read-only", ValueError, lambda: rms_norm(x, out=frozen)),
        (r"amax\.amax: the array is read-only", ValueError, lambda: amax(x, frozen[0, :1])),
        (r"rms_norm\.x: .*strides must not be negative", ValueError, lambda: rms_norm(x[::-1])),
        (r"rms_norm\.x: strides \(40, 5\) are no multiples", ValueError, lambda: rms_norm(packed)),
        (r"rms_norm\.weight: expected \[dim=8\], got \[4, 8\]", ValueError, lambda: rms_norm(x, x)),
        (r"rms_norm\(\) got 'x' twice", TypeError, lambda: rms_norm(x, x=x)),
        (r"rms_norm\(\) has no parameter 'gain'", TypeError, lambda: rms_norm(x, gain=x)),
        (r"rms_norm\(\) needs 'x'", TypeError, lambda: rms_norm(weight=x[0])),
        (r"NumPy has no fp4", TypeError, lambda: weft.numpy.dtype_of("fp4_e2m1")),
    ):
        with pytest.raises(kind, match=message):
            call()


def test_other_dlpack_arrays_have_the_destination_form():
    tvm_ffi = pytest.importorskip("tvm_ffi")
    x, out = np.random.randn(4, 8).astype(np.float32), np.zeros((4, 8), np.float32)
    given = tvm_ffi.from_dlpack(out)
    rms_norm: Any = weft.rms_norm
    rms_norm(tvm_ffi.from_dlpack(x), out=given)
    assert np.array_equal(out, weft.rms_norm(x))
    with pytest.raises(TypeError, match="give out= an array to write to"):
        rms_norm(tvm_ffi.from_dlpack(x))


jax = pytest.importorskip("jax")
pytest.importorskip("jax_tvm_ffi")


@EVERY_OP
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")
def test_jax(op, dumped):
    """Eager and under jit: tensors are traced, options and dtypes are not."""
    functional = [case for case in cases.read(dumped, op) if case.is_functional and not case.is_packed]
    for number, case in enumerate(functional[:6]):
        keywords = {name: to_numpy(value) for name, value in case.functional().items()}
        tensors = {name: jax.numpy.asarray(keywords.pop(name)) for name in case.inputs}
        function = getattr(weft, op)

        def call(tensors, function=function, keywords=keywords):
            return function(**tensors, **keywords)

        written = case.results((call if number % 2 else jax.jit(call))(tensors))
        case.expect({name: to_torch(array) for name, array in written.items()})


def test_jax_composes_with_jit_and_vmap():
    x = jax.numpy.asarray(np.random.randn(3, 4, 16), jax.numpy.bfloat16)
    direct = np.asarray(weft.softmax(x * 2) + 1)
    assert np.array_equal(np.asarray(jax.jit(lambda x: weft.softmax(x * 2) + 1)(x)), direct)
    assert np.array_equal(np.asarray(jax.vmap(lambda x: weft.softmax(x * 2) + 1)(x)), direct)
    weight = x[:, 0] + 1  # one for each call: no call takes several
    each = [np.asarray(weft.rms_norm(x[i], weight[i])) for i in range(3)]
    assert np.array_equal(np.asarray(jax.vmap(weft.rms_norm)(x, weight)), np.stack(each))


def test_jax_returns_what_others_update():
    x, start = jax.numpy.asarray([[1.0, -5.0]]), jax.numpy.zeros(1)
    assert float(jax.jit(weft.amax)(x, start)[0]) == 5.0
    assert float(start[0]) == 0.0


def test_jax_errors_come_while_tracing():
    x = jax.numpy.ones((4, 8))
    rms_norm: Any = weft.rms_norm
    for message, kind, call in (
        (r"rms_norm\.weight: expected \[dim=8\], got \[4, 8\]", ValueError, lambda: jax.jit(rms_norm)(x, x)),
        (
            r"rms_norm\.x: expected dtype fp32, bf16, fp16, got int32",
            TypeError,
            lambda: rms_norm(x.astype(int)),
        ),
        (r"rms_norm\.out: JAX arrays can't be written to", TypeError, lambda: rms_norm(x, out=x)),
        (r"rms_norm\.scale: expected none", ValueError, lambda: rms_norm(x, scale=jax.numpy.ones(1))),
    ):
        with pytest.raises(kind, match=message):
            call()


def test_ml_dtypes_are_numpys_bf16_and_fp8():
    assert weft.numpy.dtype_of("bf16") == np.dtype(ml_dtypes.bfloat16)
    assert weft.rms_norm(
        np.ones((2, 8), ml_dtypes.bfloat16), out_dtype=ml_dtypes.float8_e4m3fn
    ).dtype == np.dtype(ml_dtypes.float8_e4m3fn)


def test_a_call_by_buffers_neither_takes_nor_changes_the_callers_arithmetic():
    """XLA's threads flush subnormal numbers to zero: weft's results don't depend on it, and it stays as it was."""
    small, out = (torch.full((1, 8), value, dtype=torch.float32) for value in (1e-40, 0.0))
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU does not flush")
    try:
        contract = OPS["euler_step"].contract
        there = {"velocity", "out"}
        present = sum(1 << i for i, field in enumerate(contract.fields) if field.name in there)
        numbers = [o.choices.index(o.default) if o.kind == "choice" else o.default for o in contract.options]
        _library.function("buffers.euler_step")(present, *numbers, small, out)
        assert torch.count_nonzero(out.view(torch.int32)) == 8
        assert float(small.sum()) == 0.0
    finally:
        torch.set_flush_denormal(False)
    assert float(small.sum()) > 0.0
