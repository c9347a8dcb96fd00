"""What entries of `names.csv` make of their numbers and tables where an op takes positions, frequencies or one table.

Positions and frequencies are functions of numbers alone, in words that NumPy and PyTorch share; PyTorch keeps them from
the first call on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft._function import framework_of

Arguments = Mapping[str, Any]  # an entry's tensors and numbers
Keywords = dict[str, Any]  # of the op
Where = Mapping[str, Any]  # the device, as a keyword, where a framework has more than one


def rows_of_axes(
    np: Any, where: Where, grid: Sequence[int], pairs: Sequence[int], begins: Sequence[int]
) -> Any:
    """Of each token of a video, by axis: where its row begins in a table whose rows have so many pairs."""
    frames, height, width = grid
    token = np.arange(frames * height * width, dtype=np.int32, **where)
    at = (token // (height * width), token // width % height, token % width)
    return np.stack([of * count + begin for of, count, begin in zip(at, pairs, begins, strict=True)])


def frequencies_of_axes(np: Any, where: Where, dims: Sequence[int], bases: Sequence[float]) -> Any:
    """base^(−2i/dim) of every pair of three sections."""
    of_axes = [
        base ** (-2.0 * np.arange(dim // 2, dtype=np.float64, **where) / dim)
        for dim, base in zip(dims, bases, strict=True)
    ]
    return np.asarray(np.concatenate(of_axes), dtype=np.float32)


def _framework(array: Any) -> Any:
    found = framework_of(array)
    if not hasattr(found, "constant"):
        raise TypeError("positions are made for PyTorch, JAX and NumPy")
    return found


def _positions(
    q: Any, batch: Sequence[int], grid: Sequence[int], pairs: Sequence[int], begins: Sequence[int]
) -> Keywords:
    """Three positions of each token, of every video of a batch the same."""
    framework = _framework(q)
    rows = framework.constant(rows_of_axes, (tuple(grid), tuple(pairs), tuple(begins)), q)
    rows = framework.spread(rows.reshape(3, *(1 for _ in batch), -1), (3, *batch, rows.shape[-1]))
    return {"positions": rows[0], "positions2": rows[1], "positions3": rows[2]}


def _sections(dims: Sequence[int]) -> Keywords:
    return {"section2": dims[1] // 2, "section3": dims[2] // 2, "rotary_dim": sum(dims)}


def _video(given: Arguments, dims: Sequence[int], bases: Sequence[float]) -> Keywords:
    q, head_dim = given["q"], given["q"].shape[-1]
    if any(dim % 2 or dim < 0 for dim in dims) or not 0 < sum(dims) <= head_dim:
        named = ", ".join(map(str, dims))
        raise ValueError(f"expected sections of even sizes in a head of {head_dim}, got {named}")
    frequencies = _framework(q).constant(frequencies_of_axes, (tuple(dims), tuple(bases)), q)
    grid = [given[name] for name in ("num_frames", "height", "width")]
    positions = _positions(q, q.shape[:-3], grid, (1, 1, 1), (0, 0, 0))
    return {"frequencies": frequencies, **positions, **_sections(dims)}


def video_thirds(given: Arguments) -> Keywords:
    """Thirds of a head, even ones, turn by frame, row and column; the last has what is left."""
    head_dim = given["q"].shape[-1]
    third = head_dim // 6 * 2
    return _video(given, (third, third, (head_dim - 2 * third) // 2 * 2), (given["theta_base"],) * 3)


def video_sections(given: Arguments) -> Keywords:
    """Sections of given sizes turn by frame, row and column, each with a base of its own."""
    dims, bases = ([given[f"{word}_{axis}"] for axis in "thw"] for word in ("rope_dim", "theta_base"))
    return _video(given, dims, bases)


def video_tables(given: Arguments) -> Keywords:
    """Sections turn by frame, row and column, each with a table of its own.

    The tables lie one after the other in new memory, in which a row may begin at any element: positions say where, such
    that the section's first pair finds the row's first element.
    """
    q, dims = given["q"], [given["dim_t"], given["dim_h"]]
    dims.append(q.shape[-1] - sum(dims))
    pairs, grid = [dim // 2 for dim in dims], q.shape[1:4]
    shapes = dict(zip("thw", zip(grid, pairs, strict=True), strict=True))
    for name, shape in [(f"{word}_{axis}", shapes[axis]) for axis in "thw" for word in ("cos", "sin")]:
        if tuple(given[name].shape) != shape:
            raise ValueError(f"{name}: expected {list(shape)}, got {list(given[name].shape)}")
    of_frames, of_rows = grid[0] * pairs[0], grid[1] * pairs[1]  # elements of a table
    begins = [0, of_frames - pairs[0], of_frames + of_rows - pairs[0] - pairs[1]]
    cos, sin = _framework(q).rows_anywhere(
        [[given[f"{word}_{axis}"] for axis in "thw"] for word in ("cos", "sin")], sum(pairs)
    )
    return {"cos": cos, "sin": sin, **_positions(q, q.shape[:1], grid, pairs, begins), **_sections(dims)}


MAKERS: dict[str, Callable[[Arguments], Keywords]] = {
    maker.__name__: maker for maker in (video_thirds, video_sections, video_tables)
}
