"""One builder for the CUDA sources of both sides: tvm-ffi's, with flags from one place."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import tvm_ffi
from tvm_ffi.cpp import build

from weft._library import PATH
from weft.task.outcome import Absent, Refusal
from weft.task.spec import Side, Task

_ROOT = Path(__file__).resolve().parents[3]  # of the checkout, where the kit's headers are
# The same options that CMake gives the emulator's sources.
_EMULATED = ("-DWEFT_EMULATOR", "-fno-strict-aliasing", "-Wno-unknown-pragmas", "-O1")
# Lines in which a compiler or a linker says what is wrong.
_SAYS_WHY = re.compile(r"error|cannot find|undefined reference", re.IGNORECASE)


def flags_of(task: Task, side: Side) -> tuple[str, ...]:
    """All compiler flags of a side, in order."""
    return (*task.flags, *side.flags)


def nvcc() -> str:
    """The compiler. Raises Absent."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    found = shutil.which("nvcc", path=f"{home}/bin" if home else None) or shutil.which("nvcc")
    if found is None:
        raise Absent("there is no nvcc here: CUDA sources can't be compiled")
    return found


def _toolkit() -> str:
    """The toolkit's folder: nvcc may be a script that starts the real one, so it is asked."""
    command = [nvcc(), "--dryrun", "-c", "any.cu"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    top = re.search(r"\bTOP=(\S+)", done.stderr)
    if top is None:
        raise Absent("nvcc --dryrun does not say where its toolkit is")
    return top[1]


def _kit_paths() -> list[str]:
    if not (_ROOT / "src" / "kit").exists():
        raise Absent("the kit's headers are not here: a kernel on weft's kit needs weft's sources")
    return [str(_ROOT), str(_ROOT / "include"), str(_ROOT / "src")]


def _library() -> list[str]:
    """The linker's words for weft's own library, which the kit's errors and the emulator are in."""
    found = sorted(PATH.parent.glob("libweft.so.*")) or [PATH]
    folder, name = found[0].parent.resolve(), found[0].name
    # A kernel is launched by the CUDA runtime that it is registered with: the side calls its own copies of the kit's
    # inline functions, not those of weft's library, which has a runtime of its own.
    return [f"-L{folder}", f"-l:{name}", f"-Wl,-rpath,{folder}", "-Wl,-Bsymbolic-functions"]


def _folder(task: Task, *parts: str) -> str:
    """Builds are kept apart by what they are made of, outside of the task: they are no artefacts."""
    text = "\0".join([str(task.folder.resolve()), *parts])
    home = Path(os.environ.get("WEFT_TASK_CACHE", Path.home() / ".cache" / "weft-task"))
    folder = home / f"{task.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _built(task: Task, side: Side, **given: Any) -> str:
    try:
        return build(
            f"{task.name}_{side.name}".replace("-", "_"),
            build_directory=_folder(task, side.name, repr(given)),
            **given,
        )
    except RuntimeError as error:
        lines = [line for line in str(error).splitlines() if _SAYS_WHY.search(line)] or [str(error)]
        raise Refusal(f"{side.path.name} does not compile: {' | '.join(lines[:4])}") from None


def compile_cuda(task: Task, side: Side) -> str:
    """A side's library for the GPU."""
    if (
        not {"CUDA_HOME", "CUDA_PATH"} & os.environ.keys()
    ):  # tvm-ffi would take it to be where nvcc's script is
        os.environ["CUDA_HOME"] = str(Path(_toolkit()).resolve())
    paths = [str(side.path.parent), *(str(task.folder / path) for path in side.includes)]
    os.environ["TVM_FFI_CUDA_ARCH_LIST"] = arch_list(task.arch)
    kit = side.language == "kit"
    return _built(
        task,
        side,
        cuda_files=[str(side.path)],
        extra_cuda_cflags=list(flags_of(task, side)),
        extra_include_paths=paths + (_kit_paths() if kit else []),
        extra_ldflags=_library() if kit else [],
    )


def arch_list(arch: str) -> str:
    """sm_90a as tvm-ffi wants it: 9.0a."""
    digits = arch.removeprefix("sm_")
    letter = digits[-1] if digits[-1].isalpha() else ""
    number = digits.removesuffix(letter)
    return f"{number[:-1]}.{number[-1]}{letter}"


def compile_emulated(task: Task, side: Side) -> str:
    """A kernel on weft's kit as plain C++, which the emulator runs on the CPU."""
    wrapper = Path(_folder(task, side.name, "emulated")) / f"{side.path.stem}_emulated.cpp"
    wrapper.write_text(f'#include "{side.path.resolve()}"\n')
    return _built(
        task,
        side,
        cpp_files=[str(wrapper)],
        extra_cflags=["-std=c++20", *_EMULATED],
        extra_include_paths=[
            str(side.path.parent),
            *(str(task.folder / path) for path in side.includes),
            *_kit_paths(),
            f"{_toolkit()}/include",
        ],
        extra_ldflags=_library(),
    )


def function_of(library: str, side: Side) -> Any:
    """The exported entry of a compiled side."""
    module = tvm_ffi.load_module(library)
    try:
        return module[side.function]
    except AttributeError:
        raise Refusal(
            f"{side.path.name} exports no {side.function}: TVM_FFI_DLL_EXPORT_TYPED_FUNC({side.function}, ...)"
        ) from None
