"""PyTorch: both forms of every op, opcheck, torch.compile, CUDA Graphs, errors."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
import weft
import weft.torch
from weft._op import OPS

from tests.python import cases

EVERY_OP = pytest.mark.parametrize("op", OPS)
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@EVERY_OP
def test_functional_form(op, dumped):
    for case in cases.read(dumped, op):
        if case.is_functional:
            case.expect(case.results(getattr(weft, op)(**case.functional())))
        else:
            with pytest.raises((TypeError, ValueError), match=r"needs an array|doesn't follow"):
                getattr(weft, op)(**case.functional())


@EVERY_OP
def test_destination_form(op, dumped):
    """Strided, shifted and in place, as the case says; what is returned are the very tensors."""
    for case in cases.read(dumped, op):
        tensors = case.laid_out()
        written = case.results(getattr(weft, op)(**tensors, **case.options))
        assert all(tensor is tensors[name] for name, tensor in written.items())
        case.expect(written)


def has_fp8(case: cases.Case) -> bool:
    return any(spec["dtype"].startswith("fp8") for spec in case.specs.values())


@EVERY_OP
def test_operators_pass_opcheck(op, dumped):
    # NaN is not equal to itself in these checks.
    plain = [
        c
        for c in cases.read(dumped, op)
        if c.is_plain and c.is_functional and c.described["values"] != "special"
    ]
    form = weft.torch.OPERATORS[op]
    for case in sorted(plain, key=has_fp8)[:2]:
        # The other checks do arithmetic on the tensors, which PyTorch doesn't have for fp8 on the CPU.
        checks = ("test_faketensor", "test_autograd_registration") if has_fp8(case) else "ALL"
        values = {**case.op.defaults, **case.functional()}
        arguments = [weft.torch.as_argument(values[name]) for name in form.parameters]
        if form.functional is not None:
            torch.library.opcheck(form.functional, tuple(arguments), test_utils=checks)
        arguments = case.op.arguments({**case.laid_out(), **case.options})
        torch.library.opcheck(form.destination, tuple(arguments), test_utils=checks)


@EVERY_OP
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_compiles_as_one_graph(op, dynamic, dumped):
    torch._dynamo.reset()
    function = torch.compile(getattr(weft, op), fullgraph=True, dynamic=dynamic, backend="aot_eager")
    plain = [case for case in cases.read(dumped, op) if case.is_plain and case.is_functional]
    for case in plain[:2]:
        case.expect(case.results(function(**case.functional())))
        case.expect(case.results(function(**case.laid_out(), **case.options)))


def test_inductor_fuses_around_an_op_and_keeps_mutations():
    torch._dynamo.reset()

    def block(x, residual, weight):
        y = weft.rms_norm(x * 2, weight, residual=residual, residual_out=residual)
        return y.out + 1

    x, residual, weight = (torch.randn(*shape).bfloat16() for shape in ((5, 64), (5, 64), (64,)))
    expected_residual = residual.clone()
    expected = block(x, expected_residual, weight)
    got = torch.compile(block, fullgraph=True)(x, residual, weight)
    assert torch.equal(got, expected)
    assert torch.equal(residual, expected_residual)


def test_one_graph_serves_every_token_count():
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    function = torch.compile(weft.gated_activation, fullgraph=True, backend=counter)
    for tokens in (3, 7, 31):
        x = torch.randn(tokens, 2 * 24)
        torch._dynamo.mark_dynamic(x, 0)
        gate, up = x[:, :24].contiguous(), x[:, 24:].contiguous()
        assert torch.equal(
            function(x, activation="gelu_tanh"),
            weft.gated_activation(gate=gate, up=up, activation="gelu_tanh"),
        )
    assert counter.frame_count == 1


@EVERY_OP
def test_operators_say_which_tensors_they_write_to(op):
    contract = OPS[op].contract
    for name, written in (
        (op, {f.name for f in contract.inputs if f.writes}),
        (f"{op}_out", {f.name for f in contract.fields if f.writes}),
    ):
        if not hasattr(torch.ops.weft, name):
            continue
        arguments = getattr(torch.ops.weft, name).default._schema.arguments
        letters = {a.name: a.alias_info.before_set for a in arguments if a.alias_info is not None}
        assert letters.keys() == written
        assert len({*map(frozenset, letters.values())}) == len(written), "each is memory of its own"


def test_in_place_and_mixed_destinations():
    x, r = torch.randn(4, 32), torch.randn(4, 32)
    expected = weft.rms_norm(x + r)
    kept = r.clone()
    out, stream = weft.rms_norm(x, residual=r, residual_out=r)
    assert stream is r and torch.equal(r, x + kept) and torch.equal(out, expected)
    assert weft.rms_norm(x, out=x) is x


def test_dtype_arguments():
    x = torch.randn(4, 32).bfloat16()
    assert weft.rms_norm(x).dtype == torch.bfloat16
    for dtype in (torch.float8_e4m3fn, "fp8_e4m3"):
        assert weft.rms_norm(x, out_dtype=dtype).dtype == torch.float8_e4m3fn
    out, scale = weft.quantize(x, token_scale=True, out_dtype=torch.float8_e5m2)
    assert (out.dtype, scale.dtype, scale.shape) == (torch.float8_e5m2, torch.float32, (4,))
    ids = torch.tensor([1, 0])
    assert weft.embedding(ids, torch.randn(2, 8).half()).dtype == torch.float16


def test_what_is_known_of_shapes_does_not_grow_for_ever(monkeypatch):
    monkeypatch.setattr(weft.torch, "_MOST_PLANS", 3)
    operator = weft.torch.OPERATORS["rms_norm"]
    monkeypatch.setattr(operator, "plans", {})
    for tokens in (1, 2, 3, 4, 5, 1):
        x = torch.randn(tokens, 32)
        assert weft.rms_norm(x).shape == x.shape
        assert 0 < len(operator.plans) <= 3


def test_a_product_of_fp8_is_bf16_unless_asked_otherwise():
    a, b = torch.randn(4, 32).to(torch.float8_e4m3fn), torch.randn(8, 32).to(torch.float8_e5m2)
    scale = torch.full((1,), 0.5)
    out = weft.gemm(a, b, scale, scale)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, weft.gemm(a, b, scale, scale, out_dtype=torch.float32).bfloat16())
    assert weft.gemm(a, b, residual=torch.randn(4, 8).half()).dtype == torch.float16
    assert weft.gemm(a, b, out_dtype="fp8_e4m3", out_scale=scale).dtype == torch.float8_e4m3fn


FRESH = """
import torch, weft
def block(x, residual):
    return weft.rms_norm(x, residual=residual, residual_out=residual).out
