"""What is instrumented together: an op with what it uses of the kit, or a part of the library; and the tests that are
to notice its faults."""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = ROOT / "tests" / "reach" / "left_out.csv"
# References are what kernels are held to, and kit/ptx is what an instruction means: both have tests of their own. The
# calls into CUDA run on a GPU alone, where the same tests run. Guided fuzzing counts the marks of an instrumented copy,
# and would count its own.
SUFFIXES = {".h", ".cuh", ".cu", ".cpp"}
KEPT = {"reference.cpp", "row_reference.h", "cuda_api.cpp", "guided.cpp"}
KIT = "src/kit"
# The ops whose tests stand for the kit's: together they use its rows, tiles, roundings and rotations; they compile
# quickly.
KIT_OPS = (
    "activation",
    "amax",
    "concat_pad",
    "layer_norm",
    "modulate",
    "quantize",
    "residual_add",
    "rms_norm",
    "rope",
)
# And the tests of ends of the kit's code that belong to several ops.
KIT_EDGES = "--gtest_filter=Edges.*"
# Of the core's tests all but those of guided fuzzing, which count what is reached: of an instrumented library, all.
UNGUIDED = "--gtest_filter=-Guided.*"
# The quick tests of every op.
EVERY_OP = "--gtest_filter=*/EveryOp.*:*/WorkTable.*:*/DispatchTable.*:*/EveryLine.*"
# What tells of rungs, without running them.
LESSONS = "--gtest_filter=Names.*:Ladder.*:LadderTool.*-LadderTool.Measures*:LadderTool.Verifies*"
SAMPLE = 200  # mutants of a part of the library that are tried: there are thousands
PYTHON_SAMPLE = 100  # of a part of the Python package, each in a process of its own


@dataclass(frozen=True)
class Area:
    """`objects` says which sources, but for those that are kept, are compiled from the instrumented copy, by their
    names in the tree; those that the build generates have theirs below generated/."""

    name: str
    folder: str  # of its own sources: what is counted
    objects: str
    tests: tuple[tuple[str, str], ...]  # a test program, and what it runs: an option, or nothing for all
    test_files: tuple[str, ...]  # patterns
    sample: int = 0  # of its mutants, the same ones every time; 0: all are tried
    python: tuple[str, ...] = ()  # patterns: tests that run the tool and the package's library from Python
    deep: bool = False  # with the folders below its own

    def files(self, included: set[Path]) -> list[Path]:
        """What is instrumented: its own sources but for references and tests, and of the kit what an op includes."""
        own = sorted((ROOT / self.folder).glob("**/*" if self.deep else "*"))
        own = [path for path in own if path.suffix in SUFFIXES]
        kit = sorted((ROOT / KIT).iterdir()) if self.folder.startswith("ops/") else []
        if self.folder == KIT:
            own = [path for path in own if path in included]
        found = own + [path for path in kit if path in included]
        return [path for path in found if path.name not in KEPT and not path.name.startswith("test")]

    def owns(self, file: str) -> bool:
        return Path(file).is_relative_to(self.folder)

    def python_files(self) -> list[str]:
        return sorted({str(path.relative_to(ROOT)) for at in self.python for path in ROOT.glob(at)})

    def programs(self) -> list[str]:
        return list(dict.fromkeys(program for program, _ in self.tests))


def ops() -> list[str]:
    return sorted(Path(path).parent.name for path in (ROOT / "ops").glob("*/reference.cpp"))


def _emulated(op: str) -> str:
    return rf"generated/ops/{op}/\w+_emulated\.cpp"


def _op(name: str) -> Area:
    own = rf"ops/{name}/\w+\.cpp|{_emulated(name)}"
    return Area(name, f"ops/{name}", own, (("test_ops", f"--op={name}"),), (f"ops/{name}/test*.cpp",))


def _part(name: str, *tests: tuple[str, str]) -> Area:
    """A folder of src that is compiled by itself."""
    files = tuple(f"tests/{program.removeprefix('test_')}/*.cpp" for program, _ in tests)
    return Area(name, f"src/{name}", rf"src/{name}/\w+\.cpp", tests, files, SAMPLE)


def _kit() -> Area:
    some = f"(?:{'|'.join(KIT_OPS)})"
    objects = rf"{_emulated(some)}|ops/{some}/test\w*\.cpp|tests/kit/\w+\.cpp"
    tests = (("test_kit", ""), *(("test_ops", f"--op={op}") for op in KIT_OPS), ("test_ops", KIT_EDGES))
    files = ("tests/kit/*.cpp", "tests/ops/edges.cpp", *(f"ops/{op}/test*.cpp" for op in KIT_OPS))
    return Area("kit", KIT, objects, tests, files, SAMPLE)


