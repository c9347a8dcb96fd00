"""weft.diffusers on tiny models: outputs, counts, and the orders of LoRA, offloading and compilation.

On a GPU where there is one.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("diffusers")

import accelerate
import weft.diffusers
from diffusers.hooks import apply_group_offloading
from diffusers.models.attention import BasicTransformerBlock, FeedForward
from diffusers.models.normalization import RMSNorm
from peft import LoraConfig
from weft import swap
from weft.diffusers import _backend, _parts, _sources
from weft.swap._recipe import GRADIENT

from tests.integrations.device import ATTENDS, DEVICE
from tests.integrations.diffusers_models import BLOCKS, MODELS, differ, made, run

NAMES = ("flux", "flux2", "ltx", "wan", "qwen")
FP32 = 5e-6 if DEVICE.type == "cpu" else 5e-5  # of the largest number: rounding in another order
CROSS = "cross-attention: other tokens have the keys, and nothing turns"


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    _backend.CALLS.clear()


def calls_by_op(report: swap.Report) -> dict[str, int]:
    ops = {row.path: row.op for row in report.replaced}
    counted: Counter[str] = Counter()
    for path, calls in report.calls().items():
        counted[ops[path]] += calls
    return dict(counted)


def unexplained(report: swap.Report) -> list[str]:
    """Modules that neither were weft's to compute nor say why not."""
    return [path for path in report.silent() if path not in report.passed()]


@pytest.mark.parametrize("name", MODELS)
def test_the_output_is_the_librarys_and_undo_restores_bits(name: str) -> None:
    model, inputs = made(name)
    expected, before = run(model, inputs), [type(part) for part in model.modules()]
    keys = list(model.state_dict())
    report = weft.diffusers.accelerate(model)
    got = run(model, inputs)
    assert differ(got, expected) < FP32
    assert calls_by_op(report) == MODELS[name].calls
    assert unexplained(report) == []
    assert list(model.state_dict()) == keys
    again = weft.diffusers.accelerate(model)
    assert torch.equal(run(model, inputs), got)
    assert calls_by_op(again) == {op: 2 * calls for op, calls in MODELS[name].calls.items()}
    assert weft.diffusers.undo(model) == len(report.replaced)
    assert [type(part) for part in model.modules()] == before
    count = weft.diffusers.attention_calls()[ATTENDS]
    assert count > 0
    assert torch.equal(run(model, inputs), expected)
    assert weft.diffusers.attention_calls()[ATTENDS] == count
    assert calls_by_op(swap.report(model)) == {}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MODELS)
def test_16_bits_err_no_more_than_the_library(name: str, dtype: torch.dtype) -> None:
    model, inputs = made(name, dtype)
    exact = copy.deepcopy(model).float()
    wide = {key: value.float() if _is_16_bit(value) else value for key, value in inputs.items()}
    reference = run(exact, wide).double()

    def error(out: torch.Tensor) -> float:
        return float((out.double() - reference).norm() / reference.norm())

    library = error(run(model, inputs))
    report = weft.diffusers.accelerate(model)
    assert 0 < error(run(model, inputs)) < 1.1 * library
    assert calls_by_op(report) == MODELS[name].calls


def _is_16_bit(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)


def test_what_is_declined_is_said() -> None:
    model, inputs = made("wan")
    declined = {row.path: row.reason for row in weft.diffusers.plan(model).declined}
    assert declined == {f"blocks.{i}.attn2": CROSS for i in range(2)}
    model, inputs = made("ltx")
    report = weft.diffusers.accelerate(model)
    run(model, inputs | {"encoder_attention_mask": None})
    expected = {f"transformer_blocks.{i}.attn2": Counter({CROSS: 1}) for i in range(2)}
    assert report.passed() == expected | {"": Counter({"no mask of the text": 1})}


def test_a_pipeline_is_its_models_and_nothing_replaced_is_a_warning() -> None:
    model, inputs = made("ltx")
    pipe = SimpleNamespace(components={"transformer": model, "scheduler": object()})
    report = weft.diffusers.accelerate(pipe)
    assert {row.path.partition(".")[0] for row in report.rows} == {"transformer"}
    run(model, inputs)
    assert calls_by_op(report) == MODELS["ltx"].calls
    assert weft.diffusers.undo(pipe) == len(report.replaced)
    with pytest.warns(UserWarning, match="replaced nothing"):
        weft.diffusers.accelerate(torch.nn.Linear(2, 2))


def test_float64_is_declined() -> None:
    model, inputs = made("wan", torch.float64)
    expected = run(model, inputs)
    with pytest.warns(UserWarning, match="replaced nothing"):
        report = weft.diffusers.accelerate(model)
    assert torch.equal(run(model, inputs), expected)
    assert "float64" in report.declined[0].reason


