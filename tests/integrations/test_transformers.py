"""weft.transformers on tiny models: what it computes, counts and gives back, in every way that people run models.

On a GPU where there is one: the same tests, and the bits of norms.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.integrations import models
from tests.integrations.device import ATTENDS, DEVICE
from tests.integrations.models import FP32, IDS, PADDED, changed
from tests.paths import PYTHON_PATH, ROOT

pytest.importorskip("accelerate")

import accelerate
import peft
import weft.transformers
from transformers import StaticCache
from weft import swap
from weft.transformers import _attention, _blocks, _sources

# Rows as long as PyTorch's order of a sum is reproduced for on a GPU.
EAGER = dict(hidden_size=128, head_dim=128)
EVERY = pytest.mark.parametrize("name", models.FAMILIES)


@pytest.fixture(autouse=True)
def _fresh_counts():
    _attention.CALLS.clear()
    torch.compiler.reset()


@EVERY
def test_plain(name):
    """Outputs as before, with and without padding; every module is called; a second time changes nothing; undo does."""
    model = models.build(name)
    before, padded = models.logits(model, IDS), models.logits(model, IDS, PADDED)
    attributes = {path: set(vars(part)) for path, part in model.named_modules()}
    classes = {path: type(part) for path, part in model.named_modules()}
    weights = {key: value.clone() for key, value in model.state_dict().items()}

    report = weft.transformers.accelerate(model)
    assert len(report.replaced) == models.replaced(name), report
    assert changed(models.logits(model, IDS), before) < FP32
    assert report.silent() == [], report
    assert changed(models.logits(model, IDS, PADDED)[1], padded[1]) < FP32
    assert changed(models.logits(model, IDS, PADDED)[0, 4:], padded[0, 4:]) < FP32
    calls = report.calls()
    assert calls["model.layers.0"] == calls["model.norm"] == calls["model.layers.1.mlp"] == 3
    assert calls["model.layers.0.input_layernorm"] == calls["model.layers.1.post_attention_layernorm"] == 3

    assert [row.path for row in weft.transformers.accelerate(model).replaced] == [
        row.path for row in report.replaced
    ]
    models.logits(model, IDS)
    assert report.calls()["model.norm"] == 4
    for path, part in model.named_modules():
        assert (type(part).__name__, type(part).__qualname__) == (
            classes[path].__name__,
            classes[path].__qualname__,
        )
    assert {key: (value == weights[key]).all() for key, value in model.state_dict().items()} == dict.fromkeys(
        weights, True
    )

    assert swap.undo(model) == models.replaced(name)
    assert {path: type(part) for path, part in model.named_modules()} == classes
    assert {path: set(vars(part)) for path, part in model.named_modules()} == attributes
    assert torch.equal(models.logits(model, IDS), before)
    assert report.calls() == {}
    assert swap.undo(model) == 0


@EVERY
def test_half_precision(name):
    """In bf16, no further from fp32 than the library's own bf16 is, but for a rounding."""
    exact = models.logits(models.build(name), IDS)
    model = models.build(name, torch.bfloat16)
    theirs = changed(models.logits(model, IDS), exact)
    weft.transformers.accelerate(model)
    _attention.CALLS.clear()
    assert changed(models.logits(model, IDS), exact) < 1.25 * theirs + 2**-8 * exact.abs().max().item()
    assert weft.transformers.attention_calls() == {"weft": 2}


@EVERY
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generate(name, cache):
    model = models.build(name)
    options = dict(attention_mask=PADDED, max_new_tokens=6, do_sample=False, cache_implementation=cache)
    expected = model.generate(IDS, **options, disable_compile=True)
    report = weft.transformers.accelerate(model)
    assert torch.equal(model.generate(IDS, **options, disable_compile=True), expected)
    assert report.calls()["model.layers.1"] == 6
    assert report.silent() == []
    counted = weft.transformers.attention_calls()
    assert counted == {ATTENDS: 12}, counted  # Gemma 2's cap, and windows of 8 over a prompt of 12, included


@EVERY
def test_compile_whole_graph(name):
    model = models.build(name, num_hidden_layers=1)
    expected = models.logits(model, IDS, PADDED, use_cache=False)
    report = weft.transformers.accelerate(model)
    compiled = torch.compile(model, fullgraph=True, backend="inductor" if name == "qwen3" else "aot_eager")
    got = models.logits(compiled, IDS, PADDED, use_cache=False)
    assert changed(got[1], expected[1]) < FP32
    assert changed(got[0, 4:], expected[0, 4:]) < FP32
    assert report.calls()["model.layers.0"] == 0
    assert report.traces()["model.layers.0"] == 1
    assert report.silent() == [], report
    assert "model.layers.0.mlp" not in report.passed()  # gate and up are one product
    if name not in ("mistral", "gemma2", "gemma3"):
        assert weft.transformers.attention_calls() == {ATTENDS: 1}


