"""Formulas, bounds and refusals of the baselines that one case of an op does not reach."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("weft")

from weft import baselines  # noqa: E402 - only where both can be imported
from weft.baselines._bounded import Bounded  # noqa: E402
from weft.baselines._form import AS_WRITTEN, ONCE  # noqa: E402
from weft.baselines._formulas import formula  # noqa: E402
from weft.bench import Options, measure  # noqa: E402
from weft.bench._measure import view_of  # noqa: E402
from weft.torch import DTYPES  # noqa: E402

from tests.bench.test_baselines import of_baseline  # noqa: E402

F = torch.nn.functional
# Not GELU by the error function: far below 0 PyTorch's 1 + erf loses its digits, and weft's reference refuses it.
ACTIVATIONS = (
    "gelu_tanh", "gelu_quick", "silu", "sigmoid", "tanh", "relu", "relu2", "leaky_relu", "elu", "hardswish",
    "hardshrink",
)  # fmt: skip
CASES = [
    *(f"activation x=fp32[5,64] out=fp32[5,64] activation={name} alpha=0.3" for name in ACTIVATIONS),
    "channel_rms_norm x=fp32[2,16,30] weight=fp32[16] bias=fp32[16] out=fp32[2,16,30]",
    "euler_step velocity=fp32[5,64] conditional=fp32[5,64] out=fp32[5,64] step=0.5 guidance=4",
    "upsample x=fp32[1,2,3,5,8] out=fp32[1,4,3,10,8] time_scale=2 width_scale=2",
    "qk_norm_rope q=fp32[2,5,4,16] q_weight=fp32[16] q_out=fp32[2,5,4,16] eps=0.5",
    "rms_norm x=fp32[5,64] eps=0.5",
    "layer_norm x=fp32[5,64] eps=0.5",
    "group_norm x=fp32[2,16,30] out=fp32[2,16,30] groups=4 eps=0.5",
    # A causal mask is aligned to the last key, also where a number of tokens is that of a head's elements.
    "attention q=fp32[1,5,4,16] k=fp32[1,16,2,16] v=fp32[1,16,2,16] causal=true",
    "attention q=fp32[1,16,2,16] k=fp32[1,20,2,16] v=fp32[1,20,2,16] causal=true",
    "attention q=fp32[1,9,2,16] k=fp32[1,9,2,16] v=fp32[1,9,2,16] causal=true",
]


@pytest.mark.parametrize("line", CASES)
def test_the_formulas_pass_wefts_reference(line: str) -> None:
    options = Options(device="cpu", rounds=1, replay_us=1, seed=5, against=("torch eager",))
    eager = of_baseline(measure(line, options, "run", "env").rows, "torch eager")
    assert eager and all(row["checked"] for row in eager), eager and eager[0].get("why")


@pytest.mark.parametrize(
    "line",
    [
        "rms_norm x=fp32[5,64] weight=fp32[64] bias=fp32[64] residual=fp32[5,64] residual_out=fp32[5,64]",
        "softmax x=bf16[5,64] scale=0.125 out=fp32",
        "gated_activation out=fp32[5,32] x=fp32[5,64] activation=gelu_tanh",
        "gated_activation out=fp32[5,32] gate=fp32[5,32] up=fp32[5,32] activation=gelu_erf",
        "gated_activation out=fp16[5,32] gate=fp16[5,32] up=fp16[5,32] activation=silu",
        "residual_add x=fp32[5,64] residual=fp32[5,64] bias=fp32[64]",
    ],
)
def test_the_formulas_in_jax_pass_wefts_reference(line: str) -> None:
    pytest.importorskip("jax")
    options = Options(device="cpu", rounds=1, replay_us=1, seed=5, against=("jax",))
    rows = of_baseline(measure(line, options, "run", "env").rows, "jax jit")
    assert rows and all(row["checked"] for row in rows), rows and rows[0].get("why")


BATCH = "grouped_gemm a=bf16[2,5,16] b=bf16[2,7,16] out=bf16[2,5,7]"
GROUPS = "grouped_gemm a=bf16[24,16] b=bf16[3,8,16] group_ends=int32[3] out=bf16[24,8]"


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("torch.bmm", BATCH, ["gemm a=bf16[5,16] b=bf16[7,16] out=bf16[5,7]", BATCH + " activation=silu"]),
        (
            "torch._grouped_mm",
            GROUPS,
            [
                "gemm a=bf16[24,16] b=bf16[8,16] out=bf16[24,8]",
                GROUPS + " activation=silu",
                GROUPS.replace("out=bf16", "out=fp32"),
                BATCH,
                GROUPS + " bias=bf16[3,8]",
                GROUPS.replace("b=bf16[3,8,16]", "b=bf16[3,8,16]{136,17,1}"),
                GROUPS.replace("a=bf16[24,16]", "a=bf16[24,16]{20,1}"),
                GROUPS.replace(",16]", ",12]"),
            ],
        ),
        (
            "jax jit",
            "rms_norm x=bf16[5,64] weight=bf16[64]",
            [
                "rms_norm x=bf16[5,64] out=fp8_e4m3 scale=fp32[1]",
                "softmax x=bf16[5,64] out=fp8_e4m3",
                "rms_norm x=bf16[5,64] rounding=eager",
                "layer_norm x=bf16[5,64]",
                "rms_norm x=bf16[5,64] mod_shift=bf16[64]",
            ],
        ),
    ],
)
def test_what_a_peer_takes_and_what_it_does_not(name: str, taken: str, refused: list[str]) -> None:
    if name == "jax jit":
        pytest.importorskip("jax")
    peer = {b.name: b for b in baselines.every()}[name]
    assert peer.prepare(view_of(taken)) is not None
    for line in refused:
        assert peer.prepare(view_of(line)) is None, line


def test_no_formula_reads_numbers_of_four_bits() -> None:
    line = "dequantize x={}[5,64] out=bf16[5,64] scale=fp32[1]"
    assert formula(view_of(line.format("fp8_e4m3"))) is not None
    assert formula(view_of(line.format("fp4_e2m1"))) is None


def test_gelu_by_tanh_keeps_its_digits_far_below_0_and_is_pytorchs_as_written() -> None:
    case = view_of("gated_activation out=fp32[1,32] gate=fp32[1,32] up=fp32[1,32] activation=gelu_tanh")
    gate, up = torch.linspace(-5, -3, 32)[None], torch.ones(1, 32)
    exact = F.gelu(gate.double(), approximate="tanh")

    def off(form: Any) -> float:
        compute = formula(case, form)
        assert compute is not None
        found = compute({"gate": gate, "up": up})
        assert found is not None
        return float(((found["out"].double() - exact) / exact).abs().max())

    assert off(ONCE) < 1e-5 < off(AS_WRITTEN)


def test_what_cannot_be_imported_says_how_it_failed() -> None:
    with pytest.raises(baselines.Absent) as raised:
        baselines.imported("no_such_module")
    assert str(raised.value) == (
        "no_such_module can't be imported: ModuleNotFoundError: No module named 'no_such_module'"
    )


def bounded(*values: float, off: float = 0.0) -> Bounded:
    value = torch.tensor(values, dtype=torch.float64)
    error = torch.full_like(value, off)
    return Bounded(value, error, error, torch.float32)


@pytest.mark.parametrize(
    ("name", "slope"),
    [("cos", 1), ("sin", 1), ("tanh", 1), ("sigmoid", 0.25), ("silu", 1.1), ("gelu", 1.13)],
)
def test_an_error_grows_by_the_steepest_slope_and_no_more(name: str, slope: float) -> None:
    x = bounded(0.3, -2.0, off=0.5)
    found = (
        getattr(x, name)() if hasattr(x, name) else getattr(F if name in ("silu", "gelu") else torch, name)(x)
    )
    torch.testing.assert_close(
        found.inner, torch.full((2,), slope * 0.5, dtype=torch.float64), rtol=1e-4, atol=0
    )
    plain: Any = getattr(F if name in ("silu", "gelu") else torch, name)
    assert torch.equal(found.value, plain(x.value))
    steps = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    steepest = float((plain(steps).diff() / steps.diff()).abs().max())
    assert 0.97 * slope < steepest <= slope


def test_only_8_bits_saturate() -> None:
    large = Bounded.step(
        torch.tensor([1e6, -1e6], dtype=torch.float64), torch.zeros(2).double(), torch.float32
    )
    assert [t.tolist() for t in large.to(torch.float16).ends(torch.float16)] == [
        [float("inf"), -float("inf")]
    ] * 2
    assert [t.float().tolist() for t in large.to(DTYPES["fp8_e4m3"]).ends(DTYPES["fp8_e4m3"])] == [
        [448, -448]
    ] * 2


def test_sums_add_errors_and_those_of_their_own_order() -> None:
    total = bounded(1.0, -3.0, off=0.5).sum(0)
    assert float(total.value) == -2 and float(total.inner) == pytest.approx(1.0, rel=1e-5)
    rows = Bounded.exact(torch.ones(3, 4)).sum(1, keepdim=True)
    assert rows.shape == (3, 1) and rows.value.flatten().tolist() == [4.0] * 3


def test_a_norm_of_rows_keeps_its_rows_apart() -> None:
    x = torch.tensor([[1.0, 3.0], [10.0, 50.0]])
    for weight in (None, torch.tensor([2.0, 0.5])):
        found = F.layer_norm(Bounded.exact(x), (2,), None if weight is None else Bounded.exact(weight))
        torch.testing.assert_close(found.value.float(), F.layer_norm(x, (2,), weight), rtol=1e-5, atol=1e-6)
        assert float(found.error.max()) < 1e-4