def test_a_gradient_is_the_librarys() -> None:
    model, inputs = made("wan")
    report = weft.diffusers.accelerate(model)
    model(**inputs, return_dict=False)[0].sum().backward()
    assert model.blocks[0].attn1.to_q.weight.grad.abs().max() > 0
    assert sum(report.calls().values()) == 0
    assert {reason for found in report.passed().values() for reason in found} == {GRADIENT}


def test_blocks_of_another_source_keep_their_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    def strange(recipe: swap.Recipe) -> swap.Recipe:
        return dataclasses.replace(recipe, sources=frozenset(["0"])) if recipe.op == BLOCKS else recipe

    monkeypatch.setattr(weft.diffusers, "RECIPES", tuple(map(strange, weft.diffusers.RECIPES)))
    model, inputs = made("qwen")
    expected = run(model, inputs)
    report = weft.diffusers.accelerate(model)
    assert differ(run(model, inputs), expected) < FP32
    assert {row.reason[:14] for row in report.declined} == {"unknown source"}
    assert set(calls_by_op(report)) == set(MODELS["qwen"].calls) - {BLOCKS}


def test_a_processor_of_somebody_else_is_declined() -> None:
    class FluxAttnProcessor(type(made("flux")[0].transformer_blocks[0].attn.processor)):
        pass

    model, inputs = made("flux")
    expected = run(model, inputs)
    report = weft.diffusers.accelerate(model)
    model.transformer_blocks[0].attn.processor.__class__ = type("Other", (FluxAttnProcessor,), {})
    assert differ(run(model, inputs), expected) < FP32
    assert list(report.passed()["transformer_blocks.0.attn"]) == ["its processor is a Other"]


@pytest.mark.parametrize("name", ["flux", "qwen"])
def test_norms_of_q_and_k_that_differ_are_declined(name: str) -> None:
    """One call has both, and one eps."""
    model, inputs = made(name)
    model.transformer_blocks[0].attn.norm_k.eps = 1e-2
    expected = run(model, inputs)
    report = weft.diffusers.accelerate(model)
    assert differ(run(model, inputs), expected) < FP32
    declined = {row.path: row.reason for row in report.declined}
    assert declined["transformer_blocks.0.attn"] == "norm_q and norm_k have different eps"
    assert "transformer_blocks.1.attn" not in declined


@pytest.mark.parametrize("which", ["norm_q", "norm_k", "norm_added_q", "norm_added_k"])
def test_norms_of_q_and_k_with_a_bias_are_declined(which: str) -> None:
    """The op has none for heads."""
    model, inputs = made("qwen")
    attn = model.transformer_blocks[0].attn
    norm = getattr(attn, which)
    biased = RMSNorm(norm.dim[0], eps=norm.eps, bias=True).to(DEVICE)
    biased.bias.data.normal_()
    setattr(attn, which, biased)
    expected = run(model, inputs)
    report = weft.diffusers.accelerate(model)
    assert differ(run(model, inputs), expected) < FP32
    declined = {row.path: row.reason for row in report.declined}
    pair = ("norm_added_q", "norm_added_k") if "added" in which else ("norm_q", "norm_k")
    assert declined["transformer_blocks.0.attn"] == " or ".join(pair) + " has a bias"


class _OtherForm(torch.nn.Module):
    """An RMS norm whose weight is stored less 1, or whose eps has another name than diffusers gives it."""

    def __init__(self, dim: int, name: str, offset: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(dim))
        self.name, self.offset = name, offset
        setattr(self, name, 1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + float(getattr(self, self.name)))
        return x * scale * (self.weight + self.offset)


@pytest.mark.parametrize(("name", "offset"), [("eps", 1.0), ("variance_epsilon", 0.0)])
def test_norms_of_another_form_are_declined(name: str, offset: float) -> None:
    model, inputs = made("qwen")
    attn = model.transformer_blocks[0].attn
    attn.norm_k = _OtherForm(attn.norm_k.dim[0], name, offset).to(DEVICE)
    expected = run(model, inputs)
    report = weft.diffusers.accelerate(model)
    assert differ(run(model, inputs), expected) < FP32
    declined = {row.path: row.reason for row in report.declined}
    form = "norm_k: its eps or its weight has another form than the norms of this model"
    assert declined["transformer_blocks.0.attn"] == form


# --- LoRA, offloading, compilation, in both orders ---


def with_lora(name: str, model: Any) -> None:
    torch.manual_seed(5)
    model.add_adapter(
        LoraConfig(r=2, target_modules=list(MODELS[name].lora), init_lora_weights=False), adapter_name="a"
    )


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_lora(name: str, first: bool) -> None:
    model, inputs = made(name)
    plain = run(model, inputs)
    with_lora(name, model)
    expected = run(model, inputs)
    assert differ(expected, plain) > 1e-3
    model, inputs = made(name)
    if first:
        with_lora(name, model)
    report = weft.diffusers.accelerate(model)
    if not first:
        with_lora(name, model)
    assert differ(run(model, inputs), expected) < FP32
    assert calls_by_op(report) == MODELS[name].calls
    products = [path for path, reasons in report.passed().items() if "its product" in str(reasons)]
    assert len(products) == sum(calls for op, calls in MODELS[name].calls.items() if op.startswith("gemm"))


