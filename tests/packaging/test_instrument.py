"""Instrumented copies: where probes and mutants go, that no mutant acts until it is chosen, and what each does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from instrument import measure, record
from instrument.build import Failure, with_objects
from instrument.copy import Place, rewrite
from instrument.measure import FALSE, TRUE, Mutant, mutants, outcomes
from instrument.rules import Finder

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

constexpr int kWidth = 4 * 2;
template <int N>
struct Box {
    int held[N + 1] = {};
    static constexpr int kSize = N + 1;
};

template <int A, int B>
bool between(int x) {
    return A < x && x < B;
}
template <class... T>
bool all(T... given) {
    return (... && given) || (given || ...);
}

void wait_for_all(int& waited) { waited = 1; }
int distance(int from, int to) { return from - to; }
float round_down(float x) { return static_cast<float>(static_cast<int>(x)); }

int main(int count, char** words) {
    const int n = count > 1 ? std::atoi(words[1]) : 3;
    Box<kWidth + 1> box;
    if (count == 4) {
        if (fork() == 0) {
            box.held[0] = 1;
            std::abort();
        }
        wait(nullptr);
    }
    int sum = 0, waited = 0;
    for (int i = 0; i < n; ++i) {
        if (i == 1 && n != 2) continue;
        sum += i * 10;
        box.held[i % kWidth] = sum;
    }
    if constexpr (sizeof(int) == 8) {
        sum = 0;
    }
    for (int i = 0; i < static_cast<int>(sizeof(n) / 8); ++i) sum = 0;
    wait_for_all(waited);
    const auto half = [&](float x) { return round_down(x) / 2.0f; };
    const int from = 7, to = 2;
    if (n > 5 && between<5, 7>(n) && all(n, from)) sum = n > 6 ? between<5, 7>(n) : all(true);
    const std::int64_t far = static_cast<std::int64_t>(count > 2 ? 5e9 : 5e6);
    const int small = std::min(n, 2);
    std::printf("%d %d %d %g %d %d\\n", sum, waited, distance(from, to), half(5.5f), small, int(far / 1000000));
}
"""
ORIGINAL = "20 1 5 2.5 2 5"


