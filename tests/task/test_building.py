"""What compilers and profilers are asked for, and the words of what goes wrong with a side's sources."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tvm_ffi
from weft._library import PATH
from weft.task import builder, check, module, profile
from weft.task.outcome import Absent, Outcome, Refusal, Usage

from tests.paths import ROOT
from tests.task.test_rule_texts import one, task_of

FLAGS = {"build": '"-O3"', "ours": '"-lineinfo"'}


class Builds:
    """In place of tvm-ffi's builder: keeps what it is asked for, or fails."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.error = ""
        self.arch = ""

    def build(self, name: str, **given: Any) -> str:
        self.asked.append((name, given))
        self.arch = os.environ.get("TVM_FFI_CUDA_ARCH_LIST", "")
        if self.error:
            raise RuntimeError(self.error)
        return "built.so"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Builds:
    made = Builds()
    monkeypatch.setattr(builder, "build", made.build)
    monkeypatch.setattr(builder, "_toolkit", lambda: str(tmp_path / "toolkit"))
    monkeypatch.setenv("WEFT_TASK_CACHE", str(tmp_path / "cache"))
    for name in ("CUDA_HOME", "CUDA_PATH", "TVM_FFI_CUDA_ARCH_LIST"):
        monkeypatch.setenv(name, "")  # it is put back
        monkeypatch.delenv(name)
    return made


def own_library() -> list[str]:
    found = sorted(PATH.parent.glob("libweft.so.*"))[0]
    folder = found.parent.resolve()
    return [f"-L{folder}", f"-l:{found.name}", f"-Wl,-rpath,{folder}", "-Wl,-Bsymbolic-functions"]


KIT = [str(ROOT), str(ROOT / "include"), str(ROOT / "src")]


def test_how_a_cuda_source_is_compiled(tmp_path: Path, builds: Builds) -> None:
    task = task_of(tmp_path / "t", language="cuda", **FLAGS)  # type: ignore[arg-type]
    side = one(task)
    side = type(side)(**{**side.__dict__, "includes": ("more",), "name": "a-b"})
    assert builder.compile_cuda(task, side) == "built.so"
    ((name, given),) = builds.asked
    folder = Path(given.pop("build_directory"))
    assert name == "mod_a_b" and folder.parent == tmp_path / "cache" and folder.is_dir()
    assert folder.name.startswith("mod-") and len(folder.name) == 4 + 12
    assert given == {
        "cuda_files": [str(tmp_path / "t" / "solution" / "kernel.cu")],
        "extra_cuda_cflags": ["-O3", "-lineinfo"],
        "extra_include_paths": [str(tmp_path / "t" / "solution"), str(tmp_path / "t" / "more")],
        "extra_ldflags": [],
    }
    assert builds.arch == "9.0a" and os.environ["CUDA_HOME"] == str((tmp_path / "toolkit").resolve())
    os.environ["CUDA_HOME"] = "mine"
    kit = task_of(tmp_path / "t", language="kit")
    builder.compile_cuda(kit, one(kit))
    assert os.environ["CUDA_HOME"] == "mine"
    assert builds.asked[1][1]["extra_include_paths"] == [str(tmp_path / "t" / "solution"), *KIT]
    assert builds.asked[1][1]["extra_ldflags"] == own_library()
    folders = {at[1].get("build_directory", str(folder)) for at in builds.asked}
    assert len(folders) == 2, "each is built in a folder of its own"
    del os.environ["CUDA_HOME"]
    os.environ["CUDA_PATH"] = "theirs"
    builder.compile_cuda(kit, one(kit))
    assert "CUDA_HOME" not in os.environ


