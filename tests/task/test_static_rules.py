"""Rules that need no GPU: each is broken once, and the refusal says how."""

from __future__ import annotations

import pytest
from weft.task import rules

from tests.task.made import CANDIDATE, Made, call, git, repository, told

CUDA = """#include <tvm/ffi/function.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {{
    auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(2, 0));
    {body}
}}
"""


def cuda(made: Made, body: str, extra: str = "") -> str:
    """What `check` says of a task whose sides are both CUDA."""
    made.baseline()
    launch = "kernel<<<grid, block, 0, stream>>>(x);"
    made.write("baseline/entry.cu", CUDA.format(body=launch)).write(
        "solution/kernel.cu", CUDA.format(body=body)
    )
    made.edit("task.toml", 'device = "cpu"', 'device = "cuda"').edit(
        "task.toml", "entry.py:run", "entry.cu:run"
    )
    made.edit("task.toml", "kernel.py:run", "kernel.cu:run").edit(
        "task.toml", 'language = "python"', 'language = "cuda"'
    )
    if extra:
        with (made.folder / "task.toml").open("a") as file:
            file.write(extra + "\n")
    return told(made.call("check"))


GOOD = "kernel<<<dim3(1, 2), f(3, 4), 0, stream>>>(x);"


def test_a_task_that_keeps_the_rules_passes(made: Made) -> None:
    made.baseline().good("check")
    page = (made.folder / "docs" / "benchmark_method.md").read_text()
    assert "| first | python | `solution/kernel.py:run` |" in page and "atol 1e-05" in page


def test_cuda_that_keeps_the_rules_passes(made: Made) -> None:
    assert "launch" not in cuda(made, GOOD)


@pytest.mark.parametrize(
    ("body", "extra", "refusal"),
    [
        (GOOD, 'flags = ["-maxrregcount=64"]', "-maxrregcount=64 on first alone"),
        (GOOD, 'flags = ["--use_fast_math"]', "upstream builds the baseline without it"),
        ("y = __expf(x);", "", "the baseline's own source has no approximate arithmetic"),
        ("kernel<<<grid, block>>>(x);", "", "a launch without a stream is on the default one"),
        ("kernel<<<dim3(1, 2, 3), block>>>(x);", "", "a launch without a stream is on the default one"),
        ("cudaStream_t own; cudaStreamCreate(&own);", "", "a stream of its own"),
        (GOOD + " cudaDeviceSynchronize();", "", "the host waits for the device in the timed path"),
        ("void* p; cudaMallocAsync(&p, 16, stream);", "", "first alone allocates in the timed path"),
    ],
)
def test_broken_cuda_rules(made: Made, body: str, extra: str, refusal: str) -> None:
    assert refusal in cuda(made, body, extra)


@pytest.mark.parametrize(
    "call",
    [
        *(f"__{name}(x)" for name in ("expf", "exp10f", "logf", "log2f", "log10f", "sinf", "cosf", "tanf")),
        *(f"__{name}(x, y)" for name in ("sincosf", "powf", "fdividef")),
        *(f'asm("{name}.approx.f32 y, x;")' for name in ("ex2", "lg2", "rcp", "rsqrt", "sin", "cos", "tanh")),
        *(f'asm("{name}.approx.f32 y, x;")' for name in ("div", "sqrt")),
        *(f"fast_{name}(x)" for name in ("expf", "dividef", "tanhf")),
        "libdevice.fast_expf(x)",
    ],
)
def test_each_approximate_function_is_fast_math(call: str) -> None:
    assert rules.FAST_CODE.search(f"y = {call};")


def test_a_launch_that_never_asks_for_the_stream(made: Made) -> None:
    made.baseline().write("solution/kernel.cu", "void run() { kernel<<<1, 2, 0, kept>>>(x); }")
    made.edit("task.toml", "kernel.py:run", "kernel.cu:run")
    made.edit("task.toml", '[candidates.first]\nlanguage = "python"', '[candidates.first]\nlanguage = "cuda"')
    assert "never asks for the current stream" in told(made.call("check"))


def test_fast_math_is_what_upstream_has_on_both_sides(made: Made) -> None:
    call(
        "baseline",
        made.folder,
        "--git",
        made.upstream,
        "--file",
        "ops.py",
        "--upstream-flags=--use_fast_math",
    )
    made.edit("task.toml", '"-O3",', '"-O3", "--use_fast_math",').good("check")


def test_fast_math_of_upstream_on_one_side_alone(made: Made) -> None:
    flags = ["--upstream-flags=--use_fast_math"]
    call("baseline", made.folder, "--git", made.upstream, "--file", "ops.py", *flags)
    for side in ("baseline", "candidates.first"):
        made.edit("task.toml", f'[{side}]\nlanguage = "python"', f'[{side}]\nlanguage = "cuda"')
    made.edit("task.toml", "[candidates.first]\n", '[candidates.first]\nflags = ["--use_fast_math"]\n')
    assert "--use_fast_math on first alone" in told(made.call("check"))


def test_a_comment_is_no_code(made: Made) -> None:
    made.baseline().write(
        "solution/kernel.py", CANDIDATE + "# torch.backends.cuda.matmul.allow_tf32 = True\n"
    )
    made.good("check")


def test_a_switch_of_the_whole_process(made: Made) -> None:
    made.baseline().write("solution/kernel.py", CANDIDATE + "torch.backends.cuda.matmul.allow_tf32 = True\n")
    assert "a switch of the whole process" in told(made.call("check"))


