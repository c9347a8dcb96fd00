"""Queries, keys and values as one product: weights that lie together, and everything that parts them again."""

from __future__ import annotations

import copy

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tests.integrations import models
from tests.integrations.device import DEVICE
from tests.integrations.models import FP32, IDS, changed

pytest.importorskip("accelerate")

import weft.transformers
from weft import swap
from weft.transformers import _blocks, _joined

NAMES = ("q_proj", "k_proj", "v_proj")


@pytest.fixture(autouse=True)
def _fresh_counts():
    torch.compiler.reset()


@pytest.fixture(name="products")
def fixture_products(monkeypatch):
    """The rows of each weight that comes to weft.gemm."""
    rows, own = [], weft.gemm

    def gemm(x, weight, **options):
        rows.append(len(weight))
        return own(x, weight, **options)

    monkeypatch.setattr(weft, "gemm", gemm)
    return rows


@pytest.fixture(name="whole")
def fixture_whole(monkeypatch):
    """Whether the weights of each joined product lay together, as its kernel saw it."""
    found, own = [], _joined._whole

    def whole(parts):
        tensor = own(parts)
        if parts[0].dim() == 2:
            found.append(tensor is not None)
        return tensor

    monkeypatch.setattr(_joined, "_whole", whole)
    return found


def attention(model, layer=0):
    return model.model.layers[layer].self_attn


def memory(model):
    """The memory of each weight of the first attention, as a number."""
    return [getattr(attention(model), name).weight.untyped_storage().data_ptr() for name in NAMES]


# Of q, k and v: 64, 32 and 32 rows; of what follows them: o 64, gate (with up) 96, down 64.
TOGETHER, APART = [128, 64, 96, 64], [64, 32, 32, 64, 96, 64]


@pytest.mark.parametrize("name", ["llama", "qwen2"])  # without biases, with
def test_weights_lie_together_until_undo(name, products, tmp_path):
    model = models.build(name)
    expected = models.logits(model, IDS)
    parameters = {path: id(parameter) for path, parameter in model.named_parameters()}
    before = copy.deepcopy(model.state_dict())
    weft.transformers.accelerate(model)
    assert len(set(memory(model))) == 1
    assert changed(models.logits(model, IDS), expected) < FP32
    assert products == 2 * TOGETHER

    assert {path: id(parameter) for path, parameter in model.named_parameters()} == parameters
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    model.save_pretrained(tmp_path)  # safetensors takes no tensors that overlap
    again = type(model).from_pretrained(tmp_path, dtype=torch.float32).to(DEVICE)
    assert torch.equal(models.logits(again.eval(), IDS), expected)
    layer = {key: value for key, value in model.state_dict().items() if "layers.0.self_attn" in key}
    save_file(layer, tmp_path / "layer.safetensors")

    swap.undo(model)
    assert len(set(memory(model))) == 3
    for linear in map(attention(model).get_submodule, NAMES):
        assert linear.weight.untyped_storage().nbytes() == linear.weight.nbytes
    assert torch.equal(models.logits(model, IDS), expected)


def test_a_second_call_leaves_them_together(products):
    model = models.build("llama", num_hidden_layers=1)
    weft.transformers.accelerate(model)
    weft.transformers.accelerate(model)
    models.logits(model, IDS)
    assert products == TOGETHER
    swap.undo(model)
    assert len(set(memory(model))) == 3
    weft.transformers.accelerate(model, rounding="eager")
    assert len(set(memory(model))) == 3


@pytest.mark.parametrize("how", ["replaced", "assigned", "moved", "set in place", "parameter"])
@pytest.mark.parametrize("compiled", [False, True])
def test_weights_that_change_are_seen(how, compiled, whole):
    """By the next call, also of a graph that was compiled while they lay together."""
    model = models.build("qwen2", num_hidden_layers=1)
    weft.transformers.accelerate(model)
    call = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
    models.logits(call, IDS, use_cache=False)
    k = attention(model).k_proj
    new = torch.randn_like(k.weight)
    if how == "replaced":
        k.weight.data = new
    elif how == "assigned":
        k.load_state_dict({"weight": new, "bias": k.bias.detach()}, assign=True)
    elif how == "moved":
        k.weight.data.copy_(new)
        model.double().float()
    elif how == "set in place":
        with torch.no_grad():
            k.weight.copy_(new)
    else:
        k.weight = nn.Parameter(new)
    assert whole == [True]
    got = models.logits(call, IDS, use_cache=False)
    assert whole == [True, how == "set in place"]
    own = models.build("qwen2", num_hidden_layers=1)
    attention(own).k_proj.weight.data.copy_(new)
    assert changed(got, models.logits(own, IDS)) < 4 * FP32  # a key of other size
    assert changed(got, models.logits(models.build("qwen2", num_hidden_layers=1), IDS)) > 1e-3