def test_how_a_kernel_is_compiled_for_the_emulator(tmp_path: Path, builds: Builds) -> None:
    task = task_of(tmp_path / "t", language="kit", **FLAGS)  # type: ignore[arg-type]
    assert builder.compile_emulated(task, one(task)) == "built.so"
    ((_, given),) = builds.asked
    (wrapper,) = given["cpp_files"]
    assert Path(wrapper).name == "kernel_emulated.cpp"
    assert (
        Path(wrapper).read_text() == f'#include "{(tmp_path / "t" / "solution" / "kernel.cu").resolve()}"\n'
    )
    assert given["extra_cflags"] == [
        "-std=c++20", "-DWEFT_EMULATOR", "-fno-strict-aliasing", "-Wno-unknown-pragmas", "-O1",
    ]  # fmt: skip
    toolkit = f"{tmp_path / 'toolkit'}/include"
    assert given["extra_include_paths"] == [str(tmp_path / "t" / "solution"), *KIT, toolkit]
    assert given["extra_ldflags"] == own_library()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("a\nb.cu: error: x\nc\nld: cannot find -ly\nundefined reference to z",
         "b.cu: error: x | ld: cannot find -ly | undefined reference to z"),
        ("ERROR 1\nerror 2\nError 3\nerror 4\nerror 5", "ERROR 1 | error 2 | Error 3 | error 4"),
        ("nothing is said", "nothing is said"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_source_that_does_not_compile(
    tmp_path: Path, builds: Builds, error: str, said: str
) -> None:
    task = task_of(tmp_path / "t", language="cuda")
    builds.error = error
    with pytest.raises(Refusal) as raised:
        builder.compile_cuda(task, one(task))
    assert str(raised.value) == f"kernel.cu does not compile: {said}"
    outcome = Outcome("check")
    check._compile(task, one(task), outcome)
    assert outcome.refused == [f"one compiles for sm_90a: kernel.cu does not compile: {said}"]


def test_an_entry_that_is_not_exported(
    tmp_path: Path, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(tmp_path / "t", language="cuda", baseline="cuda")

    class Module:
        def __getitem__(self, name: str) -> str:
            if name != "run":
                raise AttributeError(name)
            return f"the function of {self.library}"

        def __init__(self, library: str) -> None:
            self.library = library

    monkeypatch.setattr(tvm_ffi, "load_module", Module)
    assert builder.function_of("l.so", one(task)) == "the function of l.so"
    outcome = Outcome("check")
    check._compile(task, one(task), outcome)
    assert outcome.checked == ["one compiles for sm_90a and exports run"]
    side = type(one(task))(**{**one(task).__dict__, "function": "go"})
    with pytest.raises(
        Refusal, match=r"^kernel\.cu exports no go: TVM_FFI_DLL_EXPORT_TYPED_FUNC\(go, \.\.\.\)$"
    ):
        builder.function_of("l.so", side)
    whole = Outcome("check")
    check.check(task, whole, compile_sources=True)
    assert [name for name, _ in builds.asked] == ["mod_one", "mod_baseline", "mod_one"]
    assert "baseline compiles for sm_90a and exports run" in whole.checked
    builds.asked.clear()
    check.check(task, Outcome("check"), compile_sources=False)
    assert builds.asked == []


@pytest.mark.parametrize(
    ("arch", "listed"), [("sm_90a", "9.0a"), ("sm_80", "8.0"), ("sm_120", "12.0"), ("sm_100f", "10.0f")]
)
def test_architectures(arch: str, listed: str) -> None:
    assert builder.arch_list(arch) == listed


def test_where_the_compiler_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    for place in ("here", "home", "other"):
        tool = tmp_path / place / "bin" / "nvcc"
        tool.parent.mkdir(parents=True)
        tool.write_text(f'#!/bin/sh\n[ "$1" = --dryrun ] && echo "#$ TOP={tmp_path / place}/top" >&2\n')
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "here" / "bin"))
    assert builder.nvcc() == str(tmp_path / "here" / "bin" / "nvcc")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "other"))
    assert builder.nvcc() == str(tmp_path / "other" / "bin" / "nvcc")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'here' / 'bin'}:/bin:/usr/bin")
    assert builder.nvcc() == str(tmp_path / "home" / "bin" / "nvcc")
    assert builder._toolkit() == str(tmp_path / "home" / "top")
    (tmp_path / "home" / "bin" / "nvcc").write_text("#!/bin/sh\necho nothing\n")
    with pytest.raises(Absent, match=r"^nvcc --dryrun does not say where its toolkit is$"):
        builder._toolkit()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nowhere"))
    assert builder.nvcc() == str(tmp_path / "here" / "bin" / "nvcc")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Absent, match=r"^there is no nvcc here: CUDA sources can't be compiled$"):
        builder.nvcc()
    monkeypatch.setattr(builder, "_ROOT", tmp_path)
    with pytest.raises(
        Absent, match=r"^the kit's headers are not here: a kernel on weft's kit needs weft's sources$"
    ):
        builder._kit_paths()


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (None, Usage, "the side: there is no {path}"),
        ("import no_such_thing\n", Absent, "the side imports no_such_thing, which is not installed here"),
        ("1 / 0\n", Usage, "the side: f.py can't be loaded: ZeroDivisionError: division by zero"),
        ("run = 3\n", Usage, "the side: f.py has no function run"),
        ("", Usage, "the side: f.py has no function run"),
    ],
)
def test_what_is_said_of_a_python_file(
    tmp_path: Path, text: str | None, kind: type[Exception], said: str
) -> None:
    path = tmp_path / "f.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(kind) as raised:
        module.load_function(path, "run", "the side")
    assert str(raised.value) == said.format(path=path)
    (tmp_path / "beside.py").write_text("VALUE = 7\n")
    path.write_text(
        "from beside import VALUE\nimport sys\nMODULE = sys.modules[__name__]\n\n\ndef run():\n    return VALUE\n"
    )
    assert module.load_function(path, "run", "the side")() == 7


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("kernel.py", "def run(x): ...\n", ""), ("kernel.py", "run = 3\n", ""),
        ("kernel.py", "from a import run\n", ""),
        ("kernel.py", "from a import b as run\n", ""), ("kernel.py", "import run\n", "kernel.py has no run"),
        ("kernel.py", "from a import run as b\nrun.x = 3\n", "kernel.py has no run"),
        ("kernel.py", "\n\ndef run(:\n", "kernel.py:3: invalid syntax"),
        ("other.py", "", "there is no solution/kernel.py"),
    ],
)  # fmt: skip
def test_what_is_said_of_an_entry(tmp_path: Path, name: str, text: str, said: str) -> None:
    task = task_of(tmp_path)
    (tmp_path / "solution" / "kernel.py").unlink()
    (tmp_path / "solution" / name).write_text(text)
    assert check._sources_problem(task, one(task)) == said
    cuda = task_of(tmp_path, language="cuda", solution="whatever")
    assert check._sources_problem(cuda, one(cuda)) == ""


