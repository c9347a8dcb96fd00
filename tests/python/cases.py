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
from weft._op import OPS, PACKED, Op

# Ops of which some results have a shape that only these inputs say; without them there is the destination form alone.
SHAPED_BY = {"attention": "q", "copy": "x", "scale_layout": "linear"}
# And those of whose shaping input an axis is a product of sizes.
HAVE_PRODUCTS = {"attention": slice(2, 3), "qkv_split_rope": slice(None)}  # where in the first input's shape


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
        found = load_file(self.folder / "inputs.safetensors")
        return {name: from_codes(tensor, self.specs[name]["dtype"]) for name, tensor in found.items()}

    @cached_property
    def reference(self) -> dict[str, torch.Tensor]:
        found = load_file(self.folder / "reference.safetensors")
        for name in self.outputs:
            dtype = self.specs[name]["dtype"]
            found[name] = from_codes(found[name], dtype)
            if dtype in PACKED:
                found[f"{name}.written"] = found[f"{name}.written"][..., ::2]
        return found

    @property
    def outputs(self) -> list[str]:
        return [f.name for f in self.op.contract.outputs if f.name in self.specs]

    @property
    def is_plain(self) -> bool:
        """Nothing strided, shifted or shared."""
        return not any({"stride", "offset", "alias"} & spec.keys() for spec in self.specs.values())

    @property
    def is_functional(self) -> bool:
        """Whether the shapes of all results follow from the inputs."""
        shaping = SHAPED_BY.get(self.op.name, next(iter(self.inputs), None))
        if shaping not in self.inputs:
            return False
        # A product of sizes that is 0 does not say what its factors are.
        products = HAVE_PRODUCTS.get(self.op.name, slice(0))
        return 0 not in self.inputs[shaping].shape[products]

    @property
    def is_packed(self) -> bool:
        """Whether two elements of a tensor share a byte, as NumPy has none."""
        return any(spec["dtype"] in PACKED for spec in self.specs.values())

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
        typed = [f.name for f in self.op.contract.typed_outputs if f.name in self.outputs]
        return keywords | {f"{name}_dtype": self.specs[name]["dtype"] for name in typed}

    def results(self, written: Any) -> dict[str, Any]:
        """What a weft function returned, by name."""
        if isinstance(written, tuple):
            return dict(zip(written._fields, written, strict=True))  # type: ignore[attr-defined]
        (name,) = (field.name for field in self.op.contract.results if field.name in self.specs)
        return {name: written}

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


def from_codes(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    """A dumped tensor in its dtype: those that safetensors lacks are dumped as codes, one a byte."""
    if dtype in PACKED:
        return (tensor[..., ::2] | tensor[..., 1::2] << 4).view(weft.torch.DTYPES[dtype])
    return tensor.view(torch.float8_e8m0fnu) if dtype == "ue8m0" else tensor


def place(spec: dict[str, Any], value: torch.Tensor | None) -> torch.Tensor:
    """A tensor with the strides and the offset of a case, counted in PyTorch's elements."""
    dtype, pack = weft.torch.DTYPES[spec["dtype"]], PACKED.get(spec["dtype"], 1)
    shape = [*spec["shape"][:-1], spec["shape"][-1] // pack] if spec["shape"] else []
    stride = spec.get("stride", torch.empty(spec["shape"], device="meta").stride())
    stride = [*(step // pack for step in stride[:-1]), *stride[-1:]]
    offset = spec.get("offset", 0) // pack
    span = offset + 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True) if size > 0)
    memory = torch.zeros(max(span, 1) * dtype.itemsize, dtype=torch.uint8)
    tensor = memory.view(dtype).as_strided(shape, stride, offset)
    if value is not None:
        once = tuple(slice(1) if step == 0 else slice(None) for step in stride)
        bits(tensor)[once].copy_(bits(value)[once])
    return tensor


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements' codes."""
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.view(integer)


def read(folder: Path, op: str | None = None) -> list[Case]:
    """The dump's cases, all or those of an op."""
    cases = [Case(path.parent) for path in sorted(folder.glob("*/case.json"))]
    return [case for case in cases if op in (None, case.described["op"])]
