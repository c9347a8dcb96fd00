"""The rules that need no GPU, each by the words that it refuses with; and what may be committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from weft.task import hygiene, rules
from weft.task.outcome import Outcome
from weft.task.spec import Side, Task, load

TOML = """
[task]
name = "mod"
device = "cuda"
[spec]
reference = "reference.py:mod"
inputs = [{{ name = "x", dtype = "fp32", shape = "S" }}]
outputs = [{{ name = "out", dtype = "fp32", shape = "S" }}]
[tolerance]
out = {{ atol = 0.5 }}
[timing]
eager = {eager}
[build]
flags = [{build}]
[[workloads]]
name = "a"
S = 4
[grid]
S = [1, 2, 3]
[baseline]
language = "{baseline}"
entry = "baseline/entry.{of_baseline}:run"
flags = [{theirs}]
[candidates.one]
language = "{language}"
entry = "solution/kernel.{suffix}:run"
flags = [{ours}]
"""
SUFFIXES = {"cuda": "cu", "kit": "cu"}


def task_of(
    folder: Path, *, language: str = "python", baseline: str = "python", build: str = "", ours: str = "",
    theirs: str = "", eager: bool = True, solution: str = "", entry: str = "",
) -> Task:  # fmt: skip
    suffix, of_baseline = (SUFFIXES.get(name, "py") for name in (language, baseline))
    text = TOML.format(
        eager=str(eager).lower(), build=build, ours=ours, theirs=theirs, language=language, baseline=baseline,
        suffix=suffix, of_baseline=of_baseline,
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / "task.toml").write_text(text)
    for name, held in ((f"solution/kernel.{suffix}", solution), (f"baseline/entry.{of_baseline}", entry)):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(held)
    return load(folder)


def one(task: Task) -> Side:
    return task.candidates["one"]


def test_flags(tmp_path: Path) -> None:
    def said(**words: str) -> str:
        task = task_of(tmp_path, **words)  # type: ignore[arg-type]
        return rules.flags_problem(task, one(task))

    shared = ": flags that both sides share belong into [build]"
    assert said(language="cuda", baseline="cuda", ours='"-a"', theirs='"-a"') == ""
    assert said(ours='"-a"') == "", "of Python they are nobody's"
    assert said(language="cuda", ours='"-a", "-b"', theirs='"-b"') == "-a on one alone" + shared
    assert said(baseline="kit", ours='"-b"', theirs='"-b", "-c"') == "-c on the baseline alone" + shared
    assert (
        said(language="kit", ours='"-a"', theirs='"-c"')
        == "-a on one alone; -c on the baseline alone" + shared
    )


@pytest.mark.parametrize(
    "flag",
    ["-use_fast_math", "--use_fast_math", "-ffast-math", "-Ofast", "-ftz=true", "-prec-div=false", "-prec-sqrt=false",
     "-funsafe-math-optimizations"],
)  # fmt: skip
@pytest.mark.parametrize("where", ["build", "ours", "theirs"])
def test_fast_flags(tmp_path: Path, flag: str, where: str) -> None:
    words: dict[str, Any] = {where: f'"-O3", "{flag}"'}
    task = task_of(tmp_path, **words)
    said = rules.fast_math_problem(task, one(task))
    assert said == f"{flag}: upstream builds the baseline without it (baseline/source.json records its flags)"
    (tmp_path / "baseline" / "source.json").write_text(f'{{"upstream_flags": ["{flag}"], "files": []}}')
    assert rules.fast_math_problem(task, one(task)) == ""


@pytest.mark.parametrize("flag", ["-O3", "x-use_fast_math", "-ftz=false", "--use_fast_math2"])
def test_flags_that_are_not_fast(tmp_path: Path, flag: str) -> None:
    task = task_of(tmp_path, build=f'"{flag}"')
    assert rules.fast_math_problem(task, one(task)) == ""


FAST = ["__expf(x)", "__logf(x)", "__sincosf(x)", "__fdividef(x)", "__powf(x)", "ex2.approx", "rsqrt.approx.f32",
        "libdevice.fast_expf", "fast_tanhf(x)", "tanh.approx", "sqrt.approx", "__exp10f(x)"]  # fmt: skip


@pytest.mark.parametrize("code", FAST)
def test_fast_code(tmp_path: Path, code: str) -> None:
    text = f"a\n// {code}\n/* {code}\n{code} */\nb {code};\n"
    task = task_of(tmp_path, language="cuda", baseline="cuda", solution=text)
    said = rules.fast_math_problem(task, one(task))
    assert said.startswith("solution/kernel.cu:5: ") and said.endswith(
        ": the baseline's own source has no approximate arithmetic"
    )
    task = task_of(tmp_path, language="cuda", baseline="cuda", solution=text, entry=text)
    assert rules.fast_math_problem(task, one(task)) == ""
    task = task_of(tmp_path, language="cuda", baseline="cuda", solution=f"x{code}y", entry="")
    assert rules.fast_math_problem(task, one(task)) == "" or code[0] not in "_el"


SWITCHES = ["torch.backends.cuda.matmul.allow_tf32 = True", 'torch.set_float32_matmul_precision("high")',
            "config.use_fast_math=True", "torch.backends.cudnn.benchmark = True",
            'os.environ["TRITON_CACHE_DIR"] = ""', "allow_fp16_reduced_precision_reduction = 1"]  # fmt: skip


@pytest.mark.parametrize("code", SWITCHES)
@pytest.mark.parametrize("side", ["solution", "entry"])
def test_switches(tmp_path: Path, code: str, side: str) -> None:
    words: dict[str, Any] = {side: f"# {code}\n{code}\n"}
    task = task_of(tmp_path, **words)
    place = {"solution": "solution/kernel.py", "entry": "baseline/entry.py"}[side]
    said = rules.switches_problem(task, one(task))
    assert said.startswith(f"{place}:2: ")
    assert said.endswith(": a switch of the whole process is a flag on both sides; it belongs to none")
    assert rules.switches_problem(task_of(tmp_path, solution=f"# {code}\n"), one(task)) == ""


def test_launchers(tmp_path: Path) -> None:
    def said(**words: object) -> str:
        task = task_of(tmp_path, **words)  # type: ignore[arg-type]
        return rules.builder_problem(task, one(task))

    assert said() == "" == said(language="cuda", baseline="kit") == said(language="triton", eager=False)
    assert said(language="triton", baseline="cuda") == (
        "the baseline is launched by tvm-ffi, one by Triton's launcher: times of calls from the host would compare "
        "these. Set timing.eager = false (device times alone), or give both one path"
    )


WAITS = ": the host waits for the device in the timed path"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("", ""),
        ("f<<<1, 2, 0, TVMFFIEnvGetStream(a)>>>();", ""),
        ("f<<<g(1, 2, 3), h, 0>>>();", "solution/kernel.cu:1: a launch without a stream is on the default one"),
        ("\n\nf<<<1,\n2>>>();", "solution/kernel.cu:3: a launch without a stream is on the default one"),
        ("f<<<a, b, c, s>>>();", "kernel.cu launches, but never asks for the current stream (TVMFFIEnvGetStream)"),
        ("kit::launch (f);", "kernel.cu launches, but never asks for the current stream (TVMFFIEnvGetStream)"),
        ("kit::launch(f); getCurrentCUDAStream();", ""),
        ("cudaStreamCreateWithFlags(&s);", "solution/kernel.cu:1: cudaStreamCreateWithFlags: a stream of its own"),
        ("f(cudaStreamPerThread);", "solution/kernel.cu:1: cudaStreamPerThread: a stream of its own"),
        ("cudaDeviceSynchronize ();", "solution/kernel.cu:1: cudaDeviceSynchronize (" + WAITS),
        ("cudaMemcpy(a);", "solution/kernel.cu:1: cudaMemcpy(" + WAITS),
        ("cudaMemcpyAsync(a);", ""),
    ],
)  # fmt: skip
def test_streams(tmp_path: Path, code: str, said: str) -> None:
    task = task_of(tmp_path, language="cuda", solution=code)
    assert rules.stream_problem(task, one(task)) == said


@pytest.mark.parametrize(
    ("text", "commas"), [("", 0), ("a, b", 1), ("f(a, b), c[1, 2], {3, 4}, d", 3), ("(a, (b, c))", 0)]
)
def test_commas_outside_of_brackets(text: str, commas: int) -> None:
    assert rules._depth_commas(text) == commas


PYTHON = """import torch