def test_counters_are_asked_for_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(tmp_path)
    row, asked = task.rows[0], []
    answers = {"out": "", "err": "", "late": False}

    def run(command: list[str], **words: Any) -> Any:
        asked.append(command)
        assert words["timeout"] == 90
        if answers["late"]:
            raise profile.subprocess.TimeoutExpired(command, 90)  # type: ignore[attr-defined]
        return SimpleNamespace(stdout=answers["out"], stderr=answers["err"])

    monkeypatch.setattr("weft.task.profile.subprocess.run", run)
    monkeypatch.setattr("weft.task.profile.shutil.which", lambda _: None)
    outcome = Outcome("profile")
    assert profile._counters(task, one(task), row, outcome) == [] and asked == []
    monkeypatch.setattr("weft.task.profile.shutil.which", lambda name: f"/bin/{name}")
    answers["out"] = (
        '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n"0","k","gpu__time_duration.sum","us","3"'
    )
    assert profile._counters(task, one(task), row, outcome) == [{"kernel": "k", "time": "3 us"}]
    answers |= {"out": "ok\n", "err": "==ERROR== no right\nerror 2"}
    assert profile._counters(task, one(task), row, outcome) == []
    answers["err"] = ""
    assert profile._counters(task, one(task), row, outcome) == []
    answers["late"] = True
    assert profile._counters(task, one(task), row, outcome) == []
    task.raw["task"]["device"] = "cpu"
    assert profile._counters(task, one(task), row, outcome) == []
    none = "no Nsight Compute here: the roofline alone"
    assert outcome.notes == [
        none,
        "Nsight Compute gave no counters: ==ERROR== no right",
        "Nsight Compute gave no counters: no kernel was seen",
        "Nsight Compute gave no counters within 90 s: the roofline alone",
        none,
    ]
    command = asked[0]
    assert command[:10] == ["/bin/ncu", "--csv", "--target-processes", "all", "--profile-from-start", "off",
                            "--clock-control", "none", "--metrics", ",".join(profile.COUNTERS)]  # fmt: skip
    assert command[11:] == ["-m", "weft.task.once", str(tmp_path), "one", "a"]
