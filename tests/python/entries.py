"""Tensors for the entries of names.csv: such that the field which reads one has the shape that its op wants."""

from __future__ import annotations

import math

import torch
from weft._contract import LEADING as LEADING_ROWS
from weft._op import OPS
from weft._views import viewed
from weft.torch import DTYPES

from tests.python import cases

SIZES = {"dim": 24, "hidden": 24, "tokens": 5, "heads": 4, "head_dim": 16, "q_heads": 3, "kv_heads": 1}
SIZES |= {"cache_tokens": 5, "table": 12, "half": 8, "batch": 2, "q_tokens": 5, "kv_tokens": 5, "group": 1}
SIZES |= {"k": 24, "n": 16, "vocab": 11, "views": 1, "rows": 2, "cols": 2, "patch": 14, "channels": 32}
SIZES |= {"front_dim": 8, "bins": 256, "time": 2, "height": 3, "width": 5, "spatial": 10}
SIZES |= {"frames": 2, "cache_frames": 1, "n": 24, "q_weights": 1, "k_weights": 1, "v_dim": 16}
# What a view fixes of them, and the leading axes beside it.
SIZES_OF = {
    "batched": {"batch": 1, "time": 1},
    "framed": {"channels": 1},
    "one_head": {"heads": 1},
    "k_heads": {"kv_heads": 3},
}
LEADING = {
    "flat": (),
    "turned": (5, 7),
    "ranks": (2, 3, 4, 5),
    "over[world_size]": (2, 3, 4, 5),
    "last": (2, 3, 5),
    "batched": (),
    "one_head": (),
    "one_sequence": (1,),
    "packed": (),
}
JOINT = {"batch": 5, "kv_heads": 3, "width": 16}  # heads as the norm and the concatenation beside it see them
# Numbers that have no default. A video has the tokens of its grid, and a head the pairs of its three tables.
NUMBERS = {"world_size": 2, "num_frames": 2, "height": 3, "width": 4, "dim_t": 4, "dim_h": 6}
NUMBERS |= {"rope_dim_t": 4, "rope_dim_h": 8, "rope_dim_w": 4}
TOKENS_OF_VIDEO = 24
TABLES_OF_VIDEO = {
    f"{word}_{axis}": shape
    for axis, shape in {"t": (2, 2), "h": (3, 3), "w": (4, 3)}.items()
    for word in ("cos", "sin")
}
INDICES = 8  # rows of every table that an index picks

# What a view is of, by its word: a tensor that gives this one. What the view leaves out differs from what it shows.
UNVIEWED = {
    "flat": lambda t: t.reshape(4, -1),
    "turned": lambda t: t.swapaxes(-1, -2),
    "joined": lambda t: t.reshape(*t.shape[:-1], 4, -1),
    "spatial": lambda t: t.reshape(*t.shape[:2], 2, -1),
    "last": lambda t: viewed(t, ["first"]),
    "even": lambda t: torch.stack((t, -2 * t.flip(-1)), -1).flatten(-2),
    "odd": lambda t: torch.stack((-2 * t.flip(-1), t), -1).flatten(-2),
    "heads": lambda t: t.swapaxes(-2, -3),
    "one_head": lambda t: t.squeeze(-2),
    "one_sequence": lambda t: t.reshape(t.shape[1], 1, *t.shape[2:]),
    "tokens": lambda t: t.reshape(1, t.shape[0], 4, -1),
    "table": lambda t: t.reshape(1, -1, 2, 1, 1, t.shape[-1]),
    "packed": lambda t: t.reshape(1, t.shape[0], 1, 1, *t.shape[1:]),
    "q_heads": lambda t: torch.stack((t, -2 * t.flip(-1), t.flip(0)), -3),
    "ranks": lambda t: t.swapaxes(0, 2),
    "over[world_size]": lambda t: t.swapaxes(0, 1).flatten(1, 2),
    "batched": lambda t: t.squeeze(0),
    "framed": lambda t: t.squeeze(1),
    "video": lambda t: t.reshape(t.shape[0], 2, 3, 4, *t.shape[-2:]),
    "fp32": lambda t: t.double(),
}


def part_of(which, of):
    """A tensor of which that part is this one."""
    return lambda t: torch.cat([t if at == which else -2 * t.roll(at, -1) for at in range(1, of + 1)], -1)


UNVIEWED |= {f"{which}of{of}": part_of(which, of) for of in (2, 3) for which in range(1, of + 1)}


def values_of(field, dtype, shape, generator):
    if dtype == "fp4_e2m1":
        return cases.from_codes(torch.randint(0, 16, shape, generator=generator, dtype=torch.uint8), dtype)
    if field.dtypes[0].startswith("int"):
        return torch.randint(0, INDICES, shape, generator=generator).to(DTYPES[dtype])
    if field.name.endswith("scale"):
        return (torch.rand(shape, generator=generator) + 0.25).to(DTYPES[dtype])
    return torch.randn(shape, generator=generator).to(DTYPES[dtype])


def parts_of(row, call):
    """How many parts of its rows a later call reads of what this one gives."""
    given = {given.name for given in call.gives.values()}
    later = [
        view
        for other in row.calls
        for view in other.reads.values()
        if view.tensor in given - row.tensors.keys()
    ]
    return max((int(word[-1]) for view in later for word in view.words if word[1:3] == "of"), default=1)


def tensor_of(row, name, generator):
    """A tensor of an entry, such that the field that reads it first has the shape that its op wants."""
    if name in TABLES_OF_VIDEO:
        return torch.randn(TABLES_OF_VIDEO[name], generator=generator)
    call, key, view = next(
        (call, field, view) for call in row.calls for field, view in call.reads.items() if view.tensor == name
    )
    contract, dtype = OPS[call.op].contract, row.tensors[name].replace("fp64", "fp32")  # until it is viewed
    field = next(field for field in contract.fields if field.name == key)
    integers = [option for option in contract.options if option.kind == "integer"]
    words = [word for view in call.reads.values() for word in view.words]
    sizes = SIZES | {"groups": 3} | {o.name: int(call.fixed.get(o.name, o.default)) for o in integers}
    for word in words:
        sizes |= SIZES_OF.get(word, {})
    if {"concat_pad", "qk_norm_rope"} <= {call.op for call in row.calls}:
        sizes |= JOINT
    if call.makes:
        sizes["tokens"] = TOKENS_OF_VIDEO
    sizes["dim"] *= parts_of(row, call)
    leading = next((LEADING[word] for word in words if word in LEADING), (2,) if call.op == "rope" else (5,))
    if field.sized_axis:
        sizes[field.sized_axis] = field.sizes_by_dtype[dtype]
    before, axes = field.pattern
    leading = leading[: 5 - len(axes)]
    sizes[LEADING_ROWS] = math.prod(leading)
    shape = [axis.evaluate(sizes) for axis in axes]
    if field.picked_by in call.reads:
        shape = [INDICES, sizes["dim"]]
    elif before is not None:
        shape[before:before] = leading
    tensor = values_of(field, dtype, shape, generator)
    for word in reversed(view.words):
        tensor = UNVIEWED[word](tensor)
    return tensor
