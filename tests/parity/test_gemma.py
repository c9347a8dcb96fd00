"""The CPU pipeline against transformers' Gemma layers on the same weights and the same embeddings.

In fp32 the relative error is at most 1e-5. In bf16 weft is no further from a float64 run than transformers' own bf16.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")
safe_open = pytest.importorskip("safetensors").safe_open

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("WEFT_TOOL", ROOT / "build" / "release" / "weft"))
SHAPES = {
    "one-kv-head": dict(layers=3, width=96, query_heads=4, kv_heads=1, head_dim=32, ffn=160, vocab=2048),
    "grouped-kv": dict(layers=2, width=128, query_heads=4, kv_heads=2, head_dim=64, ffn=256, vocab=2048),
}


def weft(*arguments: str) -> None:
    done = subprocess.run([str(TOOL), *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def pipeline(checkpoint: Path, out: Path, *options: str) -> tuple[torch.Tensor, torch.Tensor]:
    weft(
        "run",
        "pi05-encoder",
        "--checkpoint",
        str(checkpoint),
        "--image",
        "assets/coffee.ppm",
        "--crop",
        "56",
        "--prompt-tokens",
        "9",
        "--out",
        str(out),
        *options,
    )
    tensors = safetensors.load_file(out)
    return tensors["embeddings"], tensors["output"]


def gemma(checkpoint: Path, shape: dict[str, int], dtype: torch.dtype) -> transformers.GemmaModel:
    config = transformers.GemmaConfig(
        hidden_size=shape["width"],
        intermediate_size=shape["ffn"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["query_heads"],
        num_key_value_heads=shape["kv_heads"],
        head_dim=shape["head_dim"],
        vocab_size=shape["vocab"],
        hidden_activation="gelu_pytorch_tanh",
        attn_implementation="eager",
    )
    model = transformers.GemmaModel(config)
    weights = safetensors.load_file(checkpoint / "model.safetensors")
    state = {k.removeprefix("model."): v for k, v in weights.items() if k.startswith("model.")}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and not [name for name in missing if "rotary" not in name]
    return model.to(dtype).eval()


@torch.inference_mode()
def layers(model: transformers.GemmaModel, embeddings: torch.Tensor) -> torch.Tensor:
    """Every layer and the final norm, all tokens seeing all tokens."""
    x = embeddings[None].to(model.norm.weight.dtype)
    positions = torch.arange(x.shape[1])[None]
    rotary = model.rotary_emb(x, positions)
    for layer in model.layers:
        x = layer(x, position_embeddings=rotary, attention_mask=None, position_ids=positions)
        x = x[0] if isinstance(x, tuple) else x
    return model.norm(x)[0].double()


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


@pytest.fixture(scope="module", params=SHAPES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    shape = SHAPES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    sizes = [f"--{name.replace('_', '-')}={size}" for name, size in shape.items()]
    for dtype in ("fp32", "bf16"):
        weft("make-checkpoint", str(folder / dtype), "--dtype", dtype, "--seed", "5", *sizes)
    return folder, shape


def test_fp32_agrees_to_1e5(case) -> None:
    folder, shape = case
    embeddings, output = pipeline(folder / "fp32", folder / "out32.safetensors", "--dtype", "fp32")
    expected = layers(gemma(folder / "fp32", shape, torch.float32), embeddings)
    assert relative(output, expected) <= 1e-5


def test_bf16_is_no_further_from_float64_than_transformers(case) -> None:
    folder, shape = case
    embeddings, output = pipeline(folder / "bf16", folder / "out16.safetensors", "--dtype", "bf16")
    exact = layers(gemma(folder / "bf16", shape, torch.float64), embeddings)
    theirs = layers(gemma(folder / "bf16", shape, torch.bfloat16), embeddings)
    assert relative(output, exact) <= relative(theirs, exact)


def test_sharded_checkpoint_gives_the_same_bits(case) -> None:
    folder, shape = case
    sizes = [f"--{name.replace('_', '-')}={size}" for name, size in shape.items()]
    weft(
        "make-checkpoint",
        str(folder / "sharded"),
        "--dtype",
        "bf16",
        "--seed",
        "5",
        "--shard-gib",
        "0.0005",
        *sizes,
    )
    assert (folder / "sharded" / "model.safetensors.index.json").exists()
    _, whole = pipeline(folder / "bf16", folder / "whole.safetensors")
    _, parts = pipeline(folder / "sharded", folder / "parts.safetensors")
    assert torch.equal(whole, parts)


def test_a_missing_tensor_is_named(case) -> None:
    folder, _ = case
    broken = folder / "broken.safetensors"
    whole = folder / "bf16" / "model.safetensors"
    with safe_open(whole, "pt") as f:
        metadata = f.metadata()
    weights = safetensors.load_file(whole)
    del weights["model.layers.1.mlp.up_proj.weight"]
    safetensors.save_file(weights, broken, metadata)
    done = subprocess.run(
        [str(TOOL), "run", "pi05-encoder", "--checkpoint", str(broken), "--crop", "28"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "model.layers.1.mlp.up_proj.weight" in done.stderr