x, residual = torch.randn(3, 32), torch.randn(3, 32)
got = torch.compile(block, fullgraph=True, backend="aot_eager")(x, residual.clone())
assert torch.equal(got, block(x, residual))
"""


def test_a_given_residual_out_compiles_in_a_fresh_process():
    """Where no call has run before: dynamo traces through whatever is worked out at the first one."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", FRESH], env=environment, check=True, timeout=600)


def test_parameters_are_constants_and_pytorch_says_so():
    weight = torch.nn.Parameter(torch.ones(32))
    out = weft.rms_norm(torch.randn(2, 32), weight)
    with pytest.warns(UserWarning, match="autograd kernel was not registered"):
        out.sum().backward()
    assert weight.grad is None


def test_a_bool_mask():
    q = torch.randn(1, 3, 1, 16)
    seen = torch.tensor([[True, False, True]])
    expected = weft.attention(q, q, q, key_mask=seen.to(torch.uint8))
    assert torch.equal(weft.attention(q, q, q, key_mask=seen), expected)


def test_errors_name_the_field():
    x = torch.randn(4, 32)
    rms_norm: Any = weft.rms_norm  # the stubs forbid most of these
    for message, kind, call in (
        (
            r"rms_norm\.weight: expected \[dim=32\], got \[31\]",
            ValueError,
            lambda: rms_norm(x, torch.ones(31)),
        ),
        (
            r"rms_norm\.x: expected dtype fp32, bf16, fp16, got (torch\.)?int32",
            TypeError,
            lambda: rms_norm(x.int()),
        ),
        (r"rms_norm\.x: .*no weft dtype", TypeError, lambda: rms_norm(x.double(), out=x)),
        (r"rms_norm\.rounding: expected one of fused", ValueError, lambda: rms_norm(x, rounding="up")),
        (
            r"rms_norm\.eps: expected a value in \[0, 1\], got 2",
            ValueError,
            lambda: rms_norm(x, eps=2.0),
        ),
        (
            r"rms_norm\.out: expected dtype fp32, .*, got (torch\.)?int32",
            TypeError,
            lambda: rms_norm(x, out_dtype="int32"),
        ),
        (r"rms_norm\(\) has no parameter 'wieght'", TypeError, lambda: rms_norm(x, wieght=x)),
        (r"rms_norm\(\) needs 'x'", TypeError, rms_norm),
        (r"rms_norm\(\) got 'x' twice", TypeError, lambda: rms_norm(x, x=x)),
        (r"takes 11 positional arguments, got 13", TypeError, lambda: rms_norm(x, *[None] * 12)),
        (r"gated_activation\(\) needs an array", TypeError, weft.gated_activation),
        (
            r"attention\.q: expected \[batch, q_tokens, kv_heads\*group, head_dim\], got \[4, 32\]",
            ValueError,
            lambda: weft.attention(x, x, x),
        ),
        (
            r"overlaps x without being the very same view",
            ValueError,
            lambda: rms_norm(x[:, 1:], out=x[:, :-1]),
        ),
        (r"expected an array of PyTorch, JAX or NumPy, got list", TypeError, lambda: rms_norm([1.0])),
        (
            r"embedding\.ids: expected numbers in \[0, vocab=4\), or -1: none, got 9",
            ValueError,
            lambda: weft.embedding(torch.tensor([9]), x),
        ),
    ):
        with pytest.raises(kind, match=message):
            call()