class Program:
    """The program, instrumented and compiled once."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.places = [Place(i + 1, "program.cpp", site) for i, site in enumerate(Finder(PROGRAM).sites())]
        self.text, _ = rewrite(PROGRAM, self.places)
        source = folder / "program.cpp"
        source.write_text(self.text)
        command = [
            "g++",
            "-std=c++20",
            "-O1",
            "-w",
            "-Wno-narrowing",
            f"-I{ROOT / 'src'}",
            "-include",
            "sites/sites.h",
            *flags,
        ]
        sources = [str(source), str(ROOT / "src/sites/reached.cpp")]
        done = subprocess.run(
            [*command, *sources, "-o", str(folder / "program")], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def run(self, mutant: Mutant | None = None, *words: str) -> str:
        environment = {**os.environ, "WEFT_REACHED": str(self.folder / "marks")}
        (self.folder / "marks").unlink(missing_ok=True)
        if mutant is not None:
            environment["WEFT_MUTANT"] = str(mutant.number)
        command = [str(self.folder / "program"), *words]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        ).stdout.strip()

    def marks(self) -> bytes:
        return (self.folder / "marks").read_bytes()

    def mutant(self, rule: str, line: str) -> Mutant:
        found = [m for m in mutants(self.places) if m.rule.startswith(rule) and line in m.place.site.text]
        assert found, f"no mutant '{rule}' in '{line}'"
        return found[0]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(tmp_path_factory.mktemp("program"))


def test_nothing_changes_until_a_mutant_is_chosen(program: Program) -> None:
    assert program.run() == ORIGINAL
    assert program.text.count("\n") == PROGRAM.count("\n"), "lines keep their numbers"


@pytest.mark.parametrize(
    ("rule", "line", "printed"),
    [
        ("a comparison: < for <=", "i < n", "50 1 5 2.5 2 5"),
        ("a comparison: == for !=", "i == 1", "10 1 5 2.5 2 5"),
        ("a condition that always holds", "i == 1", "0 1 5 2.5 2 5"),
        ("a condition that never holds", "i == 1", "30 1 5 2.5 2 5"),
        ("an operator: * for +", "sum += i * 10", "22 1 5 2.5 2 5"),
        ("a constant off by one", "sum += i * 10", "22 1 5 2.5 2 5"),
        ("a constant off by a percent", "2.0f", "20 1 5 2.47525 2 5"),
        ("a statement left out", "sum += i * 10", "0 1 5 2.5 2 5"),
        ("a lost synchronisation", "wait_for_all(waited);", "20 0 5 2.5 2 5"),
        ("two arguments that change places", "distance(from, to)", "20 1 -5 2.5 2 5"),
        ("min for the other", "std::min(n, 2)", "20 1 5 2.5 3 5"),
        ("a rounding left out", "round_down(x)", "20 1 5 2.75 2 5"),
    ],
)
def test_each_rule_changes_what_it_says(program: Program, rule: str, line: str, printed: str) -> None:
    assert program.run(program.mutant(rule, line)) == printed


def test_commas_of_template_arguments_end_no_condition(program: Program) -> None:
    inner = program.mutant("a condition that never holds", "if (n > 5 && between<5, 7>(n)")
    assert program.run(None, "6").split()[0] == "1"
    assert program.run(inner, "6").split()[0] == "140"


def test_a_narrowed_index_shows_beyond_31_bits(program: Program) -> None:
    narrowed = program.mutant("a narrowed index", "static_cast<std::int64_t>")
    assert program.run(narrowed) == ORIGINAL
    assert program.run(None, "3", "far").split()[-1] == "5000"
    assert program.run(narrowed, "3", "far").split()[-1] != "5000"


def test_constants_have_no_mutants(program: Program) -> None:
    for text in ("constexpr int kWidth", "static constexpr int kSize", "if constexpr", "Box<kWidth + 1>"):
        assert not [m.text() for m in mutants(program.places) if text in m.place.site.text]


def test_what_cases_draw_and_what_only_hastens_have_no_mutants() -> None:
    source = """const C& contract() {
    static const C c = Describe().option("a", &Op::a, 0, 1 << 20, "what it is", {1, 2, 300}).sizes("rows", {7, 9});
    const int last = first + 8 < count ? first + 8 : count, other = first < count ? first : 9;
    kit::dependents_launch();
    kit::dependency_wait();
    const float least = fminf(x, y), product = multiplied(x, y) * 0.0f;
}
"""
    found = mutants(Place(i + 1, "op.h", site) for i, site in enumerate(Finder(source).sites()))
    lines = {mutant.place.site.text for mutant in found}
    assert "kit::dependency_wait();" in lines
    assert "kit::dependents_launch();" not in lines
    assert not [text for text in lines if "Describe" in text]
    rules = [mutant.rule for mutant in found]
    assert len([rule for rule in rules if rule.startswith("a comparison")]) == 1, "the other"
    assert rules.count("two arguments that change places") == 1, "the other"
    assert "a constant off by a percent" not in rules


def test_marks_say_what_was_reached(program: Program) -> None:
    def missing(*words: str) -> set[tuple[str, int]]:
        program.run(None, *words)
        marks = program.marks()
        return {(at.place.site.text, at.bit) for place in program.places for at in outcomes(place)
                if not marks[place.id] & at.bit}  # fmt: skip

    once = "if (i == 1 && n != 2) continue;"
    assert (once, TRUE) not in missing()
    assert (once, TRUE) in missing("1")
    loop = "for (int i = 0; i < n; ++i) {"
    assert (loop, TRUE) in missing("0")
    assert (loop, FALSE) not in missing("0")


# A death test's child ends before its parent, and not as a process should.
def test_marks_of_a_child_that_dies_are_there(program: Program) -> None:
    block, last = ({place.id for place in program.places if line in place.site.text}
                   for line in ("box.held[0] = 1;", "return round_down(x)"))  # fmt: skip
    assert block and last
    assert program.run() == ORIGINAL
    assert not any(program.marks()[number] for number in block)
    assert program.run(None, "3", "a", "child") == ORIGINAL + "000"
    assert all(program.marks()[number] for number in block | last)


# A test that leaves no mark would be given no mutant: in build/tsan nothing would be found.
def test_marks_are_the_same_under_thread_sanitizer(program: Program, tmp_path: Path) -> None:
    watched = Program(tmp_path, "-fsanitize=thread")
    assert watched.run() == program.run() == ORIGINAL
    assert watched.marks() == program.marks()
    assert any(program.marks())


def test_what_does_not_compile_is_found_by_its_column() -> None:
    text = "int f(int a) {\n    return a + 1;\n}\n"
    places = [Place(i + 1, "f.cpp", site) for i, site in enumerate(Finder(text).sites())]
    changed, columns = rewrite(text, places)
    line = changed.split("\n")[1]
    literal = next(place for place in places if place.site.kind == "literal")
    spans = {number: (first, last) for first, last, number in columns[2]}
    first, last = spans[literal.id]
    assert line[first - 1 : last - 1] in {f"weft::sites::literal<{literal.id}>(", ")"}


def test_a_reason_that_names_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    (tmp_path / "equivalent.csv").write_text(
        "file,what,line,reason\nops/a/a.cu,a comparison: < for <=,if (x < y) {,the same\nops/a/a.cu,*,gone();,why\n"
    )
    source = "int f(int x, int y) {\n    if (x < y) {\n        return 1;\n    }\n    return 0;\n}\n"
    place = next(Place(1, "ops/a/a.cu", site) for site in Finder(source).sites() if site.kind == "operator")
    reasons = record.equivalent()
    assert reasons.of(Mutant(place, 0)) == "the same"
    assert reasons.unused("ops/a/") == ["ops/a/a.cu: *: gone();"]


def test_survivors_are_kept_by_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    (tmp_path / "survivors.csv").write_text("file,what,line\nops/a/a.cu,w,x = 1;\nops/b/b.cu,w,y = 1;\n")
    sites = Finder("void f() {\n    x = z;\n}\n").sites()
    left = mutants(Place(1, "ops/a/a.cu", site) for site in sites)[0]
    record.survivors().write("a", [left])
    now = record.survivors()
    assert now.knows(left)
    assert now.keys == {("ops/b/b.cu", "w", "y = 1;"), record.key_of(left)}


def test_a_row_is_complete_when_all_its_mutants_were_tried() -> None:
    assert not record.Row("a").is_complete()
    assert not record.Row("a", mutants=9, tried=5).is_complete()
    row = record.Row("a", mutants=9, tried=9, found=7, equivalent=2)
    assert row.is_complete()
    assert row.score() == "100.0 %"


def test_the_page_shows_what_is_recorded() -> None:
    page = record.PAGE.read_text()
    assert page == record.rendered(page), "render it again: scripts/coverage --docs"


def test_a_build_that_is_missing_is_said() -> None:
    from instrument.build import Build  # noqa: PLC0415

    with pytest.raises(Failure, match=r"\./weft build nowhere"):
        Build(ROOT / "build" / "nowhere")


def test_variants_are_numbered_as_the_header_numbers_them() -> None:
    header = (ROOT / "src/sites/reached.h").read_text()
    assert f"kVariants = {measure.VARIANTS};" in header


def test_instrumented_objects_are_linked_first() -> None:
    """Of an inline function that several objects have the linker takes the first copy, wherever -o stands."""
    replaced = {"b.dir/x.cpp.o": Path("/copy/x.o"), "b.dir/z.cpp.o": Path("/copy/z.o")}
    for command in (
        "c++ -O2 a.o b.dir/x.cpp.o y.o b.dir/z.cpp.o -o app -lm",
        "c++ -o app a.o b.dir/x.cpp.o y.o b.dir/z.cpp.o ",
    ):
        words = str(with_objects(command, "app", replaced, Path("/copy/app"))).split()
        assert [word for word in words if word.endswith(".o")] == ["/copy/x.o", "/copy/z.o", "a.o", "y.o"]
        assert words[words.index("-o") + 1] == "/copy/app"
    assert with_objects("ar qc lib.a a.o ", "app", replaced, Path("/copy/app")) is None
