"""Every page of a report, whole: what is rendered from a little evidence that has a row of each kind.

The expected pages are in tests/bench/expected/. WEFT_RECORD_PAGES=1 writes them anew; what changed is then to be read.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from plotly.offline import get_plotlyjs
from weft.report import climbs, html, markdown, models, sample
from weft.report.compare import comparisons, summary_text
from weft.report.rows import add_rows, read
from weft.report.svg import Picture

from tests.bench import made_up
from tests.paths import ROOT

EXPECTED = Path(__file__).with_name("expected")
NORM = "rms_norm x=bf16[4,64] weight=bf16[64] out=bf16[4,64]"
OTHER = made_up.ENVIRONMENT | {"env": "e2", "dirty": True, "libraries": {"weft": "0.1.0"}}
TIMES = [(time, cache) for time in ("device", "eager") for cache in ("cold", "hot")]


def held(name: str, text: str) -> None:
    path = EXPECTED / name
    if os.environ.get("WEFT_RECORD_PAGES"):
        path.write_text(text)
    assert text == path.read_text()


def timed(case: str, name: str, side: str, *times: float | None, **changes: Any) -> list[made_up.Row]:
    """A row for each of the times, of the kinds in TIMES from the first on."""
    rows = []
    for us, (time, cache) in zip(times, TIMES, strict=False):
        rows.append(made_up.row(case, name, side, us, **{"time": time, "cache": cache, **changes}))
    return rows


def norms() -> list[made_up.Row]:
    """A win, a level case of a workload's row, a loss, a result that is wrong, one without any rival, one with the
    card's own times, and one that takes long and has no floor."""
    several = ["gemm a=bf16[8,16] b=bf16[8,16]", "gemm a=fp8_e4m3[8,16] b=fp8_e4m3[8,16] activation=silu"]
    return [
        *timed(NORM, "rows lanes=32", "weft", 2.0, 1.5, 30.0, 29.0, checked_on="8 parts"),
        *timed(NORM, "torch 2.11.0 eager", "baseline", 5.0, rounds_between=True),
        *timed(NORM, "quack|0.6", "baseline", 4.0, weft_speedup={"ratio": 2.0, "low": 1.9, "high": 2.1}),
        *timed(NORM, "liger 0.8.5", "baseline", None),
        *timed(NORM, "card copy", "baseline", 1.25),
        *timed(NORM, "quack|0.6", "noise", 4.0),
        *timed(several[0], "fma", "weft", 2.0, workload="gemm/row"),
        *timed(several[0], "torch 2.11.0 eager", "baseline", 2.01, workload="gemm/row"),
        *timed(several[1], "fma", "weft", 2.0, workload="gemm/row"),
        *timed(several[1], "torch 2.11.0 eager", "baseline", 1.0, workload="gemm/row"),
        *timed("softmax x=bf16[1,64]", "rows", "weft", None),
        *timed("softmax x=bf16[1,64]", "torch 2.11.0 eager", "baseline", 3.0),
        *timed("softmax x=bf16[2,64]", "rows", "weft", 3.0),
        *timed("softmax x=bf16[3,64]", "rows", "weft", 3.0),
        *timed("softmax x=bf16[3,64]", "card copy", "baseline", 2.0),
        *timed("softmax x=bf16[3,64]", "card read", "baseline", 1.0),
        *timed("softmax x=bf16[3,64]", "card launch", "baseline", 0.5),
        *timed("softmax x=bf16[4,64]", "rows", "weft", 1234.5, floor_us=0.0, env="e2", run="r2"),
    ]


def drawn() -> list[made_up.Row]:
    rows = []
    for number in range(1, 12):
        case = f"softmax x=bf16[{number},{1000 + number % 2}] out=@x"
        seed, size = 3 + number % 2, 10.0 ** (number % 6 + 4)
        common = {"seed": seed, "bytes": size, "floor_us": number / 2}
        rows += timed(case, "rows|wide lanes=32", "weft", float(number), **common)
        rows += timed(case, "torch.compile 2.11.0 default", "baseline", 0.4 * number + 1, **common)
    return [*rows, *timed("amax x=bf16[8,64] amax=fp32[1]", "vectors", "weft", 2.0, seed=3)]


