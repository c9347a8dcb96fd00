"""python -m weft.bench.models: steps of whole models, the library's own beside those with weft in them."""

from __future__ import annotations

import argparse
import gc
import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from weft.bench._measure import environment
from weft.bench.models._measure import Options, entrants, measure, stream_of
from weft.bench.models._subject import Case
from weft.report.rows import add_rows, read

LIBRARIES = ("transformers", "diffusers", "triton")


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m weft.bench.models", description=__doc__)
    parser.add_argument(
        "--only",
        default="",
        metavar="WORD,...",
        help="cases of these names, or with one of these words in it",
    )
    parser.add_argument("--list", action="store_true", help="name the cases, and end")
    parser.add_argument("--layers", type=int, help="blocks of each model; 0: all of them (default: a part)")
    parser.add_argument("--tiny", action="store_true", help="models that a CPU runs, for tests")
    parser.add_argument("--out", type=Path, help="append rows to this file, one JSON object a line")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="the CPU only for tests")
    parser.add_argument("--rounds", type=int, default=15, help="samples of each time")
    parser.add_argument(
        "--seconds", type=float, default=5, help="of a case's rounds, about; 5 are taken anyway"
    )
    parser.add_argument("--seed", type=int, default=None, help="of the order (default: a new one)")
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    parser.add_argument("--budget-s", type=float, default=0, help="begin no case after so many seconds")
    parser.add_argument("--skip-done", type=Path, help="leave out the cases that this file has rows of")
    parser.add_argument(
        "--warm", type=int, default=0, metavar="N", help="first compile all of it, in N processes"
    )
    parser.add_argument(
        "--compile", action="store_true", help="run the compiled sides once, and measure nothing"
    )
    given = parser.parse_args(words)
    given.seed = random.randrange(1 << 31) if given.seed is None else given.seed
    return given


def every(tiny: bool) -> list[Case]:
    """The cases of all libraries that are here, in the order in which they are measured."""
    from weft.bench.models import _language  # noqa: PLC0415 - diffusers may be absent

    found = _language.cases(tiny)
    try:
        from weft.bench.models import _diffusion  # noqa: PLC0415
    except ImportError as error:
        print(f"absent: diffusers: {error}")
        return found
    # A budget may end before the last: larger batches come after a case of everything else.
    return sorted(
        found + _diffusion.cases(tiny), key=lambda case: case.name.endswith(("batch=16", "batch=64"))
    )


def layers_of(case: Case, given: argparse.Namespace) -> int:
    """How many blocks are measured."""
    if given.layers is None:
        return case.layers
    return int(given.layers or case.of)


def wanted(given: argparse.Namespace) -> list[Case]:
    """The cases that are asked for and have no rows yet."""
    done = {row.get("case") for row in read(given.skip_done)} if given.skip_done else set()
    found = every(given.tiny)
    named = [case for case in found if case.name in given.only.split(",")]
    asked = named or [case for case in found if any(word in case.name for word in given.only.split(","))]
    return [case for case in asked if case.line(layers_of(case, given)) not in done]


def compile_only(given: argparse.Namespace, options: Options) -> int:
    """Fills the compiler's cache on disk; what cannot be compiled says so when it is measured."""
    with torch.no_grad(), stream_of(options):
        for case in wanted(given):
            subject = case.open(layers_of(case, given), options.device)
            for entrant in entrants(case, subject, options, lambda side: side.compiled, graphs=False):
                print(f"{case.name}: {entrant.name}: {entrant.why or entrant.notes[0]}", flush=True)
    return 0


def warm(given: argparse.Namespace) -> float:
    """Compiles all cases in processes of their own, so many at a time; the seconds that it took."""
    begin = time.monotonic()
    waiting = [case.name for case in wanted(given)]
    command = [sys.executable, "-m", "weft.bench.models", "--compile", "--device", given.device]
    command += ["--backend", given.backend, *(["--tiny"] if given.tiny else [])]
    command += [] if given.layers is None else ["--layers", str(given.layers)]
    running: list[subprocess.Popen[bytes]] = []
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2"}
    while waiting or running:
        running = [process for process in running if process.poll() is None]
        while waiting and len(running) < given.warm:
            running.append(subprocess.Popen([*command, "--only", waiting.pop(0)], env=environment))
        time.sleep(0.2)
    return time.monotonic() - begin


def command(given: argparse.Namespace) -> str:
    """What makes the rows again."""
    words = ["python -m weft.bench.models"]
    words += [f"--only {given.only}"] if given.only else []
    words += [f"--layers {given.layers}"] if given.layers is not None else []
    return " ".join([*words, f"--seed {given.seed}"])


def environment_row(given: argparse.Namespace) -> dict[str, Any]:
    """With the versions of the libraries that the models are of."""
    env = environment(given.device, command(given))
    for library in LIBRARIES:
        try:
            env["libraries"][library] = version(library)
        except PackageNotFoundError:
            continue
    return env


def measure_all(given: argparse.Namespace, options: Options) -> int:
    env, run, begin = environment_row(given), uuid.uuid4().hex[:12], time.monotonic()
    waiting = wanted(given)
    if given.warm:
        print(f"{len(waiting)} cases compiled in {warm(given):.0f} s", flush=True)
    kept, left, wrong = [env], 0, 0
    for case in waiting:
        if given.budget_s and time.monotonic() - begin > given.budget_s:
            left += 1
            continue
        started = time.monotonic()
        try:
            rows, text = measure(case, layers_of(case, given), options, run, env["env"])
        except torch.cuda.OutOfMemoryError as error:
            print(f"{case.name}: not measured: {error}", flush=True)
            wrong += 1
            continue
        finally:
            gc.collect()  # models refer to themselves
            if options.on_gpu:
                torch.cuda.empty_cache()
        print(f"{text}\n  {time.monotonic() - started:.1f} s", flush=True)
        if given.out:
            add_rows(given.out, [*kept, *rows], chained=False)
            kept = []
        wrong += not all(row["checked"] for row in rows)
    if left:
        print(f"{left} cases are left: the budget of {given.budget_s:g} s is spent")
    print(f"{len(waiting) - left} cases, of {wrong} of them a side is wrong or failed")
    return 1 if wrong else 0


def main(words: Sequence[str] | None = None) -> int:
    given = arguments(words)
    if given.list:
        print(*(case.line(layers_of(case, given)) for case in every(given.tiny)), sep="\n")
        return 0
    if given.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch finds no GPU here (--device cpu times the host, for tests)", file=sys.stderr)
        return 3
    torch.backends.cudnn.allow_tf32 = False  # what is compared with is fp32
    # Each case and side is a graph of its own of the same code.
    torch._dynamo.config.recompile_limit = 256
    torch._dynamo.config.accumulated_recompile_limit = 1024
    options = Options(given.device, given.rounds, given.seconds, given.seed, given.backend)
    return compile_only(given, options) if given.compile else measure_all(given, options)


if __name__ == "__main__":
    sys.exit(main())
