"""The parts of weft.hub by themselves: ELF files made by hand, the folder's words, and a build's own module."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import platform
import struct
import sys
from pathlib import Path

import pytest
import tvm_ffi
import weft
from weft import _library
from weft.hub import __main__ as hub
from weft.hub import _folder
from weft.hub._elf import needed


def elf(path: Path, names: list[str], *, begins: int = 0, after_end: bool = False) -> Path:
    """A file with a segment that is loaded elsewhere, from `begins` on, and one of dynamic entries."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names) + b"later\0"
    table, entries, address = 400, 600, 0x10000
    places = [strings.index(name.encode() + b"\0") for name in names]
    tags = [(1, at) for at in places] + [(5, address + table), (6, 9), (0, 0)]
    tags += [(1, strings.index(b"later"))] if after_end else []
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    kinds = [
        (4, 0, 0, 0),
        (1, begins, address + begins, 560 - begins),
        (1, 560, address + 0x8000, 400),
        (2, entries, address + entries, len(dynamic)),
    ]
    data = bytearray(1200)
    data[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", data, 32, 64)
    struct.pack_into("<HH", data, 54, 56, len(kinds))
    for i, (kind, at, place, length) in enumerate(kinds):
        struct.pack_into("<IIQQQQ", data, 64 + 56 * i, kind, 0, at, place, 0, length)
    data[table : table + len(strings)] = strings
    data[entries : entries + len(dynamic)] = dynamic
    path.write_bytes(data)
    return path


def test_what_a_library_needs(tmp_path):
    assert needed(elf(tmp_path / "a.so", ["libb.so.1", "libc.so"])) == ["libb.so.1", "libc.so"]
    assert needed(elf(tmp_path / "a.so", ["libb.so.1"], after_end=True)) == ["libb.so.1"], "entries end"
    assert needed(elf(tmp_path / "a.so", ["libb.so.1"], begins=400)) == ["libb.so.1"], (
        "strings come first in it"
    )
    bare = bytearray(elf(tmp_path / "a.so", []).read_bytes())
    struct.pack_into("<HH", bare, 54, 56, 2)
    (tmp_path / "bare.so").write_bytes(bare)
    assert needed(tmp_path / "bare.so") == []
    for at in range(6):
        other = bytearray(bare)
        other[at] ^= 1
        (tmp_path / "other.so").write_bytes(other)
        with pytest.raises(ValueError) as raised:
            needed(tmp_path / "other.so")
        assert str(raised.value) == f"{tmp_path / 'other.so'} is no 64-bit little-endian ELF file"


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("libstdc++.so.6", True), ("libgcc_s.so.1", True), ("libm.so.6", True), ("libc.so.6", True), ("libdl.so", True),
        ("librt.so.1", True), ("libpthread.so.0", True), ("libtvm_ffi.so", True), ("ld-linux-x86-64.so.2", True),
        ("libfmt.so.9", False), ("libcc.so.6", False), ("libc.so.6.1", False), ("ld-linux-x86-64.so.3", False),
    ],
)  # fmt: skip
def test_what_every_machine_has(name, system):
    assert bool(_folder.SYSTEM.fullmatch(name)) is system