def test_compiled_decoding_with_a_static_cache():
    model = models.build("qwen3", num_hidden_layers=1)
    weft.transformers.accelerate(model)
    steps = {}
    for kind, step in (
        ("eager", model),
        ("compiled", torch.compile(model, fullgraph=True, backend="aot_eager")),
    ):
        cache = StaticCache(config=model.config, max_cache_len=20)
        found = [models.logits(model, IDS, past_key_values=cache)[:, -1]]
        for place in range(12, 15):
            positions = torch.full((2, 1), place, device=DEVICE)
            last = found[-1].argmax(-1)[:, None]
            found.append(models.logits(step, last, past_key_values=cache, position_ids=positions)[:, -1])
        steps[kind] = torch.stack(found)
    assert changed(steps["compiled"], steps["eager"]) < FP32
    assert set(weft.transformers.attention_calls()) == {ATTENDS}


@EVERY
@pytest.mark.parametrize("order", ["adapter first", "weft first"])
def test_lora(name, order):
    """An adapter takes part in every product: a fused one is not used over it."""

    def adapt(model):
        targets = ["q_proj", "gate_proj", "down_proj"]
        config = peft.LoraConfig(r=4, target_modules=targets, init_lora_weights=False)
        torch.manual_seed(3)
        return peft.get_peft_model(model, config).eval()

    expected = models.logits(adapt(models.build(name)), IDS)
    model = models.build(name)
    unadapted = models.logits(model, IDS)
    if order == "adapter first":
        model = adapt(model)
        report = weft.transformers.accelerate(model)
    else:
        weft.transformers.accelerate(model)
        model = adapt(model)
        report = swap.report(model)
    assert (
        changed(models.logits(model, IDS), expected) < 4 * FP32
    )  # the adapter's numbers add to the rounding
    assert changed(expected, unadapted) > 1e-3
    assert report.silent() == []
    handed = report.passed()["base_model.model.model.layers.0.mlp"]
    assert next(iter(handed)).startswith("gate and up are two products: it is a Linear, not nn.Linear"), (
        handed
    )


@EVERY
@pytest.mark.parametrize("order", ["hooks first", "weft first"])
def test_offload(name, order):
    """Weights that accelerate brings in for each module's call: nothing may use them without that call."""
    model = models.build(name)
    expected = models.logits(model, IDS)
    if order == "hooks first":
        accelerate.cpu_offload(model, execution_device=DEVICE)
        assert model.model.norm.weight.device.type == "meta"
        report = weft.transformers.accelerate(model)
    else:
        report = weft.transformers.accelerate(model)
        accelerate.cpu_offload(model, execution_device=DEVICE)
    assert changed(models.logits(model, IDS), expected) < FP32
    assert report.silent() == [], report
    assert (
        report.calls()["model.layers.1.mlp"] == report.calls()["model.layers.1.post_attention_layernorm"] == 1
    )
    assert "hooks run around it" in next(iter(report.passed()["model.layers.0.mlp"]))
    assert swap.undo(model) == models.replaced(name)
    assert torch.equal(models.logits(model, IDS), expected)
    accelerate.hooks.remove_hook_from_submodules(model)
    assert type(model.model.norm).__module__.startswith("transformers.")


@EVERY
def test_eager_rounding(name):
    """The norm's chain is the one that the model's own norm has; nothing is fused that would round less often."""
    model = models.build(name, torch.bfloat16, **EAGER)
    exact = models.logits(copy.deepcopy(model).float(), IDS)
    own_error = models.rms(models.logits(model, IDS), exact)
    report = weft.transformers.accelerate(model, rounding="eager")
    own = "eager" if name.startswith("gemma") else "eager_cast"
    assert model.model.norm._weft_rounding == own
    assert models.rms(models.logits(model, IDS), exact) < 1.2 * own_error
    assert report.calls()["model.layers.0.mlp"] == 1
    if name in models.NORMS and name != "gemma2":
        assert report.calls()["model.layers.0.self_attn.q_norm"] == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the bits are those of PyTorch's kernels on a GPU")
@EVERY
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_eager_bits_of_norms(name, dtype):
    model = models.build(name, dtype, **EAGER)
    norms = {path: part for path, part in model.named_modules() if type(part).__name__.endswith("RMSNorm")}
    rows = {
        path: torch.randn(33, part.weight.numel(), device="cuda", dtype=dtype) for path, part in norms.items()
    }
    with torch.no_grad():
        expected = {path: part(rows[path]) for path, part in norms.items()}
        report = weft.transformers.accelerate(model, rounding="eager")
        for path, part in norms.items():
            assert torch.equal(part(rows[path]), expected[path]), path
            assert report.calls()[path] == 1


