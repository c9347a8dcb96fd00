"""docs/task.md, followed literally: every block of commands, in order, on the CPU."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_followed_to_its_end(tmp_path: Path) -> None:
    blocks = re.findall(
        r"^```sh\n(.*?)^```$", (ROOT / "docs" / "task.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) >= 6
    tool = tmp_path / "bin" / "weft"
    tool.parent.mkdir()
    tool.write_text(
        f'#!/bin/sh\nshift\nexec "{sys.executable}" -m weft.task "$@"\n'
    )  # what `weft task` hands over to
    tool.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tool.parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}",
        "OMP_NUM_THREADS": "1",
    }
    work = tmp_path / "work"
    work.mkdir()
    script = "set -e\n" + "\n".join(blocks)
    done = subprocess.run(
        ["bash", "-c", script], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "weft task done: passed" in done.stdout
    assert "geometric mean" in (work / "modulate" / "docs" / "results.md").read_text()


# Which test breaks each rule of docs/task_rules.md, by how the rule begins.
BREAKS = {
    "The baseline is upstream's": "static_rules:TestBaseline.test_none",
    "Nobody edits the baseline": "static_rules:TestBaseline.test_an_edited_copy_is_told_by_its_hash",
    "Both sides have one entry": "measured_rules:TestVerify.test_it_has_another_entry",
    "Both sides go through": "static_rules:test_launch_paths_that_differ_leave_device_times_alone",
    "The same flags": "static_rules:test_broken_cuda_rules",
    "No fast math": "static_rules:test_fast_math_of_upstream_on_one_side_alone",
    "Launches on the current stream": "static_rules:test_a_launch_that_never_asks_for_the_stream",
    "No allocation on one side": "measured_rules:TestVerify.test_an_allocation_that_only_running_shows",
    "Workloads, grid, tolerances": "measured_rules:TestLock.test_what_moved_stops_the_bench",
    "Every row says": "endings:TestDone.test_a_row_of_nobody",
    "Production rows, then": "measured_rules:TestVerify.test_one_element_of_the_last_grid_row",
    "NaN and infinity": "measured_rules:TestVerify.test_nan_that_is_hidden",
    "Every element is written": "measured_rules:TestVerify.test_an_element_that_is_not_written",
    "The check would notice": "measured_rules:TestVerify.test_a_tolerance_that_refuses_nothing",
    "A kernel on weft's kit": "endings:TestDone.test_a_kernel_on_the_kit_that_no_emulator_ran",
    "The last timed result": "measured_rules:TestBench.test_right_in_the_first_run_only",
    "The card is idle": "measured_rules:TestCard.test_the_command_refuses",
    "Both sides interleaved": "measured_rules:TestBench.test_rows_have_all_that_makes_them_again",
    "An equal-weight geometric mean": "endings:TestDone.test_one_row_that_is_slower",
    "A roofline explains": "endings:TestDone.test_no_bound",
    "A specialised bucket": "endings:TestDispatch.test_a_dispatcher_that_was_edited",
    "A kernel's gain": "endings:TestDone.test_a_chain_that_was_not_measured",
    "A model checks": "chain:TestGate.test_what_differs_in_a_bit_is_never_used",
    "What was tried": "endings:TestLog.test_and_rows_that_say_so",
    "Numbers in documents": "endings:TestDone.test_results_that_were_typed",
    "Raw profiles": "static_rules:TestArtefacts.test_what_is_staged_and_should_not_be",
    "A word that nobody reads": "new:test_what_nobody_reads",
    "No go is a result": "endings:TestNoGo.test_without_an_attempt",
    "Finished means": "endings:TestDone.test_what_is_missing_is_named",
}


def test_every_rule_has_a_test_that_breaks_it() -> None:
    text = (ROOT / "docs" / "task_rules.md").read_text()
    rules = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rules) == len(BREAKS)
    for rule in rules:
        names = [test for begin, test in BREAKS.items() if rule.startswith(begin)]
        assert len(names) == 1, rule
        module, _, name = names[0].partition(":")
        found: object = importlib.import_module(f"tests.task.test_{module}")
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found)


def test_every_command_of_the_rules_is_one() -> None:
    from weft.task.__main__ import arguments  # noqa: PLC0415

    text = (ROOT / "docs" / "task_rules.md").read_text()
    known = set(re.findall(r"^  ([a-z-]+) ", arguments().format_help(), re.MULTILINE))
    named = set(re.findall(r"`([a-z-]+)`", text)) - {"weft"}
    assert named and named <= known, named - known
