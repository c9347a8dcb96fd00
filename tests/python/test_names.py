"""Every name of names.csv runs on the CPU and gives what its ops' oracles give, and no public name is forgotten."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import weft
from weft._contract import Option
from weft._made import MAKERS
from weft._op import OPS
from weft.names import ROWS, value_of
from weft.torch import DTYPES

from tests.oracles.numbers import E2M1, E4M3, decoded, nearest
from tests.oracles.test_oracles import load_oracle
from tests.python.entries import NUMBERS, tensor_of
from tests.python.test_rotary_names import rotated

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


def results_of(row, written):
    """What an entry returned, by name."""
    if isinstance(written, tuple):
        return dict(zip(written._fields, written, strict=True))  # type: ignore[attr-defined]
    call = row.calls[-1]
    asked = {*call.fixed, *call.writes, *call.reads}
    results = OPS[call.op].contract.results
    return {next(field.name for field in results if not field.optional or field.name in asked): written}


def normed_of(op, read, options):
    """A norm of rows and its modulations."""
    x, eps = read["x"], options["eps"]
    if "residual" in read:
        x = read["residual"] + read["gate"] * x
    if op == "layer_norm":
        wide = read.get("mod_scale", x).dtype == torch.float32
        n = torch.nn.functional.layer_norm(x.float() if wide else x, x.shape[-1:], eps=eps)
    else:
        n = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
        n = (n * read["weight"].float()).to(x.dtype) if "weight" in read else n.to(x.dtype)
    results = {"residual_out": x} if "residual" in read else {}
    for out, suffix in (("out", ""), ("out2", "2")):
        scale, shift = read.get(f"mod_scale{suffix}"), read.get(f"mod_shift{suffix}")
        y = n if scale is None else n * (options["mod_offset"] + scale) + shift
        results[out] = y.to(x.dtype)
    return results


def chain_of(op, read, options):
    """PyTorch's operators one after the other, which rounding=eager stands for."""
    if op in ("layer_norm", "rms_norm"):
        return {name: real(result) for name, result in normed_of(op, read, options).items()}
    return {"out": real(chain_of_one(op, read))}


def chain_of_one(op, read):
    """The same of ops with one result."""
    if op == "residual_add":
        gate = read["gate"][read["index"]] if "index" in read else read["gate"]
        return read["residual"] + read["x"] * gate
    if op == "gated_activation":
        gate, up = read["x"].chunk(2, -1) if "x" in read else (read["gate"], read["up"])
        return torch.nn.functional.silu(gate + read.get("gate_bias", 0)) * (up + read.get("up_bias", 0))
    if op == "channel_rms_norm":
        normed = read["x"] / read["length"] * math.sqrt(read["x"].shape[1]) * read["weight"][:, None]
        return torch.nn.functional.silu(normed + read["bias"][:, None] if "bias" in read else normed)
    if op == "rope":
        a, b = read["x"].chunk(2, -1)
        cos, sin = (read[key][: a.shape[-3], None] for key in ("cos", "sin"))
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    scale, shift = (read[key][read["index"]] if "index" in read else read[key] for key in ("scale", "shift"))
    return read["x"] * (1 + scale) + shift


def oracle_of(call, read, dtypes, counts):
    """What the oracle gives; it has no part in the bits of an eager chain, which are near those of one rounding."""
    options = {option.name: option.default for option in OPS[call.op].contract.options}
    for option in OPS[call.op].contract.options:
        if option.name in call.fixed:
            options[option.name] = value_of(option, call.fixed[option.name])
    options |= counts | {"dtypes": dtypes, "patch": 14}
    options |= {"rounding": "fused"} if call.op == "qk_norm_rope" else {}
    inputs = {field: real(array) for field, array in read.items()}
    return load_oracle(call.op).oracle(inputs, options) or chain_of(call.op, read, options)


