"""scripts/costs: the ceilings that it holds ops to, and what it reads."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    loader = SourceFileLoader("costs", str(ROOT / "scripts" / "costs"))
    spec = importlib.util.spec_from_loader("costs", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["costs"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


costs = load()


def cost(kernels: int, kib: int) -> object:
    return costs.Cost([costs.Kernel(f"k{i}", 32, 0) for i in range(kernels)], kib * 1024)


def breaches(op_costs: dict[str, object], **waivers: tuple[int, int, str]) -> list[str]:
    ceilings = {"*": costs.Ceiling(4, 100, "")}
    ceilings |= {op: costs.Ceiling(*waiver) for op, waiver in waivers.items()}
    return list(costs.breaches(op_costs, ceilings))


def test_an_op_within_the_ceilings_passes() -> None:
    assert breaches({"small": cost(4, 100)}) == []


def test_one_kernel_or_one_kib_more_is_a_breach() -> None:
    assert breaches({"small": cost(5, 100)}) == ["small: 5 kernels, at most 4"]
    assert breaches({"small": cost(4, 101)}) == ["small: 101 KiB of machine code, at most 100"]
    assert costs.Cost([], 100 * 1024 + 1).kib == 101


def test_a_waiver_is_a_higher_ceiling_with_a_reason() -> None:
    assert breaches({"big": cost(9, 100)}, big=(9, 100, "its tiles")) == []
    assert breaches({"big": cost(10, 100)}, big=(9, 100, "its tiles")) == ["big: 10 kernels, at most 9"]
    assert breaches({"big": cost(9, 100)}, big=(9, 100, " ")) == [
        "big: a ceiling of its own without a reason"
    ]


def test_a_waiver_that_is_not_needed_is_an_error() -> None:
    assert breaches({"big": cost(4, 100)}, big=(9, 200, "once")) == [
        "big: a ceiling of its own is not needed"
    ]
    assert breaches({}, gone=(9, 200, "once")) == ["gone: a ceiling for an op without kernels"]


def test_the_file_has_a_ceiling_for_every_op() -> None:
    ceilings = costs.read_ceilings(costs.CEILINGS)
    assert "*" in ceilings
    assert all((ROOT / "ops" / op).is_dir() for op in ceilings if op != "*")


def test_seconds_are_those_of_the_latest_compilation() -> None:
    log = [
        "# ninja log v5\n",
        "0\t9000\t0\tCMakeFiles/weft_cuda.dir/ops/rope/rope.cu.o\tabc\n",
        "100\t1600\t0\tCMakeFiles/weft_cuda.dir/ops/rope/rope.cu.o\tabc\n",
        "0\t500\t0\tCMakeFiles/weft_emulated.dir/generated/ops/rope/rope_emulated.cpp.o\tdef\n",
        "0\t700\t0\tCMakeFiles/libweft.dir/src/core/op.cpp.o\t123\n",
        "0\t800\t0\tlibweft.so\t456\n",
    ]
    assert costs.compile_seconds(log) == {"rope": 2.0}


def test_machine_code_of_this_build_is_read() -> None:
    objects = sorted((ROOT / "build/release/CMakeFiles/weft_cuda.dir/ops/residual_add").glob("*.cu.o"))
    if not objects:
        pytest.skip("this build has no kernels by nvcc")
    (cubin,) = costs.cubins(objects[0])
    kernels = list(cubin.kernels())
    assert kernels and all("residual_add" in kernel.name for kernel in kernels)
    assert all(16 <= kernel.registers <= 255 and kernel.stack % 4 == 0 for kernel in kernels)
    assert cubin.code() >= 128 * len(kernels)
