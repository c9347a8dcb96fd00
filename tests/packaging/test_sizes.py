"""scripts/sizes: what is too long fails, unless a waiver says why, and a waiver that is not needed fails too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.paths import script

KERNEL = "__global__ void {name}(int* out) {{\n{body}}}\n"
DEVICE = "__device__ __forceinline__ int {name}(int a) {{\n{body}}}\n"
HOST = "int {name}(int a) {{\n{body}}}\n"
PYTHON = "def {name}():\n{body}"


def of_lines(form: str, lines: int) -> str:
    """A function that has so many lines, those of its braces too."""
    statement = "    pass\n" if form == PYTHON else "    use(a);\n"
    return form.format(name="long", body=statement * (lines - (1 if form == PYTHON else 2)))


def of_file(lines: int) -> str:
    return "int a = 0;\n" * lines


def write_kernels(tree: Path, count: int) -> None:
    """Short ones: nineteen of twenty kernels have to be, waivers or not."""
    (tree / "src/short.cu").write_text("".join(KERNEL.format(name=f"k{i}", body="") for i in range(count)))


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("src", "ops/rope", "scripts", ".ci"):
        (tmp_path / folder).mkdir(parents=True)
    for path in ("weft", ".ci/run", "scripts/sizes.waivers"):
        (tmp_path / path).write_text("")
    write_kernels(tmp_path, 40)
    return tmp_path


def main(tree: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    sizes = script("sizes")
    monkeypatch.setattr(sizes, "ROOT", tree)
    status: int = sizes.main()
    return status


@pytest.mark.parametrize(
    "case",
    [
        ("src/a.cu", KERNEL, 120, "src/a.cu:long: kernel of 121 lines, at most 120 (too long)"),
        ("src/a.cuh", DEVICE, 120, "src/a.cuh:long: device function of 121 lines, at most 120 (too long)"),
        ("src/a.cpp", HOST, 60, "src/a.cpp:long: function of 61 lines, at most 60 (too long)"),
        ("src/a.py", PYTHON, 60, "src/a.py:long: function of 61 lines, at most 60 (too long)"),
        ("src/a.h", "", 400, "src/a.h: file of 401 lines, at most 400 (too long)"),
        ("ops/rope/reference.cpp", "", 80, "ops/rope/reference.cpp: reference of 81 lines, at most 80"),
    ],
)
def test_what_is_too_long_fails_without_a_waiver(
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: tuple[str, str, int, str],
) -> None:
    path, form, most, said = case

    def write(lines: int) -> None:
        (tree / path).write_text(of_lines(form, lines) if form else of_file(lines))

    write(most)
    assert main(tree, monkeypatch) == 0
    write(most + 1)
    assert main(tree, monkeypatch) == 1
    assert said in capsys.readouterr().out


def test_a_waiver_has_a_reason_and_is_needed(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "src/a.cpp").write_text(of_lines(HOST, 61))
    waivers = tree / "scripts/sizes.waivers"
    waivers.write_text("# said why\nsrc/a.cpp:long it is a table\n")
    assert main(tree, monkeypatch) == 0
    assert "(waived: it is a table)" in capsys.readouterr().out
    waivers.write_text("src/a.cpp:long\n")
    assert main(tree, monkeypatch) == 1
    waivers.write_text("src/a.cpp:long it is a table\nsrc/b.cpp it was long\n")
    assert main(tree, monkeypatch) == 1
    assert "src/b.cpp: the waiver is not needed" in capsys.readouterr().out


def test_most_kernels_are_short_whatever_is_waived(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "src/a.cu").write_text(of_lines(KERNEL, 121))
    (tree / "scripts/sizes.waivers").write_text("src/a.cu:long it is a table\n")
    for count, status in ((18, 1), (19, 0)):
        write_kernels(tree, count)
        assert main(tree, monkeypatch) == status