def helper(x):
    return x.clone()


def other(x):
    return torch.zeros(3)


def run(x, out):
    empty(3)
    out.copy_(helper(x))
    run(x, out)
"""


def test_allocations(tmp_path: Path) -> None:
    task = task_of(tmp_path, solution=PYTHON)
    assert rules.allocations(task, one(task)) == ["solution/kernel.py:5: x.clone"], "what the entry calls"
    said = (
        "one alone allocates in the timed path (solution/kernel.py:5: x.clone): outputs come preallocated. Allocate on "
        "neither side"
    )
    graphs = ", or set timing.eager = false (a graph's replays allocate nothing)"
    assert rules.allocation_problem(task, one(task)) == said + graphs
    task.raw["task"]["device"] = "cpu"
    assert rules.allocation_problem(task, one(task)) == said
    task.raw["timing"]["eager"] = False
    assert rules.allocation_problem(task, one(task)) == said
    task.raw["task"]["device"] = "cuda"
    assert rules.allocation_problem(task, one(task)) == ""
    theirs = task_of(tmp_path, entry="def run(x, out):\n    x.tolist()\n")
    assert rules.allocation_problem(theirs, one(theirs)).startswith(
        "the baseline alone allocates in the timed path (baseline/entry.py:2: x.tolist)"
    )
    both = task_of(tmp_path, solution=PYTHON, entry="def run(x, out):\n    x.tolist()\n")
    assert rules.allocation_problem(both, one(both)) == ""
    compiled = task_of(
        tmp_path, language="cuda", solution="a\ncudaMallocAsync(b);\nthrust::device_vector<int> c;"
    )
    assert rules.allocations(compiled, one(compiled)) == [
        "solution/kernel.cu:2: cudaMallocAsync",
        "solution/kernel.cu:3: thrust::device_vector",
    ]


def test_the_page_of_rules(tmp_path: Path) -> None:
    task = task_of(
        tmp_path, language="cuda", baseline="python", build='"-O3"', ours='"-lineinfo"', solution="__expf(x) __expf(y)",
        entry="def run(x, out):\n    out.copy_(x.clone())\n",
    )  # fmt: skip
    head = """\
