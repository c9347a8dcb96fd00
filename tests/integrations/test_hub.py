"""The kernel repository that weft.hub writes, as the `kernels` package and transformers load it, offline."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tvm_ffi

from tests.paths import PYTHON_PATH, ROOT

pytest.importorskip("kernels")
from kernel_abi_check import ObjectFile
from kernels._rust import Digest, DigestAlgorithm, Metadata
from weft import _library
from weft.hub import _folder
from weft.hub._elf import needed

# Of Debian 12, where weft's wheels are built: what the library asks of glibc and libstdc++ is no newer.
MANYLINUX = "manylinux_2_34"


def run(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own, which has this checkout's package only where PYTHONPATH is given."""
    left_out = ("PYTHONPATH", "WEFT_LIBRARY", "LOCAL_KERNELS")
    given = {name: value for name, value in os.environ.items() if name not in left_out} | environment
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=300)


def write(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(
        "-m", "weft.hub", folder, *words, PYTHONPATH=PYTHON_PATH, WEFT_LIBRARY=os.environ["WEFT_LIBRARY"]
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "weft"
    done = write(folder, "--version", "3", "--here-only")
    assert done.returncode == 0, done.stderr
    return folder


def variants(repository: Path) -> list[Path]:
    return sorted((repository / "build").iterdir())


def described(build: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((build / "metadata.json").read_text())
    return found


def test_it_has_a_build_for_each_part_of_the_library(repository: Path) -> None:
    major, minor = tvm_ffi.__version__.split(".")[:2]
    cuda = _library.function("cuda_version")()
    expected = {f"tvm-ffi{major}{minor}-cpu-x86_64-linux"}
    if cuda:
        expected.add(f"tvm-ffi{major}{minor}-cu{cuda.replace('.', '')}-x86_64-linux")
    assert {build.name for build in variants(repository)} == expected
    backends = {described(build)["backend"]["type"]: described(build) for build in variants(repository)}
    assert "archs" not in backends["cpu"]["backend"]
    if cuda:
        assert all("." in arch for arch in backends["cuda"]["backend"]["archs"])
        assert backends["cpu"]["id"] != backends["cuda"]["id"]


def test_the_metadata_is_what_kernels_reads(repository: Path) -> None:
    for build in variants(repository):
        read = Metadata.read_from_file(build / "metadata.json")
        assert (str(read.name), read.version, read.license, read.python_depends) == (
            "weft", 3, "Apache-2.0", ["tvm-ffi"],
        )  # fmt: skip
        assert read.id.isidentifier()
        assert read.digest is not None
        read.digest.validate(Digest.hash_variant(DigestAlgorithm.SHA256, build))


def test_kernels_describes_it(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kernels.cli.info import print_kernel_info  # noqa: PLC0415

    print_kernel_info(str(repository), json_output=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["name"], told["version"], told["python_depends"]) == ("weft", 3, ["tvm-ffi"])
    assert told["backends"] == (["cpu", "cuda"] if _library.function("cuda_version")() else ["cpu"])


def test_a_changed_file_shows(repository: Path, tmp_path: Path) -> None:
    build = variants(repository)[0]
    expected = Metadata.read_from_file(build / "metadata.json").digest
    for path in (build / "layers.py", build / "contracts.sha256"):
        (tmp_path / path.name).write_bytes(path.read_bytes() + b"#")
    with pytest.raises(Exception, match=r"layers\.py"):
        expected.validate(Digest.hash_variant(DigestAlgorithm.SHA256, tmp_path))


def test_the_libraries_keep_to_the_binary_interfaces(repository: Path) -> None:
    for build in variants(repository):
        libraries = sorted((build / "weft" / "lib").iterdir())
        assert {"libweft_ffi.so", "libweft.so.0"} <= {library.name for library in libraries}
        for library in libraries:
            assert ObjectFile(library).check_python_abi("3.9") == []
            assert ObjectFile(library).check_manylinux(MANYLINUX) == []


def test_what_is_needed_is_read_from_the_file() -> None:
    library = Path(os.environ["WEFT_LIBRARY"])
    told = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    expected = [line.split("[")[1].rstrip("]") for line in told.splitlines() if "(NEEDED)" in line]
    assert needed(library) == expected
    with pytest.raises(ValueError, match="no 64-bit"):
        needed(Path(__file__))


def test_a_library_that_other_machines_may_lack_is_not_written_by_itself(tmp_path: Path) -> None:
    if _folder.libraries()[1]:
        with pytest.raises(ValueError, match="which other machines may lack"):
            _folder.write(tmp_path / "weft")
        assert not (tmp_path / "weft").exists()
    else:  # a portable build
        _folder.write(tmp_path / "weft")


def test_libraries_that_lie_beside_are_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the wheel, where what other machines lack is in one folder with the library."""
    library = Path(os.environ["WEFT_LIBRARY"])
    foreign = _folder.libraries()[1]
    told = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(\S+) => (\S+)", told))
    for name in ("libweft.so.0", *foreign):
        shutil.copy(found[name], tmp_path / name)
    monkeypatch.setattr(_library, "PATH", Path(shutil.copy(library, tmp_path)))
    carried, lacking = _folder.libraries()
    assert {path.name for path in carried} == {"libweft_ffi.so", "libweft.so.0", *foreign}
    assert lacking == []


def test_what_is_somebody_elses_stays(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "build" / variants(repository)[0].name
    other.mkdir(parents=True)
    (other / "metadata.json").write_text('{"name": "other"}')
    with pytest.raises(FileExistsError, match="it stays as it is"):
        _folder.write(tmp_path, here_only=True)
    assert sorted(path.name for path in other.iterdir()) == ["metadata.json"]


@pytest.fixture(scope="module")
def outcomes(repository: Path) -> dict[str, Any]:
    """What hub_process.py found, in a process without weft."""
    script = Path(__file__).parent / "hub_process.py"
    done = run(
        script, repository, HF_HUB_OFFLINE="1", LOCAL_KERNELS=f"ORG/weft={repository}", WEFT_OPENBLAS="none"
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def of(outcomes: dict[str, Any], part: str) -> dict[str, Any]:
    found: dict[str, Any] = outcomes[part]
    assert "raised" not in found, found["raised"]
    return found


def test_the_folder_brings_the_package_and_the_library_along(
    outcomes: dict[str, Any], repository: Path
) -> None:
    found = of(outcomes, "carried")
    assert found["computes"]
    for path in (found["package"], *found["libraries"]):
        assert Path(path).is_relative_to(repository / "build")
    assert found["module"].startswith("_weft_cpu_")


@pytest.mark.parametrize("model, norms", [("llama", 5), ("qwen3", 9), ("by_name", 5)])
def test_kernelized_models_call_weft_for_every_layer(
    outcomes: dict[str, Any], model: str, norms: int
) -> None:
    found = of(outcomes, model)
    assert found["calls"] == {"rms_norm": norms, "qk_norm_rope": 2, "activation": 2}
    assert found.get("error", 0) < 1e-5
    assert found.get("same module", True)


def test_kernelized_models_compile_whole(outcomes: dict[str, Any]) -> None:
    found = of(outcomes, "compiled")
    calls = {name.removesuffix("_out"): count for name, count in found["calls"].items()}
    assert calls == {"rms_norm": 5, "qk_norm_rope": 2, "activation": 2}
    assert found["error"] < 1e-5


def test_rotary_functions_of_one_name_are_told_apart(outcomes: dict[str, Any]) -> None:
    found = of(outcomes, "rotary")
    for name in ("turn", "turn_of_halves"):
        assert found[f"{name} 1"] is True and found[f"{name} 2"] is True
    assert "can't stand in for this model's" in found["mirror 1"]


def test_attention_by_the_repositorys_name(outcomes: dict[str, Any]) -> None:
    found = of(outcomes, "attention")
    assert found["words"]
    assert found["error"] < 1e-5


def test_norms_are_read_from_the_module(outcomes: dict[str, Any]) -> None:
    found = of(outcomes, "norms")
    refused = found.pop("nn.LayerNorm")
    assert refused == "weft's RMSNorm can't stand in for LayerNorm: it is a layer norm"
    assert found and all(outcome is True for outcome in found.values()), found


def test_activations_compute_what_their_names_say(outcomes: dict[str, Any]) -> None:
    wrong = [name for name, right in of(outcomes, "activations").items() if not right]
    assert not wrong


def test_a_process_has_one_weft(repository: Path) -> None:
    """The one that is there serves a kernel of the same ops; one of other ops is named instead of mixed in."""
    build = variants(repository)[0]
    lines = (
        "import pathlib, weft",
        "from kernels import get_local_kernel",
        f"print(get_local_kernel(pathlib.Path({str(repository)!r})).rms_norm is weft.rms_norm)",
        "weft._library.function = lambda name: lambda: 'other ops'",
        f"get_local_kernel(pathlib.Path({str(build)!r}) / '..' / {build.name!r})",
    )
    done = run("-c", "\n".join(lines), PYTHONPATH=PYTHON_PATH, WEFT_LIBRARY=os.environ["WEFT_LIBRARY"])
    assert done.stdout == "True\n", done.stderr
    assert "whose ops are not those of" in done.stderr
    assert str(ROOT / "python") in done.stderr
