"""The C++ references against independent float64 oracles, over cases that the contracts generate."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = Path(os.environ.get("WEFT_TOOL", ROOT / "build/release/weft"))
OPS = sorted(path.parent.name for path in ROOT.glob("ops/*/*.h") if path.stem == path.parent.name)
CASES = 60


def load_oracle(op: str) -> ModuleType:
    path = ROOT / "ops" / op / "oracle.py"
    spec = importlib.util.spec_from_file_location(f"oracle_{op}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tensors(path: Path) -> dict[str, np.ndarray]:
    """Every tensor as float64, or int64 where it holds integers."""
    found = {}
    for name, tensor in load_file(path).items():
        floating = tensor.dtype.is_floating_point
        found[name] = tensor.double().numpy() if floating else tensor.long().numpy()
    return found


def disagreement(exact: np.ndarray, error: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where the reference's value before rounding is not the oracle's.

    Both are float64, so they are held to a small part of what fp32 arithmetic may err, and to 1e-6 of the
    largest value where that error includes roundings by design.
    """
    finite = np.isfinite(expected)
    scale = np.max(np.abs(expected), where=finite, initial=0.0)
    bound = np.maximum(np.minimum(0.6 * error, 1e-6 * scale), 1e-9 * scale) + 1e-300
    same = np.where(
        finite,
        np.abs(exact - np.where(finite, expected, 0)) <= bound,
        (np.isnan(exact) & np.isnan(expected)) | (exact == expected),
    )
    return ~same


def check(op: str, folder: Path) -> int:
    case = json.loads((folder / "case.json").read_text())
    options = case["options"] | {
        "dtypes": {name: t["dtype"] for name, t in case["tensors"].items()},
        "shapes": {name: t["shape"] for name, t in case["tensors"].items()},
    }
    inputs, reference = tensors(folder / "inputs.safetensors"), tensors(folder / "reference.safetensors")
    with np.errstate(all="ignore"):
        outputs = load_oracle(op).oracle(inputs, options)
    compared = 0
    for name, value in outputs.items():
        if name not in reference:  # an optional output that this case leaves out
            continue
        written = reference[f"{name}.written"] != 0
        given = np.asarray(value, np.float64)
        shown = f"{case['case']}\n  --seed {case['seed']} --values {case['values']}"
        try:
            expected = np.broadcast_to(given, written.shape)
        except ValueError:
            pytest.fail(f"{name}: the oracle gives {list(given.shape)}, not {list(written.shape)}\n  {shown}")
        exact = reference[f"{name}.exact"].view(np.float64)
        error = reference[f"{name}.error"].view(np.float64)
        with np.errstate(all="ignore"):
            wrong = disagreement(exact, error, expected) & written
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            pytest.fail(
                f"{name}{list(at)}: the reference has {exact[at]!r}, the oracle {expected[at]!r} "
                f"(fp32 may err by {error[at]:.3g})\n  {shown}"
            )
        compared += 1
    return compared


@pytest.mark.parametrize("op", OPS)
def test_reference_agrees_with_its_oracle(op: str, tmp_path: Path) -> None:
    command = [str(TOOL), "verify", op, "--dump", str(tmp_path), "--cases", str(CASES), "--seed", "31"]
    subprocess.run([*command, "--device", "cpu"], check=True, timeout=600)
    folders = sorted(path.parent for path in tmp_path.glob("*/case.json"))
    assert len(folders) == CASES
    compared = sum(check(op, folder) for folder in folders)
    assert compared >= CASES // 2
