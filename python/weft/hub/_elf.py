"""What a shared library asks of others, read from its file: no tool needs to be installed for it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_LOAD, _DYNAMIC = 1, 2  # kinds of segments
_END, _NEEDED, _STRINGS = 0, 1, 5  # tags of dynamic entries


def _segments(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Each segment's kind, place in the file, address and size there."""
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, start + i * size)
        yield kind, offset, address, length


def needed(path: Path) -> list[str]:
    """The libraries that the loader must find for this one. Raises ValueError for what is no library of Linux."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is no 64-bit little-endian ELF file")
    segments = list(_segments(data))
    entries: list[tuple[int, int]] = []
    for kind, offset, _, length in segments:
        if kind == _DYNAMIC:
            entries = list(struct.iter_unpack("<QQ", data[offset : offset + length]))
    entries = entries[: [tag for tag, _ in entries].index(_END)] if entries else []
    table = next((value for tag, value in entries if tag == _STRINGS), 0)
    base = next((o + table - a for k, o, a, n in segments if k == _LOAD and a <= table < a + n), table)
    return [data[base + at : data.index(b"\0", base + at)].decode() for tag, at in entries if tag == _NEEDED]
