"""Every row of names.csv runs on the CPU, and gives what the op's float64 oracle gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import weft
from weft._contract import LEADING as LEADING_ROWS
from weft._op import OPS
from weft.names import ROWS, viewed
from weft.torch import DTYPES

from tests.oracles.numbers import E2M1, E4M3, decoded, nearest
from tests.oracles.test_oracles import load_oracle
from tests.python import cases

SIZES = {"dim": 24, "hidden": 24, "tokens": 5, "heads": 4, "head_dim": 16, "q_heads": 3, "kv_heads": 1}
SIZES |= {"cache_tokens": 5, "table": 8, "half": 8, "batch": 2, "q_tokens": 5, "kv_tokens": 5, "group": 1}
SIZES |= {"k": 24, "n": 16, "vocab": 11, "views": 1, "rows": 2, "cols": 2, "patch": 14, "channels": 32}
SIZES |= {"front_dim": 8, "bins": 256, "time": 2, "height": 3, "width": 5, "spatial": 10}
SIZES |= {"frames": 2, "cache_frames": 1, "n": 24}
LEADING = (5,)
# Of the largest rounding step of a dtype; attention rounds its weights too.
STEPS = {
    "fp32": 1e-5,
    "fp16": 2**-9,
    "bf16": 2**-6,
    "fp8_e4m3": 2**-3,
    "int32": 0,
    "int64": 0,
    "fp4_e2m1": 0,
    "ue8m0": 1e-30,
}


def tensor_of(row, name, generator):
    field = next(f for f in OPS[row.op].contract.fields if f.name == name)
    before, axes = field.pattern
    leading = (2,) if row.op == "rope" else (5, 7) if "turned" in row.fixed.values() else LEADING
    integers = [option for option in OPS[row.op].contract.options if option.kind == "integer"]
    sizes = SIZES | {"groups": 3, LEADING_ROWS: 5}
    sizes |= {option.name: int(row.fixed.get(option.name, option.default)) for option in integers}
    if field.sized_axis:
        sizes[field.sized_axis] = field.sizes_by_dtype[row.fields[name]]
    shape = [axis.evaluate(sizes) for axis in axes]
    if before is not None:
        shape[before:before] = leading
    if row.fields[name] == "fp4_e2m1":
        codes = torch.randint(0, 16, shape, generator=generator, dtype=torch.uint8)
        return cases.from_codes(codes, "fp4_e2m1")
    if field.dtypes[0].startswith("int"):
        return torch.randint(0, SIZES["vocab"], shape, generator=generator).to(DTYPES[row.fields[name]])
    values = torch.rand(shape, generator=generator) + 0.25 if name.endswith("scale") else None
    values = torch.randn(shape, generator=generator) if values is None else values
    return values.to(DTYPES[row.fields[name]])


def codes_of(tensor):
    """One a byte of the dtypes that PyTorch does not convert; None for others."""
    if tensor.dtype == torch.float4_e2m1fn_x2:
        packed = tensor.view(torch.uint8)
        return torch.stack((packed & 15, packed >> 4), -1).flatten(-2)
    return tensor.view(torch.uint8) if tensor.dtype == torch.float8_e8m0fnu else None


def real(tensor):
    """As oracles take it: numbers, or codes."""
    codes = codes_of(tensor)
    tensor = tensor if codes is None else codes.long()
    return (tensor.double() if tensor.is_floating_point() else tensor.long()).numpy()


def rounded(value, dtype):
    """A result of an oracle where its dtype is coarse."""
    if dtype == "fp4_e2m1":
        return np.copysign(nearest(np.abs(value), E2M1), value)
    return nearest(value, E4M3) if dtype == "fp8_e4m3" and (value >= 0).all() else value


@pytest.mark.parametrize("name", ROWS)
def test_a_name_is_its_op_with_options(name):
    row = ROWS[name]
    contract = OPS[row.op].contract
    generator = torch.Generator().manual_seed(3)
    tensors = {field: tensor_of(row, field, generator) for field in row.fields}
    inputs = {field: real(tensor) for field, tensor in viewed(row, tensors).items()}
    options = {o.name: o.default for o in contract.options}
    for key, word in row.fixed.items():
        if key in options:
            options[key] = word if isinstance(options[key], str) else {"true": True}.get(word) or float(word)

    written = getattr(weft.names, name)(*[tensor.clone() for tensor in tensors.values()])

    named = cases.results(OPS[row.op], written)
    for key, word in row.fixed.items():
        if key in named and word in DTYPES:
            assert named[key].dtype == DTYPES[word]
    dtypes = {key: weft.torch.NAMES[t.dtype] for key, t in (tensors | named).items()}
    expected = load_oracle(row.op).oracle(inputs, {**options, "dtypes": dtypes, "patch": 14})
    compared = 0
    for key, value in expected.items():
        if key not in named:
            continue
        got = torch.from_numpy(decoded(real(named[key]), dtypes[key])).double()
        exact = torch.as_tensor(rounded(np.asarray(value), dtypes[key])).double()
        exact = exact.reshape(got.shape) if exact.ndim else exact.expand(got.shape)
        exact = exact.half().double() if dtypes[key] == "fp16" else exact
        step = STEPS[dtypes[key]]
        exact = exact.clamp(-448, 448) if dtypes[key] == "fp8_e4m3" else exact
        assert ((got == exact) | ((got - exact).abs() <= step * (exact.abs() + 0.1))).all(), key
        compared += 1
    assert compared > 0


def test_in_place_names_write_where_the_source_does():
    residual, x = torch.randn(4, 32).bfloat16(), torch.randn(4, 32).bfloat16()
    kept = residual.clone()
    result = weft.names.residual_add_rms_norm(residual, x, torch.ones(32).bfloat16())
    assert result.residual_out is residual
    assert torch.equal(residual, kept + x)


def test_what_a_name_says_and_refuses():
    function = weft.names.gate_geglu_merged_fp8_fp16
    assert "Source: FlashRT" in (function.__doc__ or "")
    assert "gate_geglu_merged_fp8_fp16" in dir(weft.names)
    x, scale = torch.randn(4, 32).half(), torch.ones(1)
    assert function(x, scale, out=torch.empty(4, 16, dtype=torch.float8_e5m2)).dtype == torch.float8_e5m2
    with pytest.raises(TypeError, match="needs scale"):
        function(x)
    with pytest.raises(TypeError, match="takes 2 positional arguments, got 3"):
        function(x, scale, scale)
    with pytest.raises(AttributeError, match="no_such_name"):
        weft.names.no_such_name  # noqa: B018