def steps() -> list[made_up.Row]:
    """A step of a model whose graph wins, one whose result is wrong, one without a rival."""
    big, small, alone = "llama layers=2/32 tokens=1", "vit layers=1/12 tokens=9", "flux tokens=4"
    return [
        *timed(big, "weft, eager|bf16", "weft", 3000.0, error=0.00123),
        *timed(big, "weft, graph", "weft", 2000.0, error=0.00123),
        *timed(big, "transformers 4.57, eager", "baseline", 4000.0, error=0.002),
        *timed(small, "weft, eager", "weft", None),
        *timed(small, "transformers 4.57, eager", "baseline", 100.0, error=0.002),
        *timed(small, "torch.compile", "baseline", None),
        *timed(alone, "weft, eager", "weft", 500.0, error=0.5),
        *timed(alone + " again", "weft, eager", "weft", 500.0, error=0.5),
        *timed(alone + " again", "diffusers", "baseline", 501.0, error=0.5),
    ]


def rungs() -> list[made_up.Row]:
    case = "softmax x=fp32[8,8] out=fp32[8,8]"
    common = {"workload": "ladder/topic", "floor_us": 2.0}
    return [
        *timed(case, "rows lanes=32", "weft", 2.5, **common),
        *timed(case, "ladder/topic/01_naive", "baseline", 1234.0, **common),
        *timed(case, "ladder/topic/02_wide", "baseline", 123.4, **common),
        *timed(case, "ladder/topic/03_wrong", "baseline", None, **common),
        *timed(case, "ladder/topic/04_top", "baseline", 123.0, **common),
        *timed(case, "ladder/other/01_naive", "baseline", 7.0, **common),
        *timed(case, "torch 2.11.0 eager", "baseline", 9.0, **common),
        *timed(case, "card copy", "baseline", 2.25, **common),
        *timed(case, "card launch", "baseline", 1.0, **common),
        *timed(case, "ladder/topic/01_naive", "noise", 8.0, **common),
        *timed(
            "softmax x=fp32[9,9] " + "y=fp32[9,9] " * 7, "rows", "weft", 5.0, **common | {"floor_us": 0.0}
        ),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pipelines = [
        *timed("vae_decode x=bf16[1,2]", "bf16", "weft", 2000.0),
        *timed("vae_decode x=bf16[1,2]", "fp8|mixed", "weft", 1500.0, floor_us=0.0),
        *timed("vae_decode x=bf16[1,2]", "torch 2.11.0 eager", "baseline", 1750.0),
    ]
    suites = {
        "norms": norms(),
        "sampled": drawn(),
        "models": steps(),
        "ladder": rungs(),
        "pipelines": pipelines,
    }
    for suite, rows in suites.items():
        add_rows(tmp_path / "evidence" / "h200" / f"{suite}.jsonl", [made_up.ENVIRONMENT, OTHER, *rows], True)
    add_rows(tmp_path / "evidence" / "h100" / "norms.jsonl", [OTHER | {"gpu": "NVIDIA H100"}], True)
    for name in ("01_naive", "02_wide", "03_wrong", "04_top", "05_unmeasured"):
        rung = tmp_path / "ladder" / "topic" / f"{name}.cu"
        rung.parent.mkdir(parents=True, exist_ok=True)
        rung.touch()
    (tmp_path / "ladder" / "empty").mkdir()
    cases = [*dict.fromkeys(row["case"] for row in rungs()), "softmax x=fp32[10,10]"]
    lines = [f'topic,"{case}"\n' for case in cases] + ['empty,"amax x=bf16[8]"\n']
    (tmp_path / "ladder" / "shapes.csv").write_text("topic,case\n" + "".join(lines))
    return tmp_path


def test_the_tables(folder: Path) -> None:
    held("performance.md", markdown.render(folder / "evidence"))


def test_the_records_of_the_page(folder: Path) -> None:
    held("records.json", json.dumps(html.records(folder / "evidence"), indent=1) + "\n")


def test_the_page_has_them_and_plotly_in_it(folder: Path) -> None:
    page = html.render(folder / "evidence")
    data = page[page.index('{"records": ') :].splitlines()[0]
    data = data[: data.rindex("}") + 1]
    shown = json.loads(data.replace("<\\/script", "</script"))
    assert shown["records"] == html.records(folder / "evidence")
    assert [(env["env"], env["gpu"]) for env in shown["environments"]] == [
        ("e2", "NVIDIA H100"),
        *[("e1", "NVIDIA H200"), ("e2", "NVIDIA H200")] * 5,
    ]
    assert get_plotlyjs()[:200] in page and "/*PLOTLY*/" not in page
    assert page.count("</script") == html.TEMPLATE.read_text().count("</script"), "data ends no script"


def test_a_sample_for_a_terminal(folder: Path) -> None:
    found = comparisons(read(folder / "evidence" / "h200" / "sampled.jsonl"))
    held("sample.txt", sample.text(found) + "\n\n" + sample.text(found, of_floor=True) + "\n")


def test_every_rung_and_every_case_of_the_ladder_is_measured() -> None:
    """A case in other words than its row's, or a new rung, would only leave a cell of the page empty."""
    found = climbs.measured(ROOT / "evidence" / "h200" / "ladder.jsonl")
    for topic in climbs.topics(ROOT):
        assert set(topic.cases) <= found.keys(), topic.name
        rows = {rung for case in topic.cases for rung in climbs._rung_rows(topic, found[case])}
        assert set(topic.rungs) <= rows, topic.name


def test_the_climbs_and_their_pictures(folder: Path) -> None:
    made = {path.relative_to(folder).as_posix(): text for path, text in climbs.files(folder, "h200").items()}
    assert set(made) == {
        "docs/learn/climbs.md",
        "docs/learn/pictures/climb_topic.svg",
        "docs/learn/pictures/climb_empty.svg",
    }
    for path, text in made.items():
        held(Path(path).name, text)


def test_a_card_that_was_not_measured_has_a_page_that_says_so(folder: Path) -> None:
    held("climbs-unmeasured.md", climbs.page(folder, "b200"))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1, 100, [1, 10, 100]), (0.9, 99, [1, 10]), (1.1, 101, [10, 100]), (0.01, 0.2, [0.01, 0.1]), (2, 9, []),
        (10, 10, [10]),
    ],
)  # fmt: skip
def test_ticks_are_powers_of_ten(low: float, high: float, ticks: list[float]) -> None:
    assert climbs._ticks(low, high) == pytest.approx(ticks)


