"""Static caches, which the rotation's kernel writes: what is in them, and which caches stay the library's."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from transformers import DynamicCache, StaticCache
from transformers.cache_utils import Cache, DynamicLayer, StaticLayer

from tests.integrations import models
from tests.integrations.device import DEVICE
from tests.integrations.models import FP32, changed

pytest.importorskip("accelerate")

import weft.transformers
from weft import swap
from weft.transformers import _cache, _sources

EVERY = pytest.mark.parametrize("name", models.FAMILIES)
ROOM = 20


@pytest.fixture(autouse=True)
def _fresh_counts():
    torch.compiler.reset()


@pytest.fixture(name="updates")
def fixture_updates(monkeypatch):
    """The tokens of each update that the library makes of a layer that does not slide."""
    found, own = [], StaticLayer.update

    def update(self, key_states, value_states, *args, **kwargs):
        found.append(key_states.shape[-2])
        return own(self, key_states, value_states, *args, **kwargs)

    monkeypatch.setattr(StaticLayer, "update", update)
    return found


def filled(model, ids):
    """A cache that has been made, and forgotten what was in it."""
    cache = StaticCache(config=model.config, max_cache_len=ROOM)
    models.logits(model, ids[:, :1], past_key_values=cache)
    cache.reset()
    return cache


def steps(model, cache, ids, cuts=(0, 5, 6, 7, 9), call=None):
    """Logits of a prefill, of single tokens and of a few more behind them."""
    call = model if call is None else call
    return torch.cat([models.logits(call, ids[:, a:b], past_key_values=cache) for a, b in pairwise(cuts)], 1)


def same(cache, other):
    """Whether two caches hold the same, of as many tokens."""
    for layer, expected in zip(cache.layers, other.layers, strict=True):
        torch.testing.assert_close(layer.keys, expected.keys, atol=FP32, rtol=1e-5)
        torch.testing.assert_close(layer.values, expected.values, atol=FP32, rtol=1e-5)
        assert torch.equal(layer.cumulative_length, expected.cumulative_length)
    return True


@EVERY
@pytest.mark.parametrize("batch", [1, 2])
def test_what_a_cache_holds(name, batch, updates):
    """After a prefill and steps, of one sequence and of two, what the library's own update leaves in it."""
    model, ids = models.build(name), models.tokens(batch, 9)
    theirs = filled(model, ids)
    expected = steps(model, theirs, ids)
    weft.transformers.accelerate(model)
    ours = filled(model, ids)
    updates.clear()
    assert changed(steps(model, ours, ids), expected) < 2 * FP32
    assert updates == []
    assert same(ours, theirs)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_steps_write_the_cache(batch, backend):
    model, ids = models.build("llama"), models.tokens(batch, 9)
    theirs = filled(model, ids)
    expected = steps(model, theirs, ids)
    weft.transformers.accelerate(model)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    ours = filled(model, ids)
    places = [layer.keys.data_ptr() for layer in ours.layers]
    assert changed(steps(model, ours, ids, call=compiled, cuts=(0, 5, 6, 7, 8, 9)), expected) < 2 * FP32
    assert same(ours, theirs)
    assert [layer.keys.data_ptr() for layer in ours.layers] == places


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA Graphs")
@pytest.mark.parametrize("batch", [1, 2])
def test_a_graph_writes_where_the_count_says(batch):
    """A step is captured once and replayed at other positions: nothing of them is read by the host."""
    model, ids = models.build("qwen3", torch.bfloat16), models.tokens(batch, 9)
    weft.transformers.accelerate(model)
    with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
        theirs, ours = filled(model, ids), filled(model, ids)
        cuts = (0, 5, 6, 7, 8, 9)
        expected = steps(model, theirs, ids, cuts)
        models.logits(model, ids[:, :5], past_key_values=ours)
        token = ids[:, 5:6].clone()
        models.logits(model, token, past_key_values=ours)
        for layer in ours.layers:
            layer.cumulative_length.fill_(5)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            out = models.logits(model, token, past_key_values=ours)
        for place in range(5, 9):
            token.copy_(ids[:, place : place + 1])
            graph.replay()
            torch.testing.assert_close(out[:, 0], expected[:, place])
        torch.cuda.synchronize()
        for layer, other in zip(ours.layers, theirs.layers, strict=True):
            torch.testing.assert_close(layer.keys, other.keys)
            torch.testing.assert_close(layer.values, other.values)
            assert torch.equal(layer.cumulative_length, other.cumulative_length)


