"""Cases with inputs and reference results, as PyTorch tensors laid out as the case line says."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import weft.torch
from safetensors.torch import load_file
from weft._op import OPS, Op


@dataclass
class Case:
    """One folder of the dump."""

    folder: Path
    described: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.described = json.loads((self.folder / "case.json").read_text())

    @property
    def line(self) -> str:
        line: str = self.described["case"]
        return line

    @property
    def op(self) -> Op:
        return OPS[self.described["op"]]

    @property
    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = self.described["options"]
        return options

    @property
    def specs(self) -> dict[str, Any]:
        specs: dict[str, Any] = self.described["tensors"]
        return specs

    @cached_property
    def inputs(self) -> dict[str, torch.Tensor]:
        return load_file(self.folder / "inputs.safetensors")

    @cached_property
    def reference(self) -> dict[str, torch.Tensor]:
        return load_file(self.folder / "reference.safetensors")

    @property
    def outputs(self) -> list[str]:
        return [f.name for f in self.op.contract.outputs if f.name in self.specs]

    @property
    def is_plain(self) -> bool:
        """Nothing strided, shifted or shared."""
        return not any({"stride", "offset", "alias"} & spec.keys() for spec in self.specs.values())

    def laid_out(self) -> dict[str, torch.Tensor]:
        """Every field over memory of its own, or of the field whose memory it shares."""
        placed: dict[str, torch.Tensor] = {}
        for name, spec in self.specs.items():
            if "alias" not in spec:
                placed[name] = place(spec, self.inputs.get(name))
        for name, spec in self.specs.items():
            if "alias" in spec:
                placed[name] = placed[spec["alias"]]
        return placed

    def functional(self) -> dict[str, Any]:
        """The keywords of the functional form."""
        fields = {f.name: f for f in self.op.contract.outputs}
        keywords: dict[str, Any] = {name: tensor.clone() for name, tensor in self.inputs.items()}
        keywords |= self.options
        keywords |= {name: True for name in self.outputs if fields[name].optional}
        typed = [f.name for f in self.op.contract.typed_outputs]
        return keywords | {f"{name}_dtype": self.specs[name]["dtype"] for name in typed}

    def expect(self, written: dict[str, Any]) -> None:
        """Each result has the reference's bits where the reference wrote."""
        for name, got in written.items():
            expected = self.reference[name]
            assert tuple(got.shape) in (tuple(expected.shape), ()), f"{name}: {self.line}"
            mask = self.reference[f"{name}.written"].bool()
            if name in self.inputs:  # in place: what is not written keeps its bits
                mask = torch.ones_like(mask)
            same = (bits(got).reshape(expected.shape) == bits(expected)) | ~mask
            assert same.all(), f"{name} differs from the reference: {self.line}"


def place(spec: dict[str, Any], value: torch.Tensor | None) -> torch.Tensor:
    """A tensor with the strides and the offset of a case."""
    dtype, shape, offset = weft.torch.DTYPES[spec["dtype"]], spec["shape"], spec.get("offset", 0)
    dense = torch.empty(shape, device="meta").stride()
    stride = spec.get("stride", dense)
    span = offset + 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True) if size > 0)
    tensor = torch.zeros(max(span, 1), dtype=dtype).as_strided(shape, stride, offset)
    return tensor if value is None else tensor.copy_(value)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements' codes."""
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.contiguous().view(integer)


def read(folder: Path, op: str | None = None) -> list[Case]:
    """The dump's cases, all or those of an op."""
    cases = [Case(path.parent) for path in sorted(folder.glob("*/case.json"))]
    return [case for case in cases if op in (None, case.described["op"])]


def results(op: Op, written: Any) -> dict[str, Any]:
    """What a weft function returned, by name."""
    if isinstance(written, tuple):
        return dict(zip(written._fields, written, strict=True))  # type: ignore[attr-defined]
    return {op.contract.results[0].name: written}