@pytest.mark.parametrize("how", ["turned", "exchanged", "as far into other memory"])
def test_weights_that_lie_elsewhere_are_others(how):
    """One that lies turned where it lay, two in each other's place, one at the same offset of another tensor."""
    group = linears(8, 2, 2)
    q, k, v = (linear.weight for linear in group)
    assert _joined.join(group)
    if how == "turned":
        q.data = q.data.t()
    elif how == "exchanged":
        k.data, v.data = v.data, k.data
    else:
        k.data = torch.randn(12, 8)[8:10]
    x = torch.randn(3, 8)
    with torch.no_grad():
        for got, linear in zip(_joined.product(x, group), group, strict=True):
            torch.testing.assert_close(got, linear(x))


def test_undo_leaves_alone_what_somebody_else_put_there():
    group = linears(4, 2, 2)
    assert _joined.join(group)
    theirs = torch.randn(2, 8)
    group[1].weight.data = theirs
    _joined.part(group)
    assert group[1].weight.data_ptr() == theirs.data_ptr()


def test_copies_have_weights_of_their_own(products):
    """A copy takes no part of the weights of the model that it was made of, and neither does its undo."""
    model = models.build("llama", num_hidden_layers=1)
    weft.transformers.accelerate(model)
    twin = copy.deepcopy(model)
    expected = models.logits(model, IDS)
    products.clear()
    assert changed(models.logits(twin, IDS), expected) < FP32
    assert products == APART
    swap.undo(twin)
    products.clear()
    assert torch.equal(models.logits(model, IDS), expected)
    assert products == TOGETHER


def linears(*rows, bias=False):
    return [nn.Linear(8, count, bias=bias) for count in rows]


def test_what_is_not_plain_stays_where_it_is():
    """Weights that others see too, or that another class or place has, do not move."""
    some, shared, hooked, other = (linears(4, 2, 2) for _ in range(4))
    some[1].bias = nn.Parameter(torch.zeros(2))
    shared[1].weight = shared[2].weight
    hooked[2].register_forward_hook(lambda *_: None)
    other[0].weight.data = other[0].weight.data.bfloat16()
    views, processes, sides = linears(4, 2, 2), linears(4, 2, 2), linears(4, 2, 2)
    views[0].weight.data = torch.randn(6, 8)[:4]
    processes[0].weight.data.share_memory_()
    sides[1].to("meta")
    for group in (some, shared, hooked, other, views, processes, sides):
        before = [linear.weight.data for linear in group]
        assert not _joined.join(group)
        assert all(
            linear.weight.untyped_storage()._cdata == t.untyped_storage()._cdata
            for linear, t in zip(group, before, strict=True)
        )

    plain = linears(4, 2, 2, bias=True)
    assert _joined.join(plain)
    assert not _joined.join(plain)
    assert plain[2].weight.data_ptr() - plain[0].weight.data_ptr() == 6 * 8 * 4
    assert plain[2].bias.data_ptr() - plain[0].bias.data_ptr() == 6 * 4


def test_parts_of_a_product():
    """Each Linear's part, of rows in any number of axes; where biases alone were parted, too."""
    group = linears(4, 2, 3, bias=True)
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        expected = [linear(x) for linear in group]
        for _ in range(3):
            for got, wanted in zip(_joined.product(x, group), expected, strict=True):
                torch.testing.assert_close(got, wanted, atol=1e-6, rtol=1e-5)
            if not _joined.join(group):
                group[1].bias.data = group[1].bias.data.clone()
        torch.library.opcheck(
            torch.ops.weft_transformers.joined_product.default,
            (x, [linear.weight.detach() for linear in group], [linear.bias.detach() for linear in group]),
            test_utils=("test_schema", "test_faketensor"),
        )
    _joined.part(group)
    assert len({linear.weight.untyped_storage().data_ptr() for linear in group}) == 3


@pytest.mark.parametrize("inference", [False, True])
def test_gradients_come_back(inference):
    """Weights that moved, there and back, in inference mode too, are trained as before."""
    group = linears(4, 2, 2, bias=True)
    with torch.inference_mode(inference):
        assert _joined.join(group)
    for undone in (False, True):
        for linear in group:
            linear.zero_grad()
            linear(torch.ones(3, 8)).sum().backward()
            assert torch.equal(linear.weight.grad, torch.full_like(linear.weight, 3))
        if not undone:
            with torch.inference_mode(inference):
                _joined.part(group)
    with torch.inference_mode():
        group = linears(4, 2, 2)
    assert not _joined.join(group)


def test_projections_are_the_ones_that_are_covered():
    model = models.build("llama", num_hidden_layers=1)
    weft.transformers.accelerate(model)
    record = swap.swapped(attention(model))
    assert record is not None and record.covers == (*_blocks.PROJECTIONS, "o_proj")
