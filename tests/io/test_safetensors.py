"""The safetensors package as the oracle of weft's files, and NumPy as that of their numbers.

`data/package.safetensors` was written by the package (run this file to write it again); test_foreign.cpp
reads it through weft's loader.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import safetensors.torch
import torch
from safetensors import safe_open

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = Path(os.environ.get("WEFT_TOOL", ROOT / "build/release/weft"))
GOLDEN = Path(__file__).parent / "data/package.safetensors"
SIZES = {"layers": 2, "width": 32, "query-heads": 4, "kv-heads": 2, "head-dim": 16, "ffn": 80, "vocab": 50}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def package_bytes() -> bytes:
    """One tensor of each dtype that weft has, as the package lays them out: element i is i - 2."""
    counting = torch.arange(-2, 4, dtype=torch.int64).reshape(2, 3)
    dtypes = {
        "fp32": torch.float32,
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "fp8_e4m3": torch.float8_e4m3fn,
        "fp8_e5m2": torch.float8_e5m2,
        "int8": torch.int8,
        "int32": torch.int32,
        "int64": torch.int64,
        "uint8": torch.uint8,
    }
    tensors = {name: counting.float().to(dtype) for name, dtype in dtypes.items() if name != "uint8"}
    tensors |= {"uint8": (counting + 2).to(torch.uint8), "bool": counting > 0, "scalar": torch.tensor(2.5)}
    tensors |= {"empty": torch.zeros(0, 3)}
    return bytes(safetensors.torch.save(tensors, {"framework": "torch", "note": 'a "quoted" line\n'}))


def test_the_golden_file_is_what_the_package_writes() -> None:
    ours, theirs = safetensors.torch.load(GOLDEN.read_bytes()), safetensors.torch.load(package_bytes())
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype
        assert ours[name].shape == tensor.shape
        got, want = (t.reshape(-1).view(torch.uint8) for t in (ours[name], tensor))
        assert torch.equal(got, want), name


def make_checkpoint(path: Path, *arguments: str) -> None:
    if not TOOL.exists():
        pytest.skip(f"{TOOL} is not built")
    sizes = [f"--{name}={size}" for name, size in SIZES.items()]
    subprocess.run([TOOL, "make-checkpoint", path, *sizes, *arguments], check=True, capture_output=True)


def expected_weights() -> dict[str, tuple[list[int], float]]:
    """Name to shape and standard deviation."""
    width, ffn = SIZES["width"], SIZES["ffn"]
    queries, keys = (SIZES[heads] * SIZES["head-dim"] for heads in ("query-heads", "kv-heads"))
    damp = 1 / math.sqrt(2 * SIZES["layers"])
    out = {
        "model.embed_tokens.weight": ([SIZES["vocab"], width], 1 / math.sqrt(width)),
        "model.norm.weight": ([width], 0.1),
        "patch_embed.weight": ([width, 588], 1 / math.sqrt(588)),
        "patch_embed.bias": ([width], 0.02),
    }
    for layer in range(SIZES["layers"]):
        prefix = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            out[f"{prefix}{norm}.weight"] = ([width], 0.1)
        for name, rows in (("q", queries), ("k", keys), ("v", keys)):
            out[f"{prefix}self_attn.{name}_proj.weight"] = ([rows, width], 1 / math.sqrt(width))
        for name in ("gate", "up"):
            out[f"{prefix}mlp.{name}_proj.weight"] = ([ffn, width], 1 / math.sqrt(width))
        out[f"{prefix}self_attn.o_proj.weight"] = ([width, queries], 1 / math.sqrt(queries) * damp)
        out[f"{prefix}mlp.down_proj.weight"] = ([width, ffn], 1 / math.sqrt(ffn) * damp)
    return out


def mixed(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """splitmix64's finaliser."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def numbers(seed: int, name: str, count: int, deviation: float) -> torch.Tensor:
    golden, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    hashed = 0xCBF29CE484222325
    for byte in name.encode():
        hashed = ((hashed ^ byte) * 0x100000001B3) & mask
    start = mixed(np.array([(seed + golden) & mask], np.uint64)) ^ np.uint64(hashed)
    bits = mixed(mixed(start) + np.arange(count, dtype=np.uint64) * np.uint64(golden))
    total = sum((bits >> np.uint64(16 * part)) & np.uint64(0xFFFF) for part in range(4))
    centred = np.asarray(total, np.int64) - 2 * 0xFFFF
    scale = np.float32(deviation / math.sqrt((2**32 - 1) / 3))
    return torch.from_numpy(centred.astype(np.float32) * scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_package_reads_every_number_of_a_checkpoint(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "small.safetensors"
    make_checkpoint(path, "--dtype", dtype, "--seed", "5")
    weights = expected_weights()
    with safe_open(path, framework="pt") as file:
        assert file.metadata()["format"] == "pt"
        assert set(file.keys()) == set(weights)
        for name, (shape, deviation) in weights.items():
            got = file.get_tensor(name)
            assert list(got.shape) == shape, name
            assert got.dtype == DTYPES[dtype], name
            want = numbers(5, name, math.prod(shape), deviation).reshape(shape).to(DTYPES[dtype])
            assert torch.equal(got, want), name


def test_shards_hold_the_same_numbers_as_one_file(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "one.safetensors")
    make_checkpoint(tmp_path / "many", "--shard-gib", str(16384 / 2**30))
    one = safetensors.torch.load_file(tmp_path / "one.safetensors")
    index = json.loads((tmp_path / "many/model.safetensors.index.json").read_text())
    assert set(index["weight_map"]) == set(one)
    assert len(set(index["weight_map"].values())) > 1
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in one.values())
    for name, file in index["weight_map"].items():
        with safe_open(tmp_path / "many" / file, framework="pt") as shard:
            assert torch.equal(shard.get_tensor(name), one[name]), name
    config = json.loads((tmp_path / "many/config.json").read_text())
    assert config["num_hidden_layers"] == SIZES["layers"]
    assert config["torch_dtype"] == "bfloat16"


if __name__ == "__main__":
    GOLDEN.write_bytes(package_bytes())