def check_call(call, tensors, named):
    """A call's results are the oracle's."""
    gives = {field.name: call.gives.get(field.name) for field in OPS[call.op].contract.results}
    results = {field: named.get(given.name if given else field) for field, given in gives.items()}
    results |= {field: part.of(named[part.whole]) for field, part in call.parts.items()}
    results = {field: result for field, result in results.items() if result is not None}
    read = {field: array for field, view in call.reads.items() if (array := view.of(tensors)) is not None}
    made = MAKERS[call.makes](tensors) if call.makes else {}
    read |= {key: value for key, value in made.items() if isinstance(value, torch.Tensor)}
    for key, word in call.fixed.items():
        if key in results and word in DTYPES:
            assert results[key].dtype == DTYPES[word]
    dtypes = {key: weft.torch.NAMES[array.dtype] for key, array in (read | results).items()}
    counts = {option: view.of(tensors).shape[-3] for option, view in call.counts.items()}
    counts |= {key: value for key, value in made.items() if key not in read}
    expected = oracle_of(call, read, dtypes, counts)
    assert expected.keys() & results.keys()
    for key in expected.keys() & results.keys():
        got = torch.from_numpy(decoded(real(results[key]), dtypes[key])).double()
        exact = torch.as_tensor(rounded(np.asarray(expected[key]), dtypes[key])).double()
        exact = gives[key].of(exact, tensors) if gives[key] else exact
        exact = exact.reshape(got.shape) if exact.ndim else exact.expand(got.shape)
        exact = exact.half().double() if dtypes[key] == "fp16" else exact
        exact = exact.clamp(-448, 448) if dtypes[key] == "fp8_e4m3" else exact
        step = STEPS[dtypes[key]]
        assert ((got == exact) | ((got - exact).abs() <= step * (exact.abs() + 0.1))).all(), key


def clones(tensors):
    return {key: None if tensor is None else tensor.clone() for key, tensor in tensors.items()}


@pytest.mark.parametrize("name", ROWS)
def test_a_name_is_its_op_with_options(name):
    row = ROWS[name]
    generator = torch.Generator().manual_seed(3)
    every = {key: tensor_of(row, key, generator) for key in row.tensors}
    numbers = {key: NUMBERS[key] if default is None else default for key, default in row.numbers.items()}
    required = {key: None if key in row.optional else tensor for key, tensor in every.items()}
    for tensors in [every, required] if row.optional else [every]:
        named = results_of(row, getattr(weft.names, name)(*clones(tensors).values(), *numbers.values()))
        if len(row.calls) > 1:  # those that it keeps to itself, too
            every_result = weft.names.results_of(row, clones(tensors) | numbers, {})
            assert named.keys() == {key for key in every_result if not key.startswith("_")}
            named = every_result | named
        for call in row.calls:
            check_call(call, named | tensors | numbers, named)


def listed():
    with (Path(__file__).parent / "public_names.csv").open(newline="", encoding="utf-8") as table:
        return list(csv.DictReader(table))


def entries_of(line):
    """The names that a line of the public table is reachable by; without a list of them, its own."""
    return line["entries"].split() or [line["name"]]


@pytest.mark.parametrize("line", listed(), ids=lambda line: f"{line['source']}:{line['name']}")
def test_a_public_name_is_there_or_says_why_not(line):
    there = [name in ROWS for name in entries_of(line)]
    assert all(there) if not line["reason"] else not any(there)


def test_every_name_is_public_and_of_one_entry():
    with (Path(weft.names.__file__).parent / "names.csv").open(newline="", encoding="utf-8") as table:
        entries = dict.fromkeys(line["name"] for line in csv.DictReader(table))
    assert len(" ".join(entries).split()) == len(ROWS)
    public = {name for line in listed() for name in entries_of(line)}
    aliases = {line["name"] for line in listed()}
    assert set(ROWS) <= public | aliases


def test_products_take_the_source_s_layouts():
    a, b, x = torch.randn(7, 24), torch.randn(24, 16), torch.randn(24, 1)
    torch.testing.assert_close(weft.names.sgemv_k32_f32(a, x), a @ x)
    torch.testing.assert_close(weft.names.sgemm_naive_f32(a, b), a @ b)
    bias, residual = torch.randn(16).half(), torch.randn(7, 16).half()
    narrow = [a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)]
    expected = residual + 0.5 * (narrow[0].float() @ narrow[1].float()) + bias
    written = weft.names.fp8_nn_bias_res(*narrow, residual, bias, torch.tensor([0.5]))
    assert written is residual
    torch.testing.assert_close(residual.float(), expected, atol=0.02, rtol=0.002)
    q, k, v = torch.randn(3, 2, 4, 9, 16).half()
    attended = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float())
    named = weft.names.flash_attn_mma_stages_split_q(q, k, v)
    torch.testing.assert_close(named.float(), attended, atol=0.005, rtol=0.005)


