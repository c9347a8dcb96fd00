"""Baselines: each formula is right by weft's reference, on the CPU, and what is absent says why."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import weakref
from types import SimpleNamespace
from typing import cast

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("weft")

from weft import baselines  # noqa: E402 - only where both can be imported
from weft.bench import Options, environment, measure  # noqa: E402
from weft.bench._measure import Foreign, Session, view_of  # noqa: E402

from tests.paths import PYTHON_PATH  # noqa: E402

QUICK = Options(device="cpu", rounds=2, replay_us=1, seed=5)
CASES = [
    "rms_norm x=bf16[5,64] weight=bf16[64] residual=bf16[5,64] residual_out=bf16[5,64] weight_offset=1",
    "rms_norm x=fp16[5,64] bias=fp16[64] out=fp8_e4m3 scale=fp32[1]",
    "rms_norm x=bf16[5,64] weight=bf16[64] out=fp8_e4m3 token_scale=fp32[5]",
    "layer_norm x=bf16[5,64] weight=bf16[64] bias=bf16[64] weight_offset=1",
    "layer_norm x=bf16[2,5,64] mod_scale=bf16[2,64] mod_shift=bf16[2,64] out2=bf16[2,5,64] mod_scale2=bf16[64]",
    "rms_norm x=bf16[2,6,64] weight=bf16[64] residual=bf16[2,6,64] gate=bf16[2,1,64] mod_scale=fp32[2,3,1,64]",
    "rms_norm x=fp32[5,64] mod_index=int64[5] mod_scale=bf16[31,64] mod_shift=bf16[31,64] mod_tanh=true",
    "gated_activation out=bf16[5,32] x=bf16[5,64] activation=gelu_tanh",
    "gated_activation out=fp8_e4m3[5,32] gate=bf16[5,32] up=bf16[5,32] scale=fp32[1]",
    "quantize x=bf16[5,64] out=fp8_e4m3 scale=fp32[1]",
    "quantize x=bf16[5,64] out=fp8_e4m3 tensor_scale=fp32[1]",
    "quantize x=bf16[5,64] out=fp8_e5m2 token_scale=fp32[5]",
    "dequantize x=fp8_e4m3[5,64] out=bf16 token_scale=fp32[5]",
    "amax x=bf16[5,64] amax=fp32[1]",
    "reduce x=bf16[5,64] factor=bf16[5,64] out=fp32[5]",
    "reduce x=fp8_e4m3[5,64] out=fp32[5] kind=amax",
    "histogram x=int32[5,64] counts=int32[10] bins=10",
    "copy x=bf16[64,48]{1,64} out=fp32[64,48]",
    "copy out=fp16[5,64] value=3",
    "activation x=bf16[5,64] bias=bf16[64] front=bf16[5,8] out=bf16[5,72] activation=gelu_tanh",
    "activation x=bf16[5,64] add=bf16[5,64] out=fp8_e4m3[5,64] scale=fp32[1] activation=hardswish",
    "euler_step velocity=bf16[5,64] conditional=bf16[5,64] sample=fp32[5,64] out=fp32[5,64] step=0.1 guidance=4",
    "timestep_embedding t=fp32[5] out=fp32[5,65] dim=65 downscale=1",
    "merge_attention_states a=bf16[1,4,2,8] lse_a=fp32[1,2,4] b=bf16[1,4,2,8] lse_b=fp32[1,2,4] lse=fp32[1,2,4]",
    "concat_pad x=bf16[1,4,2,3,5] cache=bf16[1,4,1,3,5] out=bf16[1,4,4,4,7] front=1 top=1 left=1 right=1",
    "upsample x=bf16[2,3,5,8] residual=bf16[2,6,10,8] out=bf16[2,6,10,8] height_scale=2 width_scale=2",
    "top_k scores=fp32[5,64] values=fp32[5,6] indices=int32[5,6] k=6",
    "group_norm x=bf16[2,16,30] weight=bf16[16] bias=bf16[16] out=bf16[2,16,30] groups=4 activation=silu",
    "channel_rms_norm x=bf16[2,16,30] weight=fp32[16] out=bf16[2,16,30] activation=silu",
    "residual_add x=bf16[5,64] residual=bf16[5,64] bias=bf16[64]",
    "embedding ids=int64[5] table=bf16[9,64] scale=45.25",
    "softmax x=bf16[5,64]",
    "softmax x=fp32[5,64] scale=0.125",
    "patch_im2col image=uint8[2,4,6,3] out=bf16[12,12] patch=2 scale=0.007843138 shift=-1",
    "gemm a=fp32[5,16] b=fp32[7,16] bias=fp32[7]",
    "gemm a=bf16[5,16] b=bf16[7,16] out=bf16[5,7]",
    "rope x=bf16[5,4,16] positions=int64[5] base=500000",
    "rope x=bf16[2,5,4,16] pairs=interleaved rotary_dim=8 start=3",
    "rope x=fp32[5,4,16] cos=fp32[40,8] sin=fp32[40,8]",
    "qkv_split_rope qkv=bf16[5,64] q=bf16[5,2,16] k_cache=bf16[9,1,16] v_cache=bf16[9,1,16] cache_offset=3",
    "qk_norm_rope q=bf16[2,5,4,16] k=bf16[2,5,2,16] q_weight=bf16[16] k_weight=bf16[16] q_out=bf16[2,5,4,16]"
    " k_out=bf16[2,5,2,16] v=bf16[2,5,2,16] v_out=bf16[2,5,2,16] weight_offset=1 pairs=interleaved rotary_dim=8",
    "qk_norm_rope q=bf16[5,4,16] q_weight=bf16[64] q_out=bf16[5,4,16] norm=row positions=int32[5] positions2=int32[5]"
    " positions3=int32[5] frequencies=fp32[8] section2=3 section3=2",
    "qk_norm_rope q=bf16[5,4,16] q_out=bf16[5,4,16] positions=int32[5] positions2=int32[5] positions3=int32[5]"
    " cos=fp32[40,8] sin=fp32[40,8] section2=2 section3=2 sections=alternate",
    "qk_norm_rope q=bf16[2,5,4,16] q_out=bf16[2,5,4,16] head_cos=bf16[2,5,4,8] head_sin=bf16[2,5,4,8] norm=none",
    "attention q=fp32[2,5,4,16] k=fp32[2,9,2,16] v=fp32[2,9,2,16]",
    "attention q=bf16[1,5,4,16] k=bf16[1,9,2,16] v=bf16[1,9,2,16] causal=true",
    "attention q=fp32[2,5,4,16] k=fp32[2,9,4,16] v=fp32[2,9,4,16] key_mask=uint8[2,9] scale=0.1",
]


def of_baseline(rows, name):
    """The rows of one baseline; in a row its name has a version: "torch eager" is "torch 2.13.0 eager"."""
    return [row for row in rows if row["side"] == "baseline" and without_version(row["name"]) == name]


def without_version(name):
    return re.sub(r" \d[\w.+]*", "", name)


@pytest.mark.parametrize("line", CASES)
def test_the_formulas_pass_wefts_reference(line):
    options = Options(device="cpu", rounds=2, replay_us=1, seed=5, against=("torch eager",))
    rows = measure(line, options, "run", "env").rows
    eager = of_baseline(rows, "torch eager")
    assert len(eager) == 4, "device and eager, cold and hot"
    assert all(row["checked"] for row in eager), eager[0].get("why")
    assert all(row["checked"] for row in rows if row["side"] == "weft")


def test_a_product_of_two_that_would_round_between_them_is_marked():
    line = "gemm a=bf16[5,16] b=bf16[7,16] up=bf16[7,16] activation=silu"
    options = Options(device="cpu", rounds=2, replay_us=1, seed=5, against=("torch eager",))
    rows = measure(line, options, "run", "env").rows
    assert not of_baseline(rows, "torch eager") and all(row["checked"] for row in rows)
    written = of_baseline(rows, "torch eager, as written")
    assert len(written) == 4 and all(row["rounds_between"] for row in written)


def test_a_product_of_int8_is_torchs_whole_sums_with_their_scales():
    operands = "gemm a=int8[24,16] b=int8[8,16] a_token_scale=fp32[24] b_channel_scale=fp32[8] bias=bf16[8]"
    options = Options(device="cpu", rounds=2, replay_us=1, seed=5, against=("torch eager",))
    for line, count in (
        (f"{operands} out=bf16[24,8]", 4),
        (operands.replace("[8", "[7") + " out=bf16[24,7]", 0),
    ):
        written = of_baseline(measure(line, options, "run", "env").rows, "torch eager, as written")
        assert len(written) == count and all(row["checked"] for row in written), line


def test_a_batch_of_products_is_torch_bmms_and_one_with_more_beside_it_is_not():
    options = Options(device="cpu", rounds=2, replay_us=1, seed=5, against=("torch.bmm",))
    batch = "grouped_gemm a=bf16[2,5,16] b=bf16[2,7,16] out=bf16[2,5,7]"
    rows = of_baseline(measure(batch, options, "run", "env").rows, "torch.bmm")
    assert len(rows) == 4 and all(row["checked"] for row in rows)
    for more in (" bias=bf16[2,7]", " counts=int32[2]", " activation=silu"):
        assert not of_baseline(measure(batch + more, options, "run", "env").rows, "torch.bmm")


@pytest.mark.parametrize("line", [CASES[0], "softmax x=bf16[5,64]"])
def test_compiled_and_jax_callables_are_timed_in_the_same_run(line):
    options = Options(device="cpu", rounds=2, replay_us=1, seed=5, against=("default", "jax"))
    rows = measure(line, options, "run", "env", "file/row").rows
    compiled, jax = of_baseline(rows, "torch.compile default"), of_baseline(rows, "jax jit")
    assert len(compiled) == 4 and all(row["checked"] for row in compiled), compiled[0].get("why")
    pytest.importorskip("jax")
    assert {row["time"] for row in jax} == {"eager"} and all(row["checked"] for row in jax), jax[0].get("why")
    assert {row["workload"] for row in rows} == {"file/row"}
    assert all(row["weft_speedup"]["ratio"] > 0 for row in compiled)


class Wrong(baselines.Baseline):
    """Right on average, wrong in one element; where asked, only after some calls."""

    name = "wrong"
    about = "a planted fault"

    def __init__(self, after: int) -> None:
        self.after = after

    def version(self) -> str:
        return "1.0"

    def prepare(self, case: baselines.Case) -> baselines.Compute:
        calls = 0

        def call(t):
            nonlocal calls
            calls += 1
            y = torch.softmax(t["x"], -1)
            if calls > self.after:
                y[0, 0], y[0, 1] = y[0, 0] + 0.01, y[0, 1] - 0.01
            return {"out": y}

        return call


@pytest.mark.parametrize(("after", "said"), [(0, "out[0,0]: got "), (3, "after timing: out[0,0]: got ")])
def test_a_wrong_baseline_gets_no_time(monkeypatch, after, said):
    monkeypatch.setattr("weft.bench._measure.every", lambda: [Wrong(after)])
    rows = measure("softmax x=fp32[5,64]", QUICK, "run", "env").rows
    (wrong,) = of_baseline(rows, "wrong")
    assert wrong["us"] is None and wrong["checked"] is False
    assert wrong["why"].startswith(said)
    assert all(row["checked"] for row in rows if row["side"] == "weft")


def test_a_result_gives_its_memory_to_the_next_of_its_set():
    made: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []

    def compute(t):
        alive.append(sum(ref() is not None for ref in made))
        y = t["x"] + 1
        made.append(weakref.ref(y))
        return {"out": y}

    session = cast(Session, SimpleNamespace(operands=lambda index: {"x": torch.ones(4) * index}))
    foreign = Foreign(session, compute)
    for index in (0, 1, 0, 1, 1):
        foreign.call(index)
    assert alive == [0, 1, 1, 1, 1], "only the other set's result lives on"
    assert [float(foreign.latest[index]["out"][0]) for index in (0, 1)] == [1, 2]


class Partial(baselines.Baseline):
    name = "partial"
    about = "is here, but not all that a case needs"

    def version(self) -> str:
        return "1.0"

    def prepare(self, case: baselines.Case) -> baselines.Compute:
        raise baselines.Absent("its softmax is not here")


def test_what_a_baseline_lacks_for_a_case_is_told(monkeypatch):
    monkeypatch.setattr("weft.bench._measure.every", lambda: [Partial()])
    measured = measure("softmax x=fp32[5,64]", QUICK, "run", "env")
    assert measured.absent == {"partial": "its softmax is not here"}
    assert all(row["checked"] for row in measured.rows if row["side"] == "weft")


def test_what_is_not_here_says_why():
    states = {b.name: baselines.state(b, on_gpu=False) for b in baselines.every()}
    assert {
        "torch eager",
        "torch.compile default",
        "torch.compile max-autotune",
        "torch.sdpa cudnn",
    } <= states.keys()
    assert {
        "liger",
        "quack",
        "flash-attn-4",
        "sglang diffusion",
        "jax jit",
        "torch._scaled_mm",
    } <= states.keys()
    assert states["torch eager"] == ""
    assert states["torch.sdpa flash"] == "it needs a GPU"
    assert states["quack"], "not installed here, or without a GPU to run on"
    with pytest.raises(baselines.Absent, match="no-such-package is not installed"):
        baselines.installed("no-such-package")
    with pytest.raises(baselines.Absent, match="no_such_module can't be imported: ModuleNotFoundError"):
        baselines.imported("no_such_module")
    measured = measure(
        "softmax x=fp32[5,64]", Options(device="cpu", rounds=1, replay_us=1, against=("flash",)), "r", "e"
    )
    assert measured.absent["torch.sdpa flash"] == "it needs a GPU"


def test_peers_take_only_what_they_compute():
    peers = {b.name: b for b in baselines.every()}
    refused = {
        "torch.sdpa cudnn": "attention q=bf16[1,5,4,16] k=bf16[1,9,2,16] v=bf16[1,9,2,16] causal=true",
        "torch._scaled_mm": "gemm a=bf16[5,16] b=bf16[7,16] out=bf16[5,7]",
        "liger": "rms_norm x=bf16[5,64] weight=bf16[64] out=fp8_e4m3 scale=fp32[1]",
        "quack": "rms_norm x=bf16[5,64] weight=bf16[64] weight_offset=1",
        "flash-attn-4": "softmax x=bf16[5,64]",
        "sglang diffusion": "layer_norm x=bf16[5,64] weight=bf16[64] bias=bf16[64] weight_offset=1",
        "torch eager": "rms_norm x=bf16[5,64] rounding=eager",
        "jax jit": "rms_norm x=bf16[5,64] mod_scale=bf16[64]",
    }
    for name, line in refused.items():
        assert peers[name].prepare(view_of(line)) is None, name


@pytest.mark.parametrize(
    "field", ["k=bf16[2,9,4,64]{2308,256,64,1}", "k=bf16[2,9,4,64]+2", "k=bf16[2,9,1,64]{586,65,64,1}"]
)
def test_a_peer_that_faults_on_unaligned_rows_is_not_asked(field, monkeypatch):
    monkeypatch.setattr("weft.baselines.flash_attention_4.imported", lambda _: pytest.fail("asked"))
    peers = {b.name: b for b in baselines.every()}
    line = f"attention q=bf16[2,5,4,64] {field} v={field[2:]}"
    assert peers["flash-attn-4"].prepare(view_of(line)) is None


def test_rows_begin_where_strides_and_the_first_element_say():
    def rows_at(text, elements):
        return view_of(f"softmax x=bf16{text}").tensors["x"].rows_at(elements)

    assert rows_at("[3,64]", 8) and rows_at("[3,64]{72,1}", 8) and rows_at("[1,60]", 8)
    assert not rows_at("[3,60]", 8) and not rows_at("[3,64]{68,1}", 8) and not rows_at("[3,64]+4", 8)
    assert rows_at("[3,60]", 4) and rows_at("[3,64]+4", 4)


def test_the_environment_names_the_peers():
    env = environment("cpu", "a command")
    assert env["libraries"]["torch"] == torch.__version__
    assert env["command"] == "a command"


def test_the_command_needs_a_gpu_unless_told_otherwise():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    done = subprocess.run(
        [sys.executable, "-m", "weft.bench", "softmax x=fp32[4,64]"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
    )
    assert done.returncode == 3 and "PyTorch finds no GPU" in done.stderr


def test_the_command_writes_rows_and_goes_on_where_it_was_cut_short(tmp_path):
    table = tmp_path / "two.csv"
    table.write_text(
        'row,case\na,"softmax x=fp32[4,64]; softmax x=fp32[5,64]"\nb,\nc,"softmax x=fp32[6,64]"\n'
    )
    out = tmp_path / "h200" / "rows.jsonl"

    def run(*words):
        command = [
            sys.executable,
            "-m",
            "weft.bench",
            "--device",
            "cpu",
            "--rounds",
            "1",
            "--against",
            "eager",
            *words,
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = run("--workload", str(table), "--out", str(out), "--only", "two/a")
    assert "two/a  softmax x=fp32[5,64]" in first and "2 cases, 0 of weft's results wrong" in first
    second = run("--workload", str(table), "--out", str(out), "--skip-done", str(out))
    assert "two/a" not in second and "1 cases, 0 of weft's results wrong" in second
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {row["workload"] for row in rows if "run" in row} == {"two/a", "two/c"}
    assert len({row["run"] for row in rows if "run" in row}) == 2