def _accelerate_offload(model: Any) -> None:
    accelerate.cpu_offload(model, DEVICE)


def _group_offload(model: Any) -> None:
    apply_group_offloading(model, DEVICE, torch.device("cpu"), "leaf_level")


def _block_offload(model: Any) -> None:
    apply_group_offloading(model, DEVICE, torch.device("cpu"), "block_level", num_blocks_per_group=1)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("offload", [_accelerate_offload, _group_offload, _block_offload])
@pytest.mark.parametrize("name", NAMES)
def test_offload(name: str, offload: Callable[[Any], None], first: bool) -> None:
    model, inputs = made(name)
    expected = run(model, inputs)
    if first:
        offload(model)
    report = weft.diffusers.accelerate(model)
    if not first:
        offload(model)
    assert differ(run(model, inputs), expected) < FP32
    assert unexplained(report) == []
    if offload is _block_offload:
        assert calls_by_op(report) == MODELS[name].calls
    else:
        # Weights that a hook brings are not weft's to read: such modules are called, and the report says so.
        reasons = {reason for found in report.passed().values() for reason in found} - {CROSS}
        assert reasons
        assert all(reason.endswith("hooks run around it") for reason in reasons)
        assert calls_by_op(report)
    weft.diffusers.undo(model)
    assert torch.equal(run(model, inputs), expected)


@pytest.mark.parametrize("name", NAMES)
def test_regional_compile(name: str) -> None:
    model, inputs = made(name)
    expected = run(model, inputs)
    report = weft.diffusers.accelerate(model)
    model.compile_repeated_blocks(fullgraph=True, backend="aot_eager")
    assert differ(run(model, inputs), expected) < FP32
    silent = set(report.silent())
    assert all("attn2" in path for path in silent)
    block = next(row.path for row in report.replaced if row.op == BLOCKS)
    assert report.traces()[block] > 0
    assert report.calls()[block] == 0


def test_compiled_before() -> None:
    model, inputs = made("wan")
    expected = run(model, inputs)
    model.compile_repeated_blocks(fullgraph=True, backend="eager")
    run(model, inputs)
    report = weft.diffusers.accelerate(model)
    assert differ(run(model, inputs), expected) < FP32
    assert report.traces()["blocks.0"] > 0


# --- leaves of other models ---


@pytest.mark.parametrize("activation", ["gelu", "gelu-approximate", "geglu", "swiglu"])
@pytest.mark.parametrize("bias", [True, False])
def test_feed_forward(activation: str, bias: bool) -> None:
    torch.manual_seed(0)
    module = FeedForward(24, activation_fn=activation, bias=bias).to(DEVICE)
    x = torch.randn(3, 5, 24).to(DEVICE)
    with torch.no_grad():
        expected = module(x)
        report = weft.diffusers.accelerate(module)
        assert differ(module(x), expected) < FP32
        assert report.calls() == {"net.0": 1}
        assert report.passed() == {}
        with torch.autocast(DEVICE.type, torch.bfloat16):
            assert module(x).dtype == torch.bfloat16
        assert report.passed() == {
            "net.0": Counter({"its product: autocast chooses the dtype of its product": 1})
        }


def test_the_block_of_stable_diffusion() -> None:
    torch.manual_seed(0)
    module = BasicTransformerBlock(32, 2, 16, cross_attention_dim=16).eval().to(DEVICE)
    x, text = (torch.randn(shape).to(DEVICE) for shape in ((2, 9, 32), (2, 6, 16)))
    with torch.no_grad():
        expected = module(x, encoder_hidden_states=text)
        report = weft.diffusers.accelerate(module)
        assert differ(module(x, encoder_hidden_states=text), expected) < FP32
    assert report.calls() == {"ff.net.0": 1}
    assert {row.path: row.reason for row in report.declined}.keys() == {"attn1", "attn2"}


def test_a_stream_keeps_its_dtype_beside_updates_of_another() -> None:
    norm = torch.nn.LayerNorm(8).to(DEVICE)
    stream, gate = torch.randn(2, 2, 3, 8, device=DEVICE)
    update = torch.randn(2, 3, 8, device=DEVICE).bfloat16()
    normed, total = _parts.normed(norm, update, residual=stream, gate=gate)
    assert normed.dtype == total.dtype == _parts.added(update, stream, gate).dtype == torch.float32
    assert _parts.normed(norm, update).dtype == torch.bfloat16


def test_the_table_of_sources_is_that_of_this_diffusers() -> None:
    assert _sources.current() == _sources.SOURCES
