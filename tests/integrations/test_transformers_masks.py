"""weft's attention in transformers: which masks, windows, caps and sinks are weft's, and what is handed on."""

from __future__ import annotations

import pytest
import torch

from tests.integrations import models
from tests.integrations.device import ATTENDS, DEVICE
from tests.integrations.models import FP32, IDS, PADDED, changed

pytest.importorskip("accelerate")

import transformers as hf
import weft.transformers
from transformers import masking_utils
from weft.transformers import _attention


@pytest.fixture(autouse=True)
def _fresh_counts():
    _attention.CALLS.clear()
    torch.compiler.reset()


def test_attention_alone():
    model = models.build("qwen3")
    expected = models.logits(model, IDS, PADDED)
    model.set_attn_implementation("weft")
    assert changed(models.logits(model, IDS, PADDED)[0, 4:], expected[0, 4:]) < FP32
    assert weft.transformers.attention_calls() == {ATTENDS: 2}


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_a_compiled_step_stores_each_mask_once(name):
    """Its layers read memory: what is worked out from positions the compiler would work out for each of them."""
    model = models.build(name)
    model.set_attn_implementation("weft")
    caches = [hf.StaticCache(config=model.config, max_cache_len=16) for _ in range(2)]
    for cache in caches:
        models.logits(model, IDS, past_key_values=cache)
    targets: list[str] = []

    def seen(graph, _):
        targets.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    step = torch.compile(model, fullgraph=True, backend=seen)
    expected = models.logits(model, IDS[:, :1], past_key_values=caches[0])
    assert changed(models.logits(step, IDS[:, :1], past_key_values=caches[1]), expected) < FP32
    assert targets.count("weft.copy_out.default") == (2 if name == "gemma2" else 1)
    assert targets.count("weft.attention.default") == (2 if ATTENDS == "weft" else 0)


def test_what_weft_lacks_is_named():
    """Biases, weights that are asked for, a dtype, dropout: handed on, each with its reason."""
    model = models.build("llama", torch.float64)
    model.set_attn_implementation("weft")
    models.logits(model, IDS)
    layer = models.build("llama").model.layers[0].self_attn
    q, k = (torch.randn(1, heads, 3, 16, device=DEVICE) for heads in (4, 2))
    plain = _attention.attention(layer, q, k, k, None)[0]
    for extra in (
        dict(output_attentions=True),
        dict(position_bias=torch.zeros(1, 4, 3, 3, device=DEVICE)),
        dict(dropout=1e-9),
    ):
        assert changed(_attention.attention(layer, q, k, k, None, **extra)[0], plain) < FP32
    reasons = weft.transformers.attention_calls()
    assert reasons.pop(ATTENDS) == 1
    assert [reason.split()[0] for reason in reasons] == [
        "dtype",
        "output_attentions:",
        "position_bias:",
        "dropout",
    ]


def test_keys_of_a_static_cache_that_were_not_written_yet():
    layer = models.build("llama").model.layers[0].self_attn
    q, k, v = (torch.randn(1, heads, 10, 16, device=DEVICE) for heads in (4, 2, 2))
    expected = _attention.attention(layer, q[:, :, :4], k[:, :, :4], v[:, :, :4], None)[0]
    k[:, :, 4:] = v[:, :, 4:] = torch.nan
    assert torch.equal(_attention.attention(layer, q[:, :, :4], k, v, None)[0], expected)


def test_a_prompt_in_parts():
    """Queries after keys of an earlier call see them all: causality is aligned to the last key."""
    model = models.build("qwen3")
    expected = models.logits(model, IDS, PADDED)
    model.set_attn_implementation("weft")
    for mask, kind in ((None, "plain"), (PADDED, "padded")):
        with torch.no_grad():
            first = model(IDS[:, :5], attention_mask=None if mask is None else mask[:, :5], use_cache=True)
        got = models.logits(model, IDS[:, 5:], mask, past_key_values=first.past_key_values)
        whole = expected if mask is not None else models.logits(models.build("qwen3"), IDS)
        assert changed(got, whole[:, 5:]) < FP32, kind
    assert set(weft.transformers.attention_calls()) == {ATTENDS}


