"""diffusers' attention backend "weft": masks, what goes to PyTorch, the enumeration, context parallelism."""

from __future__ import annotations

import hashlib
import inspect
import os
import socket
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("diffusers")

import weft.diffusers
from diffusers.models import attention_dispatch
from weft.diffusers import _backend

from tests.integrations.device import ATTENDS, DEVICE
from tests.integrations.diffusers_models import differ, made, run
from tests.paths import PYTHON_PATH, ROOT

FP32 = 2e-6 if DEVICE.type == "cpu" else 2e-5  # of the largest number: rounding in another order


@pytest.fixture(autouse=True)
def fresh() -> None:
    _backend.CALLS.clear()


def attend(mask: torch.Tensor | None, backend: str, **options: Any) -> torch.Tensor:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, tokens, 2, 16).to(DEVICE) for tokens in (7, 5, 5))
    mask = None if mask is None else mask.to(DEVICE)
    return attention_dispatch.dispatch_attention_fn(q, k, v, mask, backend=backend, **options)


def masks() -> dict[str, torch.Tensor]:
    keys = torch.tensor([[1, 1, 1, 1, 0], [1, 0, 1, 0, 0]], dtype=torch.bool)
    additive = ((~keys).float() * -10000.0)[:, None, None].repeat_interleave(2, dim=1)
    return {
        "bool": keys[:, None, None],
        "of two axes": keys,
        "additive": additive,
        "one": keys[:1, None, None],
    }


@pytest.mark.parametrize("name", masks())
def test_masks_of_keys_are_wefts(name: str) -> None:
    mask = masks()[name]
    got, unmasked = attend(mask, "weft"), attend(None, "weft")
    assert differ(got, attend(mask, "native")) < FP32
    assert differ(got, unmasked) > 1e-2
    assert weft.diffusers.attention_calls() == Counter({ATTENDS: 2})


def test_what_bf16_makes_of_a_mask_hides_too() -> None:
    mask = masks()["additive"].bfloat16()
    assert float(mask.min()) > -10000
    assert torch.equal(_backend.key_mask(mask, 2, 5), masks()["of two axes"])


def other_masks() -> dict[str, torch.Tensor]:
    additive = masks()["additive"]
    soft, heads, hidden = (additive.clone() for _ in range(3))
    soft[0, :, :, 1] = -0.5
    heads[0, 0, 0, 0] = -10000.0
    hidden[0] = -10000.0
    return {
        "of queries": torch.ones(7, 5, dtype=torch.bool).tril(-1)[None, None] | (torch.arange(5) == 0),
        "soft": soft,
        "of heads": heads,
        "hides all": hidden,
    }


@pytest.mark.parametrize("name", other_masks())
def test_other_masks_are_pytorchs(name: str) -> None:
    mask = other_masks()[name]
    assert torch.equal(attend(mask, "weft"), attend(mask, "native"))
    assert weft.diffusers.attention_calls()[ATTENDS] == 0
    assert "mask" in next(iter(weft.diffusers.attention_calls()))


def test_scale_and_causality() -> None:
    assert differ(attend(None, "weft", scale=0.7), attend(None, "native", scale=0.7)) < FP32
    assert torch.equal(attend(None, "weft", is_causal=True), attend(None, "native", is_causal=True))
    assert weft.diffusers.attention_calls()[ATTENDS] == 1


def test_ring_attention_refuses_masks() -> None:
    ring = SimpleNamespace(context_parallel_config=SimpleNamespace(ring_degree=2))
    q = torch.randn(1, 4, 2, 16, device=DEVICE)
    with pytest.raises(NotImplementedError, match="ulysses_degree"):
        _backend._forward(None, q, q, q, torch.ones(1, 1, 1, 4, dtype=torch.bool), _parallel_config=ring)
    with pytest.raises(NotImplementedError, match="no other has its sums"):
        _backend.attention(q, q, q, dropout_p=0.5, return_lse=True)


def test_a_backend_that_was_chosen_stays() -> None:
    model, inputs = made("wan")
    model.set_attention_backend("_native_math")
    try:
        weft.diffusers.accelerate(model)
        run(model, inputs)
        assert weft.diffusers.attention_calls()[ATTENDS] == 0
        model.set_attention_backend("weft")
        run(model, inputs)
        assert weft.diffusers.attention_calls()[ATTENDS] == 4
    finally:
        model.reset_attention_backend()
        attention_dispatch._AttentionBackendRegistry.set_active_backend(
            attention_dispatch.AttentionBackendName.NATIVE
        )


def test_diffusers_enumeration_is_the_closed_one_that_weft_extends() -> None:
    """Fails when diffusers changes how backends are named and registered.

    Look then whether it has become open: if so, register through that, and drop what `_backend.register` does.
    """
    parts = (attention_dispatch.AttentionBackendName, attention_dispatch._AttentionBackendRegistry)
    source = "".join(inspect.getsource(part) for part in parts)
    known = "d2e31536cf9c39862d0b21bb5398e846837b7a0afa9beaee1023d8c5a1cf1020"
    assert hashlib.sha256(source.encode()).hexdigest() == known
    member = attention_dispatch.AttentionBackendName("weft")
    assert member is attention_dispatch.AttentionBackendName.WEFT is _backend.register()
    assert (member.name, member.value, str.__str__(member)) == ("WEFT", "weft", "weft")
    assert list(attention_dispatch.AttentionBackendName)[-1] is member


def test_an_enumeration_that_changed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        attention_dispatch, "AttentionBackendName", type("Open", (), {"_value2member_map_": {}})
    )
    with pytest.raises(RuntimeError, match="no longer a plain enumeration"):
        _backend.register()


def test_context_parallel_over_two_processes() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), PYTHON_PATH]),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "tests.integrations.diffusers_parallel"]
    ranks = [
        subprocess.Popen(
            command,
            env=environment | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    out = [rank.communicate(timeout=500) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], out[0][1][-3000:] + out[1][1][-3000:]
    rows = [line.split(",") for line in out[0][0].split() if line.count(",") == 3]
    assert [(name, kind) for name, kind, *_ in rows] == [
        ("flux", "ulysses_degree"),
        ("flux", "ring_degree"),
        ("wan", "ring_degree"),
        ("qwen", "ulysses_degree"),
        ("ltx", "ulysses_degree"),
    ]
    # A ring's rank attends to the keys of each rank in turn; Wan's cross-attention is not parallel.
    assert [int(calls) for *_, calls in rows] == [4, 8, 6, 2, 4]
    assert all(float(worst) < 5e-6 for *_, worst, _ in rows)