def test_norms_take_the_source_s_layouts():
    x, style, weight = torch.randn(5, 24), torch.randn(5, 72), torch.randn(24)
    scale, shift, _ = style.chunk(3, -1)
    normed = torch.nn.functional.rms_norm(x, [24], weight, 1e-6)
    torch.testing.assert_close(weft.names.ada_rms_norm_style(x, weight, style), normed * (1 + scale) + shift)
    image, weight, bias = torch.randn(2, 6, 3, 4, 5), torch.randn(6), torch.randn(6)
    for memory in (torch.contiguous_format, torch.channels_last_3d):
        named = weft.names.triton_group_norm_silu(image.to(memory_format=memory), weight, bias, groups=3)
        grouped = torch.nn.functional.group_norm(image, 3, weight, bias, 1e-6)
        torch.testing.assert_close(named, torch.nn.functional.silu(grouped))
        assert named.is_contiguous(memory_format=memory)


def test_names_of_eager_bits_have_them():
    x, scale, shift = torch.randn(3, 4, 5, 64).bfloat16()
    assert torch.equal(weft.names.modulate_scale_shift_cuda(x, scale, shift), x * (1 + scale) + shift)
    assert torch.equal(weft.names.residual_gate_add_cuda(x, scale, shift), x + scale * shift)
    index, tables = torch.tensor([2, 0, 1, 2]), torch.randn(2, 3, 64).bfloat16()
    expected = x[0][:4] * (1 + tables[0][index]) + tables[1][index]
    inside = x[0][:4].clone()
    assert weft.names.indexed_scale_shift_bf16_(inside, tables[1], tables[0], index) is inside
    assert torch.equal(inside, expected)


def test_what_moves_keeps_its_values():
    first = [torch.randn(2, 3, 4, 8) for _ in range(3)]
    then = [torch.randn(2, 5, 4, 8) for _ in range(3)]
    result = weft.names.joint_qkv_cat(*first, *then)
    assert result._fields == ("q", "k", "v")
    for got, a, b in zip(result, first, then, strict=True):
        assert torch.equal(got, torch.cat((a, b), 1))
    ranks = torch.randn(2, 3, 4, 5, 6)
    assert torch.equal(weft.names.usp_merge_heads(ranks), ranks.permute(2, 1, 0, 3, 4))
    heads = torch.randn(3, 2, 4).half()
    repeated = weft.names.gpu_repeat_interleave_heads(heads, width_scale=3)
    assert torch.equal(repeated, heads.repeat_interleave(3, 1))


def test_calls_that_read_what_others_of_their_entry_gave():
    x, scale, shift, gate = torch.randn(4, 3, 32)
    weight = torch.randn(32)
    normed = torch.nn.functional.rms_norm(x, [32], weight, 1e-6)
    modulated = normed * (1 + scale) + shift
    torch.testing.assert_close(weft.names.adaln_zero(x, weight, scale, shift, gate), modulated * gate)

    temb, table = torch.randn(1, 128), torch.randn(4, 32)
    first, second = weft.names.ltx2_rmsnorm_ca_dual_modulate_from_temb(x, temb, table)
    parts = (temb.unflatten(-1, (4, 32)) + table).unbind(-2)
    plain = torch.nn.functional.rms_norm(x, [32], None, 1e-6)
    torch.testing.assert_close(first, plain * (1 + parts[0]) + parts[1])
    torch.testing.assert_close(second, plain * (1 + parts[2]) + parts[3])

    norms = weft.names.fused_norm_tanh_mul_add_norm_scale(x, weight, None, scale, shift, None, None, gate)
    assert norms._fields == ("y", "y2")
    then = torch.nn.functional.rms_norm(norms.y, [32], None, 1e-5)
    torch.testing.assert_close(norms.y2, then * (1 + gate))

    out = torch.empty(3, 32)
    assert weft.names.adaln_zero(x, weight, scale, shift, gate, out=out) is out
    torch.testing.assert_close(out, modulated * gate)
    with pytest.raises(TypeError, match="has no parameter 'out2'"):
        weft.names.fused_pack_qkv(*[x[None, None]] * 3, torch.zeros(1, dtype=torch.long), out2=out)


