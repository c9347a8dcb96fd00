"""A kernel repository of the Hub: what `kernels` looks for, written from this package and its library."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tvm_ffi

import weft
from weft import _library
from weft.hub._elf import needed

NAME = "weft"
OLDEST_KERNELS = "0.17.2"  # the first that the tests load this with
# What every Linux machine with a Python has, and what the metadata asks for.
SYSTEM = re.compile(r"lib(stdc\+\+|gcc_s|m|c|dl|rt|pthread|tvm_ffi)\.so(\.\d+)?|ld-linux-x86-64\.so\.2")
# Tools of a checkout, which a loaded kernel has no use for.
TOOLS = ("baselines", "bench", "hub", "report", "skill", "task", "lib", "__pycache__")
# A build's own files: the name here, and there.
OWN = {"_kernel.py": "__init__.py", "layers.py": "layers.py"}

README = """\
---
library_name: kernels
license: apache-2.0
---
# weft {version}

Fused CUDA kernels for transformer and diffusion inference, each with an executable specification on the CPU.

```python
from kernels import get_kernel

weft = get_kernel("ORG/weft", version={number})
y = weft.rms_norm(x, weight, eps=1e-6)
```

Builds: {builds}. Layers: {layers}. In transformers, `attn_implementation="ORG/weft"`.
"""


def builds() -> dict[str, dict[str, Any]]:
    """Each build's variant and the backend of its metadata: the CPU's, and CUDA's where this library has it."""
    system = f"{platform.machine()}-{platform.system().lower()}"
    framework = "tvm-ffi" + "".join(tvm_ffi.__version__.split(".")[:2])
    found: dict[str, dict[str, Any]] = {f"{framework}-cpu-{system}": {"type": "cpu"}}
    cuda: str = _library.function("cuda_version")()
    if cuda:
        compiled = _library.function("cuda_architectures")().split()
        # "90a" is 9.0a, "120" is 12.0.
        archs = [re.sub(r"(\d)([a-z]?)$", r".\1\2", name) for name in compiled]
        variant = f"{framework}-cu{cuda.replace('.', '')}-{system}"
        found[variant] = {"type": "cuda", "archs": archs}
    return found


def libraries() -> tuple[list[Path], list[str]]:
    """weft's library with those that lie beside it and that it needs, and what it needs from elsewhere."""
    carried, foreign = [_library.PATH.resolve()], set[str]()
    for library in carried:  # it grows
        for name in needed(library):
            beside = _library.PATH.parent / name
            if beside.exists():
                if name not in {path.name for path in carried}:
                    carried.append(beside)
            elif not SYSTEM.fullmatch(name):
                foreign.add(name)
    return carried, sorted(foreign)


def _files(folder: Path) -> Iterator[Path]:
    """What a digest covers, as `kernels` finds it: all but the metadata."""
    yield from (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "metadata.json")


def _digest(folder: Path) -> dict[str, str]:
    """Each file's hash, by its path in the build."""
    hashes = {path: hashlib.sha256(path.read_bytes()).digest() for path in _files(folder)}
    return {str(path.relative_to(folder)): base64.b64encode(found).decode() for path, found in hashes.items()}


def metadata(folder: Path, backend: Mapping[str, Any], version: int) -> dict[str, Any]:
    """What `kernels` reads before it loads a build. The id is the module's name: one of its own for each content."""
    files = _digest(folder)
    content = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:12]
    return {
        "name": NAME,
        "id": f"_{NAME}_{backend['type']}_{content}",
        "version": version,
        "kernels-minver": OLDEST_KERNELS,
        "license": "Apache-2.0",
        "python-depends": ["tvm-ffi"],
        "backend": dict(backend),
        "digest": {"algorithm": "sha256", "files": files},
    }


def _write_build(folder: Path, backend: Mapping[str, Any], version: int, carried: list[Path]) -> None:
    package, own = Path(weft.__file__).parent, Path(__file__).parent
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(package, folder / "weft", ignore=shutil.ignore_patterns(*TOOLS))
    (folder / "weft" / "lib").mkdir()
    for library in carried:
        shutil.copy(library, folder / "weft" / "lib")
    for name, there in OWN.items():
        shutil.copy(own / name, folder / there)
    contracts = _library.function("contracts")()
    (folder / "contracts.sha256").write_text(hashlib.sha256(contracts.encode()).hexdigest() + "\n")
    described = metadata(folder, backend, version)
    (folder / "metadata.json").write_text(json.dumps(described, indent=2) + "\n")


def layer_names() -> list[str]:
    """The classes of layers.py that a mapping may name."""
    text = (Path(__file__).parent / "layers.py").read_text()
    return [name for name in re.findall(r"^class (\w+)", text, re.MULTILINE) if not name.startswith("_")]


def write(folder: Path, version: int = 1, here_only: bool = False) -> list[str]:
    """Writes the repository and returns its builds' variants.

    Raises ValueError where the library needs what other machines may lack, unless the folder is for here only, and
    FileExistsError where a build of something else is in the way.
    """
    carried, foreign = libraries()
    if foreign and not here_only:
        raise ValueError(
            f"{_library.PATH} needs {', '.join(foreign)}, which other machines may lack: install the wheel "
            f"(pip wheel .) and write from that, or ask for a folder for this machine alone (--here-only)"
        )
    variants = builds()
    for variant in variants:
        there = folder / "build" / variant / "metadata.json"
        if there.parent.exists() and not (
            there.exists() and json.loads(there.read_text()).get("name") == NAME
        ):
            raise FileExistsError(f"{there.parent} is no build of {NAME}'s: it stays as it is")
    for variant, backend in variants.items():
        _write_build(folder / "build" / variant, backend, version, carried)
    names = ", ".join(f"`{name}`" for name in layer_names())
    shown = ", ".join(f"`{name}`" for name in variants)
    text = README.format(version=weft.__version__, number=version, builds=shown, layers=names)
    (folder / "README.md").write_text(text)
    return list(variants)
