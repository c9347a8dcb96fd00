"""task.toml, read: what each of its words means, and what is said of a wrong one, word by word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from weft.task import lock
from weft.task.outcome import Outcome, Refusal, Usage
from weft.task.spec import Field, Row, Task, Tolerance, evaluate, load

TOML = """
[task]
name = "mod"

[spec]
reference = "reference.py:mod"
inputs = [
    { name = "x", dtype = "T", shape = "S 2*D" },
    { name = "state", dtype = "fp32", shape = "D", updated = true, fill = "uniform", low = -1, high = "S" },
]
outputs = [{ name = "out", dtype = "T", shape = "S D" }, { name = "count", dtype = "int32", shape = "" }]
options = { eps = 1e-6, mode = "a" }

[tolerance]
out = { atol = 0.5, rtol = 0.25 }
state = { exact = true }
count = {}

[[workloads]]
name = "first"
S = 4
D = 8
T = "bf16"
source = "a model"

[[workloads]]
name = "second"
S = 3
D = 5
T = "fp32"
eps = 0.5

[grid]
S = [1, 2]
T = ["fp16", "fp8_e4m3"]

[baseline]
language = "torch"
entry = "baseline/entry.py:run"

[candidates.fast]
language = "cuda"
entry = "solution/kernel.cu:go"
flags = ["-O3"]
includes = ["i"]
compiled = true
"""


def written(folder: Path, text: str = TOML) -> Path:
    (folder / "task.toml").write_text(text)
    return folder


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load(written(tmp_path))


def test_what_is_read(task: Task, tmp_path: Path) -> None:
    first, second = task.rows
    assert (task.name, task.device, task.arch, task.flags) == ("mod", "cuda", "sm_90a", ())
    assert task.inputs == [
        Field("x", "T", ("S", "2*D")),
        Field("state", "fp32", ("D",), "uniform", "-1", "S", True),
    ]
    assert task.outputs == [Field("out", "T", ("S", "D")), Field("count", "int32", ())]
    assert [f.name for f in task.written] == ["state", "out", "count"]
    assert first == Row("first", {"S": 4, "D": 8, "T": "bf16"}, "a model") and second.source == ""
    assert task.timing == {"rounds": 15, "replay_us": 2000, "eager": True}
    assert task.options == {"eps": 1e-6, "mode": "a"}
    assert task.option_values(second) == {"eps": 0.5, "mode": "a"}
    assert task.line(first) == "mod x=bf16[4,16] state=fp32[8] out=bf16[4,8] count=int32[] eps=1e-06 mode=a"
    assert task.line(second) == "mod x=fp32[3,10] state=fp32[5] out=fp32[3,5] count=int32[] eps=0.5 mode=a"
    assert task.tolerance("out") == Tolerance(0.5, 0.25) and task.tolerance("state").exact
    assert [task.tolerance(name).text() for name in ("out", "state", "count")] == [
        "atol 0.5, rtol 0.25",
        "bit for bit",
        "atol 0, rtol 0",
    ]
    assert [(row.name, dict(row.values)) for row in task.grid()] == [
        (f"grid S={s} T={t}", {"S": s, "D": 8, "T": t}) for s in (1, 2) for t in ("fp16", "fp8_e4m3")
    ]
    assert task.evidence == tmp_path / "bench" / "evidence.jsonl"
    assert task.work(first) == (2 * 64 + 2 * 4 * 8 + 2 * 32 + 4, 0.0, "fp32"), "what is updated moves twice"
    fast = task.candidates["fast"]
    assert (fast.name, fast.language, fast.function, fast.compiled) == ("fast", "cuda", "go", True)
    assert (fast.path, fast.flags, fast.includes) == (tmp_path / "solution/kernel.cu", ("-O3",), ("i",))
    assert task.baseline.path == tmp_path / "baseline/entry.py" and not task.baseline.compiled


def test_work_may_be_given(tmp_path: Path) -> None:
    given = 'work = { bytes = "2*S", flops = "S*D", math = "bf16" }\noptions'
    task = load(written(tmp_path, TOML.replace("options", given, 1)))
    assert task.work(task.rows[0]) == (8.0, 32.0, "bf16")


@pytest.mark.parametrize(
    ("language", "compiled", "launcher"),
    [
        ("cuda", False, "tvm-ffi"),
        ("kit", False, "tvm-ffi"),
        ("triton", False, "Triton's launcher"),
        ("cute", False, "CuTe's launcher"),
        ("weft", False, "torch.ops.weft"),
        ("torch", False, "PyTorch"),
        ("torch", True, "torch.compile"),
        ("python", False, "Python"),
    ],
)
def test_launchers(tmp_path: Path, language: str, compiled: bool, launcher: str) -> None:
    text = TOML.replace('language = "torch"', f'language = "{language}"\ncompiled = {str(compiled).lower()}')
    assert load(written(tmp_path, text)).baseline.launcher == launcher


NAMES = {"S": 4, "D": 8, "T": "bf16"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("S", 4), (" 2*D ", 16), ("S+D-1", 11), ("D//3", 2), ("S/8", 0.5), ("D%3", 2), ("3", 3), ("'a'", "a"),
        ("S<4", False), ("S<=4", True), ("S>4", False), ("S>=4", True), ("S==4", True), ("S!=4", False),
        ("1<S<5", True), ("1<S<4", False), ("5<S<9", False), ("S==4 and D==8", True), ("S==4 and D==9", False),
        ("S==5 or D==8", True), ("S==5 or D==9", False), ("not S==5", True), ("T=='bf16'", True), ("(S+1)*2", 10),
        ("-S", -4), ("D - -1", 9),
    ],
)  # fmt: skip
def test_expressions(text: str, value: object) -> None:
    assert evaluate(text, NAMES) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("K+1", "'K+1': there is no K in the row (it has S, D, T)"),
        ("S**2", "'S**2': expected arithmetic and comparisons of the row's names"),
        ("+S", "'+S': expected arithmetic and comparisons of the row's names"),
        ("f(S)", "'f(S)': expected arithmetic and comparisons of the row's names"),
        ("S+", "'S+' is no expression"),
    ],
)
def test_what_is_said_of_expressions(text: str, said: str) -> None:
    with pytest.raises(Usage) as raised:
        evaluate(text, NAMES)
    assert str(raised.value) == said


SIDE = "compiled, entry, flags, includes, language"
SPEC = "deterministic, independent, inputs, options, outputs, precision, reference, work"
HAS = "it has name, dtype, shape; fill, low, high, updated"
LANGUAGES = "expected one of cuda, kit, triton, cute, torch, weft, python"
DTYPES = "fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8, uint8, int32, int64"


def strange(section: str, word: str, known: str) -> str:
    return f"task.toml: [{section}] has {word}, which nobody reads (it may have {known})"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('[task]\nname = "mod"', "", "{path} has no [task]"),
        ("[spec]", "[spce]", "{path} has no [spec]"),
        ("[grid]", "[gird]", "task.toml has [gird], which nobody reads"),
        ('name = "mod"', 'name = "mod"\nzone = 1', strange("task", "zone", "about, arch, device, name")),
        (
            "[tolerance]",
            "[timing]\nround = 1\n[tolerance]",
            strange("timing", "round", "eager, replay_us, rounds"),
        ),
        ("[tolerance]", "[card]\nmib = 1\n[tolerance]", strange("card", "mib", "memory_mib, wait_s")),
        (
            "[tolerance]",
            "[verify]\nseed = 1\n[tolerance]",
            strange("verify", "seed", "emulator_bytes, special"),
        ),
        ("[tolerance]", "[chain]\nexact = 1\n[tolerance]", strange("chain", "exact", "atol, rtol")),
        ("[tolerance]", "[build]\nflag = 1\n[tolerance]", strange("build", "flag", "flags")),
        ('entry = "baseline/entry.py:run"', 'entry = "b:run"\nfile = "b"', strange("baseline", "file", SIDE)),
        ('entry = "solution/kernel.cu:go"', 'entry = "b:run"\nfile = "b"', strange("fast", "file", SIDE)),
        ("options", "option", strange("spec", "option", SPEC)),
        ('name = "mod"', 'about = "mod"', "{path}: [task] has no name"),
        ('name = "second"', "", "{path}: every [[workloads]] has a name"),
        ('name = "second"', 'name = "first"', "{path}: two workload rows have one name"),
        ("[grid]", '[[dispatch]]\nbucket = "a"\n[grid]', "{path}: a [[dispatch]] has bucket and when"),
        ("[task]", "[task", "{path}: Expected ']' at the end of a table declaration (at line 2, column 6)"),
        (
            'dtype = "T", shape = "S 2*D" }',
            'dtype = "T" }',
            "an operand of task.toml is {{'name': 'x', 'dtype': 'T'}}: " + HAS,
        ),
        (
            'shape = "S 2*D" }',
            'shape = "S", size = 1 }',
            "an operand of task.toml is {{'name': 'x', 'dtype': 'T', 'shape': 'S', 'size': 1}}: " + HAS,
        ),
        ('fill = "uniform"', 'fill = "ones"', "state: fill is 'ones', expected one of normal, uniform"),
        ('language = "torch"', 'language = "cpp"', "baseline: language is 'cpp', " + LANGUAGES),
        ('language = "cuda"', 'language = "cpp"', "fast: language is 'cpp', " + LANGUAGES),
        ('"solution/kernel.cu:go"', '"kernel.cu"', "fast: entry is 'kernel.cu', expected FILE:FUNCTION"),
        ('"solution/kernel.cu:go"', '":go"', "fast: entry is ':go', expected FILE:FUNCTION"),
        ("count = {}", "", "task.toml: [tolerance] says nothing of count"),
        (
            "count = {}",
            "count = 3",
            "task.toml: the tolerance of count is 3; it has atol and rtol, or exact = true",
        ),
        (
            "count = {}",
            "count = { abs = 3 }",
            "task.toml: the tolerance of count is {{'abs': 3}}; it has atol and rtol, or exact = true",
        ),
        ("S = 4", "S = 0", "x of row 'first' has the shape [0, 16]"),
        ('T = "bf16"', 'T = "bf17"', f"x of row 'first': there is no dtype bf17 (there are {DTYPES})"),
        ("D = 5", "K = 5", "'2*D': there is no D in the row (it has S, K, T, eps)"),
    ],
)
def test_what_is_said_of_a_wrong_word(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in TOML
    with pytest.raises(Usage) as raised:
        loaded = load(written(tmp_path, TOML.replace(old, new, 1)))
        assert loaded.baseline
    assert str(raised.value) == said.format(path=tmp_path / "task.toml")


def test_what_is_said_of_a_task_without_parts(tmp_path: Path) -> None:
    with pytest.raises(Usage) as raised:
        load(tmp_path)
    assert str(raised.value) == f"{tmp_path} is no task: it has no task.toml (weft task new NAME makes one)"
    begin, end = TOML.index("[[workloads]]"), TOML.index("[grid]")
    with pytest.raises(Usage) as raised:
        load(written(tmp_path, TOML[:begin] + TOML[end:]))
    assert str(raised.value) == f"{tmp_path / 'task.toml'} has no [workloads]"
    with pytest.raises(Usage, match=r"every \[\[workloads\]\] has a name$"):
        load(written(tmp_path, TOML[:begin] + '[workloads]\nname = "a"\n' + TOML[end:]))
    small = TOML[: TOML.index("[grid]")]
    task = load(written(tmp_path, small))
    assert list(task.grid()) == [] and task.candidates == {}
    with pytest.raises(Usage, match=r"^task\.toml has no \[baseline\]: its language and its entry$"):
        _ = task.baseline
    begin, end = small.index("outputs"), small.index("options")
    nothing = small[:begin] + small[end:].replace("updated = true", "updated = false")
    with pytest.raises(Usage, match=r"task\.toml: the spec has no output$"):
        load(written(tmp_path, nothing.replace(", updated = true", "")))


def test_which_candidate(tmp_path: Path) -> None:
    def of(names: list[str], name: str = "") -> Any:
        small = TOML[: TOML.index("[candidates.fast]")]
        sides = [f'[candidates.{n}]\nlanguage = "python"\nentry = "s.py:run"\n' for n in names]
        return load(written(tmp_path, small + "".join(sides))).candidate(name)

    assert of(["a"]).name == "a" and of(["a", "b"], "b").name == "b"
    assert of(["a", "dispatch", "b"]).name == "dispatch" and of(["a", "dispatch"], "a").name == "a"
    for names, name, said in (
        (["a", "b"], "", "say which candidate: --candidate a|b"),
        (["a", "b"], "c", "there is no candidate 'c'; task.toml has a, b"),
        ([], "", "there is no candidate ''; task.toml has none"),
    ):
        with pytest.raises(Usage) as raised:
            of(names, name)
        assert str(raised.value) == said


def test_a_lock_by_hand(task: Task) -> None:
    """What it freezes, what it tells, and what it says of what moved."""
    (task.folder / "reference.py").write_text("def mod(): ...\n")
    with pytest.raises(Refusal) as raised:
        lock.current(task)
    assert str(raised.value) == "nothing is locked yet: run `weft task lock` before anything is measured"
    outcome = Outcome("lock")
    lock.lock(task, outcome, "")
    made = lock.read(task)
    names = ["spec", "reference", "workloads", "grid", "tolerance", "timing", "flags"]
    assert list(made["sections"]) == names and made["history"] == [] and len(made["lock"]) == 12
    assert outcome.checked == [f"{name} is frozen ({made['sections'][name]})" for name in names]
    assert (
        outcome.notes == [] and outcome.data == {"lock": made["lock"]} and lock.current(task) == made["lock"]
    )
    again = Outcome("lock")
    lock.lock(task, again, "")
    assert again.checked == [f"nothing moved since the lock {made['lock']}"] and lock.read(task) == made
    moved = {
        "spec": ("eps = 1e-6", "eps = 1e-5"), "workloads": ("S = 4", "S = 5"), "grid": ("S = [1, 2]", "S = [1]"),
        "tolerance": ("atol = 0.5", "atol = 0.25"), "timing": ('name = "mod"', 'name = "mod"\ndevice = "cpu"'),
        "flags": ('flags = ["-O3"]', 'flags = ["-O2"]'),
    }  # fmt: skip
    for section, (old, new) in moved.items():
        with pytest.raises(Refusal) as raised:
            lock.current(load(written(task.folder, TOML.replace(old, new, 1))))
        assert str(raised.value) == (
            f"{section} changed since the lock {made['lock']} of {made['date']}: put it back, or `weft task lock "
            "--reason WHY` and measure both sides again"
        )
    (task.folder / "reference.py").write_text("def mod(): pass\n")
    other = load(written(task.folder, TOML.replace("S = 4", "S = 5", 1)))
    with pytest.raises(Refusal) as raised:
        lock.lock(other, Outcome("lock"), "")
    assert str(raised.value) == (
        f"reference, workloads changed since the lock {made['lock']}: a new lock needs --reason WHY, since every row "
        "so far is then of another lock"
    )
    outcome = Outcome("lock")
    lock.lock(other, outcome, "a better row")
    assert lock.read(other)["history"] == [
        {"lock": made["lock"], "date": made["date"], "left": "a better row"}
    ]
    assert outcome.notes == [f"Rows of {made['lock']} are of another lock now: measure both sides again."]
    assert lock.current(other) != made["lock"]
    lock.lock(task, Outcome("lock"), "back")
    assert [entry["left"] for entry in lock.read(task)["history"]] == ["a better row", "back"]