def test_launch_paths_that_differ_leave_device_times_alone(made: Made) -> None:
    made.baseline().edit(
        "task.toml", '[candidates.first]\nlanguage = "python"', '[candidates.first]\nlanguage = "triton"'
    )
    made.edit("task.toml", 'device = "cpu"', 'device = "cuda"')
    assert "launched by Python, first by Triton's launcher" in told(made.call("check"))
    made.edit("task.toml", "eager = true", "eager = false").good("check")


def test_an_allocation_on_one_side_is_found_through_helpers(made: Made) -> None:
    helper = "import torch\n\n\ndef twice(x):\n    return torch.empty_like(x)\n\n\n"
    made.baseline().write("solution/kernel.py", helper + "def run(x, scale, shift, out):\n    twice(x)\n")
    assert "first alone allocates in the timed path (solution/kernel.py:5: torch.empty_like)" in told(
        made.call("check")
    )


def test_no_entry(made: Made) -> None:
    made.baseline().write("solution/kernel.py", "def walk(): pass\n")
    assert "kernel.py has no run" in told(made.call("check"))


class TestBaseline:
    def test_an_edited_copy_is_told_by_its_hash(self, made: Made) -> None:
        made.baseline().edit("baseline/ops.py", "torch.addcmul", "torch.add")
        assert "baseline/ops.py was edited after it was copied: its hash is" in told(made.call("check"))

    def test_restore_brings_the_copy_back(self, made: Made) -> None:
        made.baseline()
        (made.folder / "baseline" / "ops.py").unlink()
        assert "is missing" in told(made.call("check"))
        assert made.call("baseline", "--restore", "--git", str(made.upstream)).code == 0
        made.good("check")

    def test_the_branch_is_resolved_to_its_newest_commit(self, made: Made) -> None:
        git(made.upstream, "commit", "-q", "--allow-empty", "-m", "two")
        made.baseline()
        page = (made.folder / "docs" / "baseline_source.md").read_text()
        assert git(made.upstream, "rev-parse", "HEAD") in page and "- branch: main" in page

    def test_a_page_that_was_typed(self, made: Made) -> None:
        made.baseline().edit("docs/baseline_source.md", "branch: main", "branch: mine")
        assert "it is rendered, never typed" in told(made.call("check"))

    def test_none(self, made: Made) -> None:
        assert "there is no baseline/source.json" in told(made.call("check"))

    def test_a_file_that_upstream_lacks(self, made: Made) -> None:
        assert made.call("baseline", "--git", str(made.upstream), "--file", "none.py").code == 1

    def test_an_installed_wheel(self, made: Made) -> None:
        outcome = made.call("baseline", "--wheel", "pytest", "--file", "pytest/__init__.py", "--no-commit")
        assert outcome.code == 0, told(outcome)
        page = (made.folder / "docs" / "baseline_source.md").read_text()
        assert "- package: pytest" in page and "the copies are not committed" in page
        assert "are here already" in made.call("baseline", "--restore").checked[0]
        (made.folder / "baseline" / "pytest" / "__init__.py").unlink()
        made.edit("baseline/source.json", '"version": "', '"version": "0.')
        assert "the baseline is 0." in told(made.call("baseline", "--restore"))

    def test_a_package_that_is_not_here(self, made: Made) -> None:
        outcome = made.call("baseline", "--wheel", "no-such-package", "--file", "a.py")
        assert outcome.code == 3 and "is not installed here" in told(outcome)


class TestArtefacts:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("profile/report.ncu-rep", "a profiler's report"),
            ("docs/timeline.nsys-rep", "a profiler's report"),
            ("trace_1.json", "a trace"),
            ("solution/kernel.so", "a binary"),
            ("run.log", "scratch"),
            ("notes.txt", "no artefact of a task"),
        ],
    )
    def test_what_is_staged_and_should_not_be(self, made: Made, name: str, kind: str) -> None:
        git(made.root, "init", "-q")
        made.baseline().write(name, "x")
        git(made.folder, "add", "-f", name)
        assert f"{name} is {kind}" in told(made.call("check"))

    def test_stage_lists_what_a_commit_has(self, made: Made) -> None:
        made.locked().write("scratch/try.py", "x").write("big.ncu-rep", "x")
        outcome = made.call("stage")
        assert outcome.data["files"] == [
            ".gitignore", "baseline/entry.py", "baseline/ops.py", "baseline/source.json", "docs/baseline_source.md",
            "lock.json", "reference.py", "solution/kernel.py", "task.toml",
        ]  # fmt: skip
        assert any("big.ncu-rep is a profiler's report" in note for note in outcome.notes)

    def test_copies_that_are_not_committed(self, made: Made) -> None:
        git(made.root, "init", "-q")
        made.call("baseline", "--git", str(made.upstream), "--file", "ops.py", "--no-commit")
        assert "baseline/ops.py" not in made.call("stage", "--add").data["files"]
        assert (
            "baseline/entry.py"
            in git(made.folder, "diff", "--cached", "--name-only", "--relative").splitlines()
        )
        git(made.folder, "add", "-f", "baseline/ops.py")
        assert "a copy that is not committed" in told(made.call("check"))

    def test_large(self, made: Made) -> None:
        git(made.root, "init", "-q")
        made.baseline().write("docs/results.md", "x" * (3 << 20))
        git(made.folder, "add", "docs/results.md")
        assert "docs/results.md has 3 MiB" in told(made.call("check"))


def test_a_repository_of_nobody(made: Made, tmp_path_factory: pytest.TempPathFactory) -> None:
    clone = repository(tmp_path_factory.mktemp("a") / "clone", {"ops.py": "pass\n"})
    made.call("baseline", "--git", str(clone), "--file", "ops.py")
    page = (made.folder / "docs" / "baseline_source.md").read_text()
    assert "- url: local clone clone" in page and str(clone) not in page