def test_libraries_are_followed(tmp_path, monkeypatch):
    first = elf(tmp_path / "libweft_ffi.so", ["libweft.so.0", "libc.so.6", "libz.so.1", "libfmt.so.9"])
    second = elf(tmp_path / "libweft.so.0", ["libz.so.1", "libweft_ffi.so", "libfmt.so.9", "liba.so.1"])
    third = elf(tmp_path / "libz.so.1", [])
    monkeypatch.setattr(_library, "PATH", first)
    assert _folder.libraries() == ([first, second, third], ["liba.so.1", "libfmt.so.9"])
    monkeypatch.setattr(weft, "__version__", "9.8")
    with pytest.raises(ValueError) as raised:
        _folder.write(tmp_path / "out")
    assert str(raised.value) == (
        f"{first} needs liba.so.1, libfmt.so.9, which other machines may lack: install the wheel (pip wheel .) and "
        "write from that, or ask for a folder for this machine alone (--here-only)"
    )
    variants = _folder.write(tmp_path / "out", 7, here_only=True)
    for variant in variants:
        build = tmp_path / "out" / "build" / variant
        assert {path.name for path in (build / "weft" / "lib").iterdir()} == {
            first.name,
            second.name,
            third.name,
        }
        assert not {"bench", "hub", "task", "report", "skill", "baselines"} & {
            p.name for p in (build / "weft").iterdir()
        }
        assert {"_op.py", "names.csv", "swap"} <= {path.name for path in (build / "weft").iterdir()}
        own = Path(_folder.__file__).parent
        assert (build / "__init__.py").read_text() == (own / "_kernel.py").read_text()
        assert (build / "layers.py").read_text() == (own / "layers.py").read_text()
        contracts = _library.function("contracts")()
        assert (build / "contracts.sha256").read_text() == hashlib.sha256(
            contracts.encode()
        ).hexdigest() + "\n"
        text = (build / "metadata.json").read_text()
        held = json.loads(text)
        assert text == json.dumps(held, indent=2) + "\n"
        assert (held["name"], held["version"], held["kernels-minver"]) == ("weft", 7, _folder.OLDEST_KERNELS)
        assert (held["license"], held["python-depends"]) == ("Apache-2.0", ["tvm-ffi"])
        kind = held["backend"]["type"]
        files = held["digest"]["files"]
        content = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:12]
        assert held["id"] == f"_weft_{kind}_{content}" and held["digest"]["algorithm"] == "sha256"
        assert "metadata.json" not in files and "weft/lib/libz.so.1" in files
    names = ", ".join(f"`{name}`" for name in _folder.layer_names())
    shown = ", ".join(f"`{variant}`" for variant in variants)
    readme = (tmp_path / "out" / "README.md").read_text()
    assert readme == _folder.README.format(version="9.8", number=7, builds=shown, layers=names)
    stale = tmp_path / "out" / "build" / variants[0] / "stale.py"
    stale.touch()
    _folder.write(tmp_path / "out", here_only=True)
    assert not stale.exists(), "a build of ours is written anew"
    other = tmp_path / "out" / "build" / variants[-1] / "metadata.json"
    for text in ("{}", ""):
        other.write_text(text) if text else other.unlink()
        with pytest.raises(FileExistsError) as exists:
            _folder.write(tmp_path / "out", here_only=True)
        assert str(exists.value) == f"{other.parent} is no build of weft's: it stays as it is"


def test_tools_of_a_checkout_are_left_out(tmp_path, monkeypatch):
    """Whatever lies in their folders, and what Python compiled; a library that lies there is not that of the build."""
    package = tmp_path / "weft"
    for folder in ("kept", "kept/__pycache__", "lib", *_folder.TOOLS):
        (package / folder).mkdir(parents=True, exist_ok=True)
        (package / folder / "file").touch()
    (package / "__init__.py").touch()
    monkeypatch.setattr(weft, "__file__", str(package / "__init__.py"))
    monkeypatch.setattr(_library, "PATH", elf(tmp_path / "libweft_ffi.so", []))
    for variant in _folder.write(tmp_path / "out"):
        copied = tmp_path / "out" / "build" / variant / "weft"
        assert {str(path.relative_to(copied)) for path in copied.rglob("*")} == {
            "__init__.py", "kept", "kept/file", "lib", "lib/libweft_ffi.so",
        }  # fmt: skip
    assert set(_folder.TOOLS) >= {
        "baselines",
        "bench",
        "hub",
        "report",
        "skill",
        "task",
        "lib",
        "__pycache__",
    }


def test_builds(monkeypatch):
    told = {"cuda_version": "13.0", "cuda_architectures": "80 90a 100 120f"}
    monkeypatch.setattr(_library, "function", lambda name: lambda: told[name])
    system = f"{platform.machine()}-{platform.system().lower()}"
    framework = "tvm-ffi" + "".join(tvm_ffi.__version__.split(".")[:2])
    assert _folder.builds() == {
        f"{framework}-cpu-{system}": {"type": "cpu"},
        f"{framework}-cu130-{system}": {"type": "cuda", "archs": ["8.0", "9.0a", "10.0", "12.0f"]},
    }
    told["cuda_version"] = ""
    assert list(_folder.builds()) == [f"{framework}-cpu-{system}"]


def test_layers_that_a_mapping_may_name():
    assert _folder.layer_names() == [
        "RMSNorm", "rotary_pos_emb", "SiLU", "GeLU", "GeluTanh", "NewGELU", "FastGELU", "QuickGELU", "SiluAndMul",
        "GeluAndMul", "GeluTanhAndMul",
    ]  # fmt: skip