@on_gpu
@EVERY_OP
def test_on_a_gpu(op, dumped):
    """Every result lies within what the reference allows: see tests/ops for the comparison itself."""
    ran = 0
    for case in cases.read(dumped, op):
        keywords = {k: v.cuda() if isinstance(v, torch.Tensor) else v for k, v in case.functional().items()}
        try:
            returned = getattr(weft, op)(**keywords)
        except NotImplementedError:
            continue  # only the CPU has an implementation
        ran += 1
        for name, got in case.results(returned).items():
            exact = case.reference[f"{name}.exact"].view(torch.float64)
            if got.dtype.itemsize == 1:  # saturates
                exact = exact.clamp(-torch.finfo(got.dtype).max, torch.finfo(got.dtype).max)
            allowed = case.reference[f"{name}.error"].view(torch.float64)
            near = (got.cpu().double().reshape(exact.shape) - exact).abs()
            unit = torch.finfo(got.dtype).eps * exact.abs() + torch.finfo(got.dtype).smallest_normal
            fine = (near <= allowed + unit) | ~case.reference[f"{name}.written"].bool() | ~exact.isfinite()
            assert fine.all(), case.line
    assert ran > 0


@on_gpu
def test_calls_take_the_current_stream_and_a_graph_replays_them():
    x = torch.randn(64, 512, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)
    y, z = torch.empty_like(x), torch.empty(64, 256, device="cuda", dtype=torch.bfloat16)

    def work():
        weft.rms_norm(x, out=y)
        weft.gemm(y, b, out=z)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()  # plans are chosen and scratch gets its size
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    replayed = z.clone()
    with torch.cuda.stream(stream):
        work()
    torch.cuda.synchronize()
    assert torch.equal(replayed, z)