def test_left_padding_keeps_positions_apart_from_rows():
    """Tokens of padded sequences turn by their own positions, and lie where the cache's count says."""
    model, ids = models.build("qwen3"), models.tokens(2, 6)
    mask = torch.ones(2, 8, dtype=torch.long, device=DEVICE)
    mask[0, :3] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    found = []
    for _ in range(2):
        cache = filled(model, ids)
        out = [
            models.logits(
                model, torch.cat((ids, ids), 1)[:, a:b], mask[:, :b], past_key_values=cache,
                position_ids=positions[:, a:b],
            )[:, -1]
            for a, b in ((0, 6), (6, 7), (7, 8))
        ]  # fmt: skip
        found.append((torch.stack(out), cache))
        weft.transformers.accelerate(model)
    assert changed(found[0][0], found[1][0]) < FP32
    for layer, expected in zip(found[1][1].layers, found[0][1].layers, strict=True):
        torch.testing.assert_close(layer.keys[1], expected.keys[1], atol=FP32, rtol=1e-5)
        torch.testing.assert_close(layer.keys[0, :, 3:], expected.keys[0, :, 3:], atol=FP32, rtol=1e-5)


class Other(StaticLayer):
    """A layer of somebody else's."""


def _other(cache):
    cache.layers = [Other(ROOM) for _ in cache.layers]


def _offloading(cache):
    cache.offloading = True
    cache.update = lambda k, v, index: cache.layers[index].update(k, v)


@pytest.mark.parametrize("spoil", [_other, _offloading])
def test_caches_that_the_library_updates(spoil, updates):
    model, ids = models.build("llama"), models.tokens(2, 9)
    expected = steps(model, filled(model, ids), ids)
    weft.transformers.accelerate(model)
    cache = filled(model, ids)
    spoil(cache)
    updates.clear()
    assert changed(steps(model, cache, ids), expected) < 2 * FP32
    assert updates == [tokens for tokens in (5, 1, 1, 2) for _ in range(2)]


def test_layers_that_take_no_heads_as_they_are():
    """Another dtype, batch or head, more tokens than room, and a layer without memory."""
    model, ids = models.build("llama"), models.tokens(2, 9)
    cache = filled(model, ids)
    layer = cache.layers[1]
    heads = torch.zeros(2, 3, 2, 16, device=DEVICE)
    assert _cache.static_layer(cache, 1, heads, heads) is layer
    for k, v in (
        (heads.bfloat16(), heads.bfloat16()), (heads, heads.bfloat16()), (heads[:1], heads[:1]),
        (heads[:, :, :1], heads[:, :, :1]), (heads[..., :8], heads), (heads.repeat(1, 7, 1, 1),) * 2,
    ):  # fmt: skip
        assert _cache.static_layer(cache, 1, k, v) is None
    for other in (
        StaticCache(config=model.config, max_cache_len=ROOM),
        DynamicCache(config=model.config),
        DynamicCache(),
        Cache(layer_class_to_replicate=DynamicLayer),
        None,
    ):
        assert _cache.static_layer(other, 1, heads, heads) is None


def test_eager_rounding_and_unknown_sources_update_by_the_library(updates, monkeypatch):
    model, ids = models.build("llama"), models.tokens(2, 9)
    weft.transformers.accelerate(model, rounding="eager")
    cache = filled(model, ids)
    updates.clear()
    steps(model, cache, ids)
    assert len(updates) == 8
    swap.undo(model)
    weft.transformers.accelerate(model)
    monkeypatch.setattr(_cache, "_KNOWN", False)
    updates.clear()
    steps(model, filled(model, ids), ids)
    assert len(updates) == 2 + 8


def test_tokens_behind_the_end_take_no_row_of_another_sequence():
    layer = StaticLayer(4)
    heads = torch.zeros(2, 2, 1, 16, device=DEVICE)
    layer.lazy_initialization(heads, heads)
    layer.cumulative_length.fill_(3)
    slots = _cache.places(layer, 2, 2)["slots"]
    assert slots.tolist() == [[3, -1], [7, -1]]
    assert _cache.places(layer, 1, 1)["slots"].data_ptr() == layer.cumulative_length.data_ptr()
    assert _cache.places(layer, 1, 3)["slots"].tolist() == [[3, -1, -1]]


def test_caches_are_of_this_version():
    """What is installed is known: a new version of transformers fails here first."""
    for cls in (Cache, StaticLayer):
        assert swap.source_hash(cls) in _sources.CACHES[cls.__name__]
    assert _cache._KNOWN