def test_gradients_are_the_librarys():
    model = models.build("llama")
    report = weft.transformers.accelerate(model)
    model(IDS, labels=IDS).loss.backward()
    assert model.model.layers[0].mlp.gate_proj.weight.grad.abs().sum() > 0
    assert set(report.calls().values()) == {0}
    assert all("gradient" in next(iter(reasons)) for reasons in report.passed().values())
    assert "model.norm" in report.silent()


def test_unknown_source(monkeypatch):
    """A block of another version keeps its forward; its norms are replaced, and the report has the hash."""
    target = "transformers.models.llama.modeling_llama.LlamaDecoderLayer"
    monkeypatch.setitem(_sources.SOURCES, target, frozenset({"0" * 64}))
    model = models.build("llama")
    expected = models.logits(model, IDS)
    report = weft.transformers.accelerate(model)
    block = next(row for row in report.rows if row.path == "model.layers.0")
    known = swap.source_hash(type(model.model.layers[0]))
    assert not block.replaced
    assert f"unknown source (sha256 {known})" in block.reason
    assert type(model.model.layers[0]).__module__.startswith("transformers.")
    assert changed(models.logits(model, IDS), expected) < FP32
    assert report.calls()["model.layers.0.input_layernorm"] == 1


def test_sources_are_of_this_version():
    """What is installed is known: a new version of transformers fails here first."""
    for target, known in _sources.SOURCES.items():
        module, name = target.rsplit(".", 1)
        cls = getattr(__import__(module, fromlist=[name]), name)
        also = weft.transformers._families.ROTATION if name.endswith("Attention") else ()
        assert swap.source_hash(cls, *also) in known, target


def test_mixed_dtypes():
    """Autocast, and norms in fp32 beside weights in bf16: the dtypes of the library's chain."""
    model = models.build("qwen3")
    with torch.autocast(DEVICE.type, torch.bfloat16):
        expected = models.logits(model, IDS)
        report = weft.transformers.accelerate(model)
        got = models.logits(model, IDS)
    assert got.dtype == expected.dtype
    assert changed(got, expected) < 2**-6 * expected.abs().max().item()
    assert "autocast" in next(iter(report.passed()["model.layers.0.mlp"]))

    model = models.build("llama", torch.bfloat16)
    model.model.norm.float()
    weft.transformers.accelerate(model)
    model.lm_head.float()
    with torch.no_grad():
        assert model.model(IDS).last_hidden_state.dtype == torch.float32
    assert "a weight of torch.float32" in next(iter(swap.report(model).passed()["model.norm"]))


def test_a_norm_declines_rows_of_another_dtype():
    norm = SimpleNamespace(weight=torch.ones(8, dtype=torch.bfloat16))
    x = torch.zeros(2, 8, dtype=torch.bfloat16)
    assert _blocks.norm_passes(norm, x) is None and _blocks.norm_passes(norm, x, x) is None
    for residual in (x.float(), x[:1]):
        assert _blocks.norm_passes(norm, x, residual) == "a residual of another dtype or shape"
    assert "a weight of torch.bfloat16" in (_blocks.norm_passes(norm, x.float()) or "")


def test_copies_and_other_activations():
    model = models.build("llama", hidden_act="relu")
    report = weft.transformers.accelerate(model)
    assert next(row for row in report.rows if row.path == "model.layers.0.mlp").reason.startswith(
        "its activation"
    )
    twin = copy.deepcopy(model)
    swap.undo(model)
    assert swap.swapped(twin.model.norm) is not None
    assert changed(models.logits(twin, IDS), models.logits(model, IDS)) < FP32
    assert swap.undo(twin) > 0
    assert isinstance(twin.model.norm, nn.Module)


def test_rounding_is_checked():
    with pytest.raises(ValueError, match="'fused' or 'eager'"):
        weft.transformers.accelerate(models.build("llama"), rounding="exact")


def test_tensor_parallel(tmp_path):
    """Two processes, each with half of the heads and of the feed-forward."""
    model = models.build("qwen3").cpu()
    model.save_pretrained(tmp_path)
    torch.save(models.logits(model, IDS.cpu()), tmp_path / "expected.pt")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{PYTHON_PATH}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(ROOT / "tests/integrations/tensor_parallel.py"), str(tmp_path)],
        env={**variables, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("rank done") == 2
