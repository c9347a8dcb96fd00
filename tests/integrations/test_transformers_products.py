"""The products of weft.transformers: which Linears' weights weft.gemm reads, and which Linears are called."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from tests.integrations import models
from tests.integrations.device import ATTENDS
from tests.integrations.models import FP32, IDS, changed

pytest.importorskip("accelerate")

import peft
import weft.transformers
from weft import swap
from weft.swap._recipe import TRACED_PASSES

EVERY = pytest.mark.parametrize("name", models.FAMILIES)
ATTENTION = ["self_attn.q_proj + k_proj + v_proj", "self_attn.o_proj"]


@pytest.fixture(autouse=True)
def _fresh_counts():
    TRACED_PASSES.clear()
    torch.compiler.reset()


def multiplied(model, monkeypatch):
    """The list that gets the path of each Linear whose weight comes to weft.gemm, as its `b`; of three, one path."""
    paths = {}
    for path, part in model.named_modules():
        if isinstance(part, nn.Linear):
            paths[part.weight.data_ptr(), len(part.weight)] = path
        if hasattr(part, "q_proj"):
            rows = sum(len(linear.weight) for linear in (part.q_proj, part.k_proj, part.v_proj))
            paths[part.q_proj.weight.data_ptr(), rows] = f"{path}.q_proj + k_proj + v_proj"
    found, own = [], weft.gemm

    def gemm(x, weight, **options):
        found.append(paths[weight.data_ptr(), len(weight)])
        return own(x, weight, **options)

    monkeypatch.setattr(weft, "gemm", gemm)
    return found


def passed(report):
    """What was handed on, but for attention in fp32 on a GPU."""
    found = {path: dict(reasons) for path, reasons in report.passed().items()}
    for reasons in found.values():
        reasons.pop(f"attention: {ATTENDS}", None)
    return {path: reasons for path, reasons in found.items() if reasons}


@EVERY
def test_products_of_few_tokens(name, monkeypatch):
    """64 rows and fewer are weft's; more are the modules', but for gate and up; neither is a call handed on."""
    model = models.build(name, num_hidden_layers=1)
    ids = {rows: models.tokens(batch, rows // batch) for rows, batch in ((2, 2), (64, 2), (65, 5))}
    expected = {rows: models.logits(model, ids[rows]) for rows in ids}
    report = weft.transformers.accelerate(model)
    found = multiplied(model, monkeypatch)
    for rows, linears in (
        (2, [*ATTENTION, "mlp.gate_proj", "mlp.down_proj"]),
        (64, [*ATTENTION, "mlp.gate_proj", "mlp.down_proj"]),
        (65, ["mlp.gate_proj"]),
    ):
        found.clear()
        assert changed(models.logits(model, ids[rows]), expected[rows]) < FP32
        assert found == [f"model.layers.0.{linear}" for linear in linears], rows
    assert passed(report) == {}

    swap.undo(model)
    weft.transformers.accelerate(model, rounding="eager")
    found.clear()
    models.logits(model, ids[2])
    assert found == []


@pytest.mark.parametrize("kind", ["adapter", "hook"])
def test_few_tokens_of_a_linear_that_does_more(kind, monkeypatch):
    """An adapter and a hook take part in the products of single Linears, and the report says whose."""
    model = models.build("qwen3", num_hidden_layers=1)
    part = model.model.layers[0]
    called = []
    if kind == "adapter":
        config = peft.LoraConfig(r=4, target_modules=["o_proj", "down_proj"], init_lora_weights=False)
        peft.inject_adapter_in_model(config, model.model)
        reason = "it is a Linear, not nn.Linear"
    else:
        for linear in (part.self_attn.o_proj, part.mlp.down_proj):
            linear.register_forward_hook(lambda *_: called.append(1))
        reason = "hooks run around it"
    expected = models.logits(model, IDS)
    report = weft.transformers.accelerate(model)
    found = multiplied(model, monkeypatch)
    assert changed(models.logits(model, IDS), expected) < FP32
    assert found == [f"model.layers.0.{linear}" for linear in (ATTENTION[0], "mlp.gate_proj")]
    assert len(called) == (4 if kind == "hook" else 0)
    assert passed(report) == {
        f"model.layers.0.{path}": {f"{linear} is a call of its own: {reason}": 1}
        for path, linear in (("self_attn", "o_proj"), ("mlp", "down_proj"))
    }


def test_compiled_products_of_few_tokens():
    """One graph has weft's products, another the modules': the rows decide while it is traced."""
    model = models.build("qwen2", num_hidden_layers=1)
    weft.transformers.accelerate(model)
    found: Counter[str] = Counter()

    def counted(graph, _):
        found.update(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    compiled = torch.compile(model, fullgraph=True, backend=counted)
    for ids, joined, others in ((IDS, 1, 3), (models.tokens(5, 13), 0, 1)):
        expected = models.logits(model, ids, use_cache=False)
        found.clear()
        assert changed(models.logits(compiled, ids, use_cache=False), expected) < FP32
        assert found["weft_transformers.joined_product.default"] == joined
        assert found["weft.gemm.default"] == others, found


def test_rows_that_do_not_fold(monkeypatch):
    """An attention by itself takes what a Linear takes: tokens of any strides."""
    model = models.build("llama", num_hidden_layers=1)
    attention = model.model.layers[0].self_attn
    wide = torch.randn(2, 5, 64, device=IDS.device)[:, ::2]
    angles = torch.randn(1, 3, 8, device=IDS.device).repeat(1, 1, 2)
    with torch.no_grad():
        expected = attention(wide, (angles.cos(), angles.sin()))[0]
        report = weft.transformers.accelerate(model)
        found = multiplied(model, monkeypatch)
        assert changed(attention(wide, (angles.cos(), angles.sin()))[0], expected) < FP32
    assert report.calls()["model.layers.0.self_attn"] == 1
    assert found == [f"model.layers.0.{linear}" for linear in ATTENTION]


def test_the_residual_of_a_block_is_part_of_its_last_product(monkeypatch):
    """Of few rows; a call that is the module's own, here for a gradient, adds it itself."""
    model = models.build("llama", num_hidden_layers=1)
    ids = models.tokens(2, 2)
    expected = models.logits(model, ids)
    weft.transformers.accelerate(model)
    residuals, product = [], weft.gemm

    def gemm(x, weight, **options):
        residuals.append(options.get("residual") is not None)
        return product(x, weight, **options)

    monkeypatch.setattr(weft, "gemm", gemm)
    assert changed(models.logits(model, ids), expected) < FP32
    assert residuals == [False] * 3 + [True]  # the last is down_proj's
    mlp, part = model.model.layers[0].mlp, torch.randn(1, 3, model.config.hidden_size, device=IDS.device)
    with torch.enable_grad():
        part.requires_grad_()
        got = mlp(part, residual=part)
        own: Any = type(mlp).__mro__[1]
        torch.testing.assert_close(got, part + own.forward(mlp, part))