def _binding() -> Area:
    """What Python calls: no program of ours links it. Its tests are those that compile nothing and take seconds."""
    names = (
        *(f"python/test_{name}" for name in ("arrays", "binding", "contract", "int4")),
        *(f"bench/test_{name}" for name in ("bench_again", "bench_measure")),
    )
    files = tuple(f"tests/{name}.py" for name in names)
    return Area("binding", "src/binding", r"src/binding/\w+\.cpp", (), files, SAMPLE, files)


def _pipelines() -> Area:
    """Their own part by the tool's tests; their layers are held against another library's, from Python."""
    tests = (("test_cli", "--gtest_filter=Pipeline*:Demo*:Transcript*"),)
    parity = ("tests/parity/test_gemma.py",)
    files = ("tests/cli/*.cpp", *parity)
    return Area("pipelines", "pipelines", r"pipelines/[\w/]+\.cpp", tests, files, SAMPLE, parity, deep=True)


# Parts of the library that are no op.
PARTS = {
    area.name: area
    for area in (
        _part(
            "core",
            ("test_core", UNGUIDED),
            ("test_ops", "--op="),
            ("test_ops", EVERY_OP),
            ("test_ladder", LESSONS),
        ),
        _part("bench", ("test_bench", ""), ("test_cli", "")),
        _part("verify", ("test_verify", ""), ("test_core", UNGUIDED), ("test_cli", "")),
        _part("io", ("test_io", ""), ("test_fuzz", "")),
        _part("cli", ("test_cli", ""), ("test_ladder", "--gtest_filter=LadderTool.*")),
        _part("emulator", ("test_emulator", "")),
        _kit(),
        _binding(),
        _pipelines(),
    )
}


@dataclass(frozen=True)
class PythonArea:
    """A part of the Python package: whatever is in its folder, or only beside the package's __init__."""

    name: str
    folder: str
    test_files: tuple[str, ...]  # patterns
    deep: bool = True
    copied: tuple[str, ...] = ()  # files that tests run from a copy of theirs: all of them reach these
    sample: int = PYTHON_SAMPLE

    def files(self, included: Collection[Path] = ()) -> list[Path]:
        paths = sorted((ROOT / self.folder).glob("**/*.py" if self.deep else "*.py"))
        without = left_out()
        return [path for path in paths if str(path.relative_to(ROOT)) not in without]

    def owns(self, file: str) -> bool:
        path = Path(file)
        return path.is_relative_to(self.folder) if self.deep else path.parent == Path(self.folder)


def left_out() -> dict[str, str]:
    """Files of the package that no test here can run, each with the reason."""
    with LEFT_OUT.open(newline="") as file:
        return {row["file"]: row["reason"] for row in csv.DictReader(file)}


def _python(
    name: str, *tests: str, folder: str = "", deep: bool = True, copied: tuple[str, ...] = ()
) -> PythonArea:
    files = tuple(f"tests/{test}.py" for test in tests)
    return PythonArea(f"python/{name}", folder or f"python/weft/{name}", files, deep, copied)


# Of runs, and of the ladder; how pages look in a browser is no matter of the package's sources.
REPORTS = (
    *(f"bench/test_{name}" for name in ("evidence_*", "report_*", "rows", "sample")),
    "python/test_learn",
)
PYTHON = {
    part.name: part
    for part in (
        _python("binding", "python/test_*", "cli/test_*", folder="python/weft", deep=False),
        _python("swap", "integrations/test_swap*"),
        _python("transformers", "integrations/test_transformers*"),
        _python("diffusers", "integrations/test_diffusers*"),
        _python(
            "hub",
            "integrations/test_hub*",
            copied=("python/weft/hub/_kernel.py", "python/weft/hub/layers.py"),
        ),
        _python("report", *REPORTS),
        _python(
            "bench", "bench/test_b*", "bench/test_rounding", "bench/test_sample", "integrations/test_models"
        ),
        _python("baselines", "bench/test_baselines*", "bench/test_rounding", "bench/test_sample"),
        _python("task", "task/test_*"),
        _python("skill", "integrations/test_skill"),
    )
}


def area(name: str) -> Area:
    return PARTS[name] if name in PARTS else _op(name)


def either(name: str) -> Area | PythonArea:
    return PYTHON[name] if name in PYTHON else area(name)