# How mod is measured

Rendered by `weft task check` from task.toml; the harness is weft's (docs/measuring.md there).

| side | language | entry | flags | launched by | allocates |
|---|---|---|---|---|---|
| baseline | python | `baseline/entry.py:run` | - | Python | baseline/entry.py:2: x.clone |
| one | cuda | `solution/kernel.cu:run` | -O3 -lineinfo | tvm-ffi | no |

- 1 workload rows, 3 rows of the regression grid.
- 15 samples of 2000 us each, both sides interleaved in random order; cold and hot operands; times: """
    tail = (
        "- out: atol 0.5, rtol 0.\n- approximate arithmetic in the sources: solution/kernel.cu:1: __expf.\n"
    )
    assert rules.render(task) == head + "device and eager; target sm_90a.\n" + tail
    task.raw["timing"]["eager"] = False
    task.raw["task"]["device"] = "cpu"
    assert rules.render(task) == head + "device alone; target CPU.\n" + tail
    outcome = Outcome("check")
    rules.inspect(task, one(task), outcome)
    assert outcome.checked == [
        "one: no switch of the whole process",
        "one: one builder and one launch path, or device times alone",
        "one: launches on the current stream, and no waiting",
    ]
    assert [what.partition(":")[2].partition(":")[0] for what in outcome.refused] == [
        " the flags of both sides are the same",
        " no fast math that the baseline has not",
        " no allocation on one side alone",
    ]


ARTEFACTS = ["task.toml", "lock.json", "heads.json", "README.md", ".gitignore", "reference.py", "chain.py",
             "baseline/source.json", "baseline/entry.py", "baseline/up/kernel.cuh", "solution/kernel.cu",
             "solution/a.cpp", "solution/a.h", "solution/a.hpp", "bench/evidence.jsonl", "bench/run.py",
             "docs/results.md", "docs/log.jsonl"]  # fmt: skip
KINDS = {
    "a profiler's report": ["p.ncu-rep", "a/p.nsys-rep", "q.sqlite", "q.qdrep", "q.qdstrm", "q.nvvp", "q.nvprof"],
    "a trace": ["my_trace_1.json", "t.json.gz", "x.pftrace", "t.chrome", "t.perfetto-trace", "docs/a.svg"],
    "a binary": ["solution/k.so", "k.o", "k.a", "k.cubin", "k.fatbin", "k.ptx", "k.sass", "k.pyc", "k.whl", "k.pt",
                 "k.pth", "k.safetensors", "k.npz", "k.npy", "k.bin", "k.tar", "k.tar.gz", "k.zip"],
    "scratch": ["a.log", "a.tmp", "a.orig", "a.rej", "a.swp", "a.py~", "a.bak", "a.csv", "a.html", "build/kernel.cu"],
}  # fmt: skip


def test_what_may_be_committed(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    assert [hygiene.problem(task, name) for name in ARTEFACTS] == [""] * len(ARTEFACTS)
    for kind, names in KINDS.items():
        for name in names:
            said = f"{name} is {kind}: it stays out of commits (keep it in scratch/)"
            assert hygiene.problem(task, name) == said
    for name in ("notes.txt", "data.json", "other/k.cu", "docs/log.json", "bench/a.txt"):
        said = f"{name} is no artefact of a task: move it to scratch/, or remove it"
        assert hygiene.problem(task, name) == said
    large = tmp_path / "solution" / "large.py"
    large.write_bytes(b"#" * (2 << 20))
    assert hygiene.problem(task, "solution/large.py") == ""
    large.write_bytes(b"#" * ((3 << 20) + 5))
    assert (
        hygiene.problem(task, "solution/large.py") == "solution/large.py has 3 MiB: an artefact has at most 2"
    )
    for committed in (True, False):
        (tmp_path / "baseline" / "source.json").write_text(
            f'{{"committed": {str(committed).lower()}, "files": [{{"path": "up/ops.py"}}]}}'
        )
        said = "baseline/up/ops.py is a copy that is not committed: `weft task baseline --restore` makes it again"
        assert hygiene.problem(task, "baseline/up/ops.py") == ("" if committed else said)


def test_files_that_a_commit_has(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    for name in ("scratch/a.py", "solution/__pycache__/k.py", ".pytest_cache/a.py", "a.log", "reference.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    expected = ["baseline/entry.py", "reference.py", "solution/kernel.py", "task.toml"]
    assert hygiene.to_stage(task) == expected
    assert not hygiene.in_repository(task) and hygiene.tracked(task) == hygiene.staged(task) == []
    outcome = Outcome("stage")
    hygiene.stage(task, outcome, add=False)
    assert outcome.checked == ["nothing is staged that is no artefact", "4 files belong into the commit"]
    note = "left out of `weft task stage`: a.log is scratch: it stays out of commits (keep it in scratch/)"
    assert outcome.notes == [note, *(f"git add {tmp_path.name}/{name}" for name in expected)]
    assert outcome.data == {"files": expected} and outcome.code == 0
    failed = Outcome("stage")
    hygiene.stage(task, failed, add=True)
    assert len(failed.refused) == 1 and failed.refused[0].startswith(
        "git took them: fatal: not a git repository"
    )
    assert failed.notes[1:] == [f"added {name}" for name in expected]