def test_the_command(tmp_path, monkeypatch, capsys):
    asked = []

    def write(folder, version, here_only):
        asked.append((folder, version, here_only))
        return ["one", "two"]

    monkeypatch.setattr(hub, "write", write)
    monkeypatch.setattr(hub, "libraries", lambda: ([], []))
    monkeypatch.chdir(tmp_path)
    assert hub.main(["out"]) == 0
    lines = [
        f"wrote {Path('out/build/one')}", f"wrote {Path('out/build/two')}", "",
        "  from kernels import get_local_kernel",
        f'  weft = get_local_kernel(Path("{tmp_path / "out"}"))', "",
        "or, by the name that it will have on the Hub:", "",
    ]  # fmt: skip
    last = f'  LOCAL_KERNELS=ORG/weft={tmp_path / "out"}  and  get_kernel("ORG/weft", revision="v%d")'
    assert capsys.readouterr().out.splitlines() == [*lines, last % 1]
    monkeypatch.setattr(hub, "libraries", lambda: ([], ["liba", "libb"]))
    assert hub.main(["out", "--version", "4", "--here-only"]) == 0
    lines.insert(2, "for this machine alone: the library needs liba, libb")
    assert capsys.readouterr().out.splitlines() == [*lines, last % 4]
    assert asked == [(Path("out"), 1, False), (Path("out"), 4, True)]
    for error in (ValueError("no"), FileExistsError("no")):
        monkeypatch.setattr(hub, "write", lambda *_, error=error: (_ for _ in ()).throw(error))
        assert hub.main(["out"]) == 1
        assert capsys.readouterr() == ("", "weft.hub: no\n")


def kernel_beside(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """The build's own module, imported from a folder that has what it looks for."""
    contracts = _library.function("contracts")()
    own = Path(_folder.__file__).parent
    build = folder / "made_kernel"
    build.mkdir()
    for name, there in _folder.OWN.items():
        (build / there).write_text((own / name).read_text())
    (build / "contracts.sha256").write_text(hashlib.sha256(contracts.encode()).hexdigest() + "\n")
    monkeypatch.syspath_prepend(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "made_kernel"]:
        monkeypatch.delitem(sys.modules, name)
    return build


def test_a_build_serves_the_weft_that_is_there(tmp_path, monkeypatch):
    kernel_beside(tmp_path, monkeypatch)
    kernel = importlib.import_module("made_kernel")
    assert kernel.rms_norm is weft.rms_norm and kernel.__all__ == ["layers", *weft.__all__]
    assert kernel.layers.RMSNorm.__name__ == "RMSNorm" and kernel.supports_flash_attn is True
    with pytest.raises(AttributeError, match=r"^weft has no op 'nothing'$"):
        _ = kernel.nothing
    with pytest.raises(AttributeError, match=r"^weft has no op 'names'$"):
        _ = kernel.names
    transformers = pytest.importorskip("weft.transformers")
    assert kernel.flash_attn_forward is transformers._attention.attention


def test_a_build_of_other_ops_is_refused(tmp_path, monkeypatch):
    build = kernel_beside(tmp_path, monkeypatch)
    (build / "contracts.sha256").write_text("0" * 64 + "\n")
    with pytest.raises(ImportError) as raised:
        importlib.import_module("made_kernel")
    assert str(raised.value) == (
        f"this process has weft {weft.__version__} of {weft.__file__}, whose ops are not those of {build}, and can't "
        "have two: load the kernel before anything imports weft, or install its version"
    )


def test_a_package_that_does_not_load_leaves_nothing(tmp_path, monkeypatch):
    build = kernel_beside(tmp_path, monkeypatch)
    (build / "weft").mkdir()
    (build / "weft" / "__init__.py").write_text("import weft.part\nraise OSError('no library')\n")
    (build / "weft" / "part.py").touch()
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "weft"}
    for name in kept:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(OSError, match="no library"):
        importlib.import_module("made_kernel")
    assert not [name for name in sys.modules if name.partition(".")[0] == "weft"]
    (build / "weft" / "__init__.py").write_text("__all__ = ['op']\nop = 3\nfrom weft import part\n")
    (build / "layers.py").write_text("")
    monkeypatch.delitem(sys.modules, "made_kernel", raising=False)
    kernel = importlib.import_module("made_kernel")
    assert kernel.op == 3 and sys.modules["weft"].__file__ == str(build / "weft" / "__init__.py")
    assert Path(sys.modules["weft.part"].__file__ or "").parent == build / "weft"
    for name in [name for name in sys.modules if name.partition(".")[0] == "weft"]:
        del sys.modules[name]
    assert os.environ["WEFT_LIBRARY"]