def test_masks_of_other_kinds_are_pytorchs():
    """Packed sequences, a mask of each query: right, and counted with the reason."""
    positions = torch.cat((torch.arange(7), torch.arange(5))).expand(2, -1).to(DEVICE)
    additive = torch.zeros(2, 1, 12, 12).masked_fill(torch.rand(2, 1, 12, 12) < 0.3, -1e30).to(DEVICE)
    for name, options in (
        ("qwen3", dict(position_ids=positions, use_cache=False)),
        ("qwen3", dict(attention_mask=additive)),
    ):
        model = models.build(name)
        with torch.no_grad():
            expected = model(IDS, **options).logits
            model.set_attn_implementation("weft")
            got = model(IDS, **options).logits
        assert changed(got, expected) < FP32
    counted = weft.transformers.attention_calls()
    assert counted["weft"] == 0
    assert counted.total() == 4
    assert all("mask" in reason for reason in counted)


@pytest.mark.parametrize("name", ["mistral", "gemma2", "gemma3"])
def test_windows_and_caps(name):
    """Windows that cut, with and without padding, over a prompt in parts too: weft's. What is spelled out agrees."""
    whole = models.build(name)
    expected, padded = models.logits(whole, IDS), models.logits(whole, IDS, PADDED)
    for dtype, reason in ((torch.float32, ATTENDS), (torch.float64, "dtype torch.float64")):
        model = models.build(name, dtype)
        model.set_attn_implementation("weft")
        assert changed(models.logits(model, IDS), expected) < FP32
        assert changed(models.logits(model, IDS, PADDED)[0, 4:], padded[0, 4:]) < FP32
        with torch.no_grad():
            first = model(IDS[:, :5], use_cache=True)
        got = models.logits(model, IDS[:, 5:], past_key_values=first.past_key_values)
        assert changed(got, expected[:, 5:]) < FP32
        assert weft.transformers.attention_calls() == {reason: 8}
        _attention.CALLS.clear()


def test_sinks():
    """gpt-oss: a logit without a value, beside full layers and layers with a window."""
    sizes = models.SIZES | dict(head_dim=16, sliding_window=8, num_local_experts=2, num_experts_per_tok=1)
    torch.manual_seed(0)
    model = hf.GptOssForCausalLM(hf.GptOssConfig(**sizes)).eval().to(DEVICE)
    for layer in model.model.layers:
        layer.self_attn.sinks.data.normal_()
    model.set_attn_implementation("eager")
    expected, padded = models.logits(model, IDS), models.logits(model, IDS, PADDED)
    model.set_attn_implementation("weft")
    assert changed(models.logits(model, IDS), expected) < FP32
    assert changed(models.logits(model, IDS, PADDED)[0, 4:], padded[0, 4:]) < FP32
    assert weft.transformers.attention_calls() == {ATTENDS: 4}

    layer = model.model.layers[0].self_attn
    q, k = (torch.randn(1, heads, 3, 16, device=DEVICE) for heads in (4, 2))
    with torch.no_grad():
        found = [
            _attention.attention(layer, q, k, k, None, s_aux=layer.sinks, output_attentions=handed_on)[0]
            for handed_on in (False, True)
        ]
    assert changed(*found) < FP32


@pytest.mark.parametrize(
    "options",
    [
        dict(q_offset=10, kv_offset=6),
        dict(q_offset=0, allow_is_causal_skip=False),
        dict(q_offset=18),
        dict(q_offset=2, mask_function=masking_utils.sliding_window_causal_mask_function(1)),
        dict(
            q_offset=2,
            mask_function=masking_utils.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.int64)),
        ),
        dict(q_offset=2, mask_function=masking_utils.bidirectional_mask_function),
        dict(q_offset=4, attention_mask=torch.ones(2, 5, dtype=torch.bool)),
    ],
    ids=str,
)
def test_a_mask_that_says_more_is_the_librarys(options):
    """Keys that begin later, rows that the model goes on with itself, too few keys, windows of one, chunks."""
    expected = masking_utils.sdpa_mask(2, 3, 20, **options)
    got = _attention.mask(2, 3, 20, **options)
    assert expected is not None
    assert got is not None
    assert got.dtype == expected.dtype
    assert torch.equal(got, expected)