def test_names_under_torch_compile():
    table, q, k, style = torch.randn(5, 16), torch.randn(5, 3, 16), torch.randn(5, 1, 16), torch.randn(5, 48)
    expected = rotated(q, table), rotated(k, table)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def both(table, q, k, x, style):
        return weft.names.rope_apply(table, q, k), weft.names.ada_rms_norm_style(x, torch.ones(16), style)

    rotation, normed = both(table, q.clone(), k.clone(), q[:, 0], style)
    torch.testing.assert_close(tuple(rotation), expected)
    torch.testing.assert_close(normed, weft.names.ada_rms_norm_style(q[:, 0], torch.ones(16), style))


def test_names_of_numpy_arrays_write_where_the_source_does():
    table, q, k = torch.randn(5, 16), torch.randn(5, 3, 16), torch.randn(5, 1, 16)
    expected = rotated(q, table)
    result = weft.names.rope_apply(table.numpy(), q.numpy(), k.numpy())
    torch.testing.assert_close(q, expected)
    assert np.shares_memory(result.q, q.numpy())
    assert weft.names.sgemv_k32_f32(table.numpy(), np.ones((16, 1), np.float32)).shape == (5, 1)


def test_names_of_jax_arrays_return_what_the_source_writes():
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax_tvm_ffi")
    table, q, k = torch.randn(5, 16), torch.randn(5, 3, 16), torch.randn(5, 1, 16)
    arrays = [jax.numpy.asarray(tensor.numpy()) for tensor in (table, q, k)]
    for function in (weft.names.rope_apply, jax.jit(weft.names.rope_apply)):
        result = function(*arrays)
        torch.testing.assert_close(torch.from_numpy(np.array(result.q)), rotated(q, table))
        torch.testing.assert_close(torch.from_numpy(np.array(result.k)), rotated(k, table))


def test_in_place_names_write_where_the_source_does():
    residual, x = torch.randn(4, 32).bfloat16(), torch.randn(4, 32).bfloat16()
    kept = residual.clone()
    result = weft.names.residual_add_rms_norm(residual, x, torch.ones(32).bfloat16())
    assert result.residual_out is residual
    assert torch.equal(residual, kept + x)


def test_a_result_that_is_given_goes_to_the_call_that_gives_it():
    x = torch.randn(4, 32).bfloat16()
    fresh = weft.names.silu_mul_per_tensor_fp8(x)
    given = torch.empty_like(fresh.out)
    result = weft.names.silu_mul_per_tensor_fp8(x, out=given)
    assert result.out is given
    assert torch.equal(given.view(torch.uint8), fresh.out.view(torch.uint8))
    assert torch.equal(result.tensor_scale, fresh.tensor_scale)


def test_words_of_the_table_are_values():
    def option(kind: str, default: object) -> Option:
        return Option("o", kind, default, "")

    assert weft.names.value_of(option("boolean", False), "true") is True
    assert weft.names.value_of(option("boolean", True), "false") is False
    assert weft.names.value_of(option("integer", 1), "3") == 3
    assert weft.names.value_of(option("real", 1.0), "3") == 3.0
    assert weft.names.value_of(option("choice", "a"), "true") == "true"


def test_what_a_name_says_and_refuses():
    function = weft.names.gate_geglu_merged_fp8_fp16
    assert "Source: FlashRT" in (function.__doc__ or "")
    assert "gate_geglu_merged_fp8_fp16" in dir(weft.names)
    x, scale = torch.randn(4, 32).half(), torch.ones(1)
    assert function(x, scale, out=torch.empty(4, 16, dtype=torch.float8_e5m2)).dtype == torch.float8_e5m2
    with pytest.raises(TypeError, match="needs scale"):
        function(x)
    with pytest.raises(TypeError, match="has no parameter 'no_such_option'"):
        weft.names.rope_apply(torch.ones(4, 8), x.float(), x.float(), no_such_option=1)
    with pytest.raises(TypeError, match="takes 2 positional arguments, got 3"):
        function(x, scale, scale)
    with pytest.raises(AttributeError, match="no_such_name"):
        weft.names.no_such_name  # noqa: B018