def test_the_summary_for_a_terminal(folder: Path) -> None:
    rows = read(folder / "evidence" / "h200" / "norms.jsonl")
    assert summary_text(rows) == (
        "7 cases, 1 of weft's results wrong; against the best baseline of each of 3: geometric mean 1.00x, worst "
        "0.50x (gemm/row fp8_e4m3 activation=silu, against torch 2.11.0 eager); 1 won, 1 lost, 1 level"
    )
    assert summary_text(rows[:2]) == "0 cases, 0 of weft's results wrong; no baseline to compare with"


def test_models_without_rivals_have_no_mean() -> None:
    (text,) = ["\n".join(models.markdown(comparisons(steps()[6:7])))]
    assert "geometric mean" not in text
    assert "| `flux tokens=4` |  | 0.500 | - | - |" in text


def test_shapes_of_a_picture() -> None:
    drawn = Picture('A "title" & more', width=200.5)
    drawn.text((1, 2.25), "a < b", 11, color="#123456", anchor="end", bold=True)
    drawn.text((3, 4), "plain", 1e2 / 3)
    drawn.box((5, 6), (7, 8), "#abcdef")
    drawn.box((5, 6), (7, 8), "#abcdef", "#000000")
    drawn.line((1, 30), (2, 20))
    drawn.line((1, 2), (3, 4), "#111111", dashed=True)
    assert drawn.height == 30
    drawn.dot((9, 50), "#222222")
    assert drawn.height == 54
    drawn.dot((9, 10), "#222222", 1 / 3)
    held("shapes.svg", drawn.render())
    tall = Picture("")
    tall.text((0, 90), "", 14)
    assert tall.height == 97
    tall.box((0, 90), (1, 8), "")
    assert (tall.width, tall.height) == (520, 98)
