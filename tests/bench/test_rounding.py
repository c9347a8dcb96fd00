"""Peers that round between their steps, as the eager chain of their framework does: bounds, and who is still wrong."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("weft")

from weft import baselines  # noqa: E402 - only where both can be imported
from weft.baselines._bounded import Bounded, half_ulp, outside  # noqa: E402
from weft.baselines._form import AS_WRITTEN, ONCE  # noqa: E402
from weft.baselines._formulas import bounds, chained, formula  # noqa: E402
from weft.bench import Options, measure  # noqa: E402
from weft.bench._measure import view_of  # noqa: E402
from weft.report.compare import comparisons  # noqa: E402
from weft.torch import DTYPES  # noqa: E402

CASES = [
    "rms_norm x=bf16[50,64] weight=bf16[64] residual=bf16[50,64] residual_out=bf16[50,64] weight_offset=1",
    "rms_norm x=bf16[50,640] weight=bf16[640] residual=bf16[50,640]",
    "rms_norm x=bf16[50,64] weight=fp32[64] bias=fp32[64]",
    "rms_norm x=bf16[50,64] weight=bf16[64] out=fp8_e4m3 token_scale=fp32[50]",
    "rms_norm x=fp16[50,64] bias=fp16[64] out=fp8_e4m3 scale=fp32[1]",
    "layer_norm x=bf16[50,64] weight=bf16[64] bias=bf16[64] weight_offset=1",
    "layer_norm x=bf16[50,64] residual=bf16[50,64] weight=fp32[64]",
    "layer_norm x=bf16[2,25,64] mod_scale=bf16[2,64] mod_shift=bf16[2,64] out2=bf16[2,25,64] mod_scale2=bf16[64]",
    "rms_norm x=bf16[2,24,64] weight=bf16[64] residual=bf16[2,24,64] gate=bf16[2,1,64] mod_scale=fp32[2,3,1,64]",
    "rms_norm x=bf16[50,64] mod_index=int64[50] mod_scale=bf16[31,64] mod_shift=bf16[31,64] mod_tanh=true",
    "gated_activation out=bf16[50,32] x=bf16[50,64] activation=gelu_tanh",
    "gated_activation out=fp16[50,32] gate=fp16[50,32] up=fp16[50,32]",
    "gated_activation out=fp8_e4m3[50,32] gate=bf16[50,32] up=bf16[50,32] scale=fp32[1] activation=gelu_erf",
    "residual_add x=bf16[50,64] residual=bf16[50,64] bias=bf16[64]",
    "softmax x=fp16[50,64] scale=0.125",
    "softmax x=bf16[50,640] scale=0.125 out=fp32",
    "gemm a=bf16[50,160] b=bf16[70,160] bias=bf16[70] residual=bf16[50,70] activation=gelu_tanh",
    "gemm a=bf16[50,160] b=bf16[70,160] up=bf16[70,160] activation=silu",
    "gemm a=bf16[2,25,160] b=bf16[70,160] gate=fp32[2,1,70] residual=bf16[1,25,70] out=bf16[2,25,70]",
    "rope x=bf16[5,4,16] positions=int64[5] base=500000",
    "rope x=bf16[2,5,4,16] pairs=interleaved rotary_dim=8 start=300",
    "qkv_split_rope qkv=bf16[5,64] q=bf16[5,2,16] k_cache=bf16[9,1,16] v_cache=bf16[9,1,16] cache_offset=3",
]


def operands(case: baselines.Case) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    made = {}
    for name, t in case.tensors.items():
        dtype = DTYPES[t.dtype]
        values = torch.randn(t.shape) if dtype.is_floating_point else torch.randint(0, 30, t.shape)
        made[name] = (values.abs() * 0.3 if name.endswith("scale") else values).to(dtype)
    return made


def computed(case, form, t):
    compute = formula(case, form)
    return {**t, **compute(t)} if compute else None  # type: ignore[dict-item]


def widened(t):
    """16-bit operands in fp32: then nothing that the chain stores is rounded."""
    half = (torch.bfloat16, torch.float16)
    return {name: x.float() if x.dtype in half else x.clone() for name, x in t.items()}


@pytest.mark.parametrize("line", CASES)
def test_both_forms_and_one_without_any_rounding_lie_within_the_bounds(line):
    case = view_of(line)
    t = operands(case)
    found = bounds(case, t)
    assert found
    copies = [{name: x.clone() for name, x in t.items()} for _ in range(2)]
    for result in (
        computed(case, ONCE, copies[0]),
        computed(case, AS_WRITTEN, copies[1]),
        computed(case, AS_WRITTEN, widened(t)),
    ):
        for name, (low, high) in found.items() if result else ():
            assert outside(name, result[name].to(low.dtype), low, high) == ""


@pytest.mark.parametrize("line", CASES)
def test_what_is_off_by_more_than_rounding_lies_outside(line):
    case = view_of(line)
    t = operands(case)
    found = bounds(case, t)
    copied = {name: x.clone() for name, x in t.items()}
    result = computed(case, AS_WRITTEN, copied) or computed(case, ONCE, copied)
    for name, (low, high) in found.items():  # type: ignore[union-attr]
        got = result[name].float()
        most = got.abs().argmax()
        for factor in (0.8, 0.7):  # fp8 may saturate upwards
            spoilt = got.clone()
            spoilt.view(-1)[most] *= factor
            assert f"{name}[" in outside(name, spoilt.to(low.dtype), low, high), "one element"
        assert outside(name, (got * 1.06).to(low.dtype), low, high), "all of it"
        assert outside(name, torch.roll(got, 1, -1).to(low.dtype), low, high), "another column"
        assert outside(name, torch.full_like(got, float("nan")).to(low.dtype), low, high)


def test_a_little_too_much_everywhere_is_no_rounding():
    case = view_of("rms_norm x=bf16[2000,512] weight=bf16[512] residual=bf16[2000,512]")
    t = operands(case)
    (low, high) = bounds(case, t)["out"]  # type: ignore[index]
    right = computed(case, AS_WRITTEN, t)["out"]
    assert outside("out", right, low, high) == ""
    assert "all of it leans by +" in outside(
        "out", (right.float() * 1.003).bfloat16().clamp(low, high), low, high
    )


def test_half_an_ulp_is_that_of_the_dtype():
    values = torch.tensor([1.0, 1.5, 1.99, 2.0, 3e-39, 0.0], dtype=torch.float64)
    assert half_ulp(values, torch.bfloat16)[:4].tolist() == [2.0**-8, 2.0**-8, 2.0**-8, 2.0**-7]
    assert half_ulp(values, torch.float16)[0] == 2.0**-11
    assert half_ulp(values, torch.bfloat16)[4] == half_ulp(values, torch.bfloat16)[5] == 2.0**-134
    x = Bounded.exact(torch.tensor([1.0, 3.0]).bfloat16())
    assert (x * x).error.tolist() == [2.0**-8, 2.0**-5], "a product's own rounding"
    assert ((x * x) * x).inner.tolist() == [2.0**-8, 3 * 2.0**-5], "what came in, by the derivative"
    assert (x.float() * 3.0).to(torch.bfloat16).dtype == torch.bfloat16


def test_an_op_of_one_rounding_has_no_chain():
    for line in (
        "softmax x=bf16[5,64]",
        "quantize x=bf16[5,64] out=fp8_e4m3 scale=fp32[1]",
        "amax x=bf16[5,64] amax=fp32[1]",
    ):
        assert not chained(view_of(line)) and bounds(view_of(line), operands(view_of(line))) is None
    assert not chained(view_of("rms_norm x=bf16[5,64] weight=bf16[64] rounding=eager")), (
        "its bits are PyTorch's"
    )


class Peer(baselines.Baseline):
    """The chain as model libraries write it, with a fault where one is planted."""

    about = "made up"

    def __init__(self, name, fault=lambda result, t: None):
        self.name, self.fault = name, fault

    def version(self):
        return "1.0"

    def prepare(self, case):
        compute = formula(case, AS_WRITTEN) or formula(case)

        def call(t):
            result = {name: y.clone() for name, y in compute(t).items()}  # type: ignore[misc, union-attr]
            self.fault(result, t)
            return result

        return call


def spoil_one(result, t):
    result["out"][3, 5] *= 1.1


def spoil_all(result, t):
    result["out"] *= 1.03


def shift_rows(result, t):
    result["out"] = result["out"].roll(1, 0)


def no_residual(result, t):
    x = t["x"].float()
    y = (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)).bfloat16() * t["weight"]
    result["out"] = y


class Late:
    """Wrong only after some calls."""

    calls = 0

    def __call__(self, result, t):
        self.calls += 1
        if self.calls > 3:
            spoil_one(result, t)


def run(monkeypatch, line, *peers):
    monkeypatch.setattr("weft.bench._measure.every", lambda: peers)
    rows = measure(
        line, Options(device="cpu", rounds=2, replay_us=1, seed=5, against=("peer",)), "run", "env"
    ).rows
    assert all(row["checked"] for row in rows if row["side"] == "weft")
    assert not any(row.get("rounds_between") for row in rows if row["side"] == "weft")
    return rows


NORM = "rms_norm x=bf16[40,64] weight=bf16[64] residual=bf16[40,64] residual_out=bf16[40,64]"


@pytest.mark.parametrize(
    "line",
    [
        NORM,
        "rms_norm x=bf16[40,64] weight=bf16[64] out=@x",
        "gated_activation out=bf16[40,32] x=bf16[40,64]",
        "gemm a=bf16[40,64] b=bf16[48,64] up=bf16[48,64] activation=silu",
        CASES[-1],
    ],
)
def test_a_peer_that_rounds_in_between_is_a_baseline_and_marked(monkeypatch, line):
    rows = run(monkeypatch, line, Peer("peer"))
    peer = [row for row in rows if row["side"] == "baseline"]
    assert len(peer) == 4 and all(row["checked"] for row in peer), peer[0].get("why")
    assert all(row["rounds_between"] for row in peer)
    (cold,) = [c for c in comparisons(rows) if (c.time, c.cache) == ("device", "cold")]
    assert cold.best and cold.best["name"] == "peer 1.0", "it may be the best baseline"


@pytest.mark.parametrize("fault", [spoil_one, spoil_all, shift_rows, no_residual, Late()])
def test_a_wrong_peer_is_refused_beside_it(monkeypatch, fault):
    rows = run(monkeypatch, NORM, Peer("peer"), Peer("peer wrong", fault))
    wrong = [row for row in rows if row["name"].startswith("peer 1.0 wrong") and row["side"] == "baseline"]
    assert [row["us"] for row in wrong] == [None]
    assert "out[" in wrong[0]["why"] and "rounding between steps: " in wrong[0]["why"]


def test_where_the_op_rounds_once_a_peer_that_rounds_in_between_is_wrong(monkeypatch):
    def rough(result, t):
        result["out"] = torch.softmax(t["x"].half().float(), -1)

    rows = run(monkeypatch, "softmax x=fp32[40,64]", Peer("peer", rough))
    (peer,) = [row for row in rows if row["side"] == "baseline"]
    assert peer["us"] is None and "rounding between" not in peer["why"]


def test_compiled_as_written_is_a_baseline_of_its_own():
    names = {b.name for b in baselines.every()}
    assert {"torch.compile default", "torch.compile default, as written", "torch eager, as written"} <= names
    options = Options(device="cpu", rounds=2, replay_us=1, seed=5, against=("torch.compile default",))
    rows = measure(NORM, options, "run", "env").rows
    timed = {row["name"].split(" ", 2)[2]: row for row in rows if row["side"] == "baseline" and row["us"]}
    assert timed.keys() == {"default", "default, as written"}, [row.get("why") for row in rows]
