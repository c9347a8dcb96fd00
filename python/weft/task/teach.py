"""What `weft task COMMAND --help` says: what a command is for, what it refuses, and a line to begin with."""

from __future__ import annotations

OF = {
    "new": """
Makes NAME/ with all that a task has: task.toml (operands, workload rows, regression grid, tolerances, timing),
reference.py, an adapter for the baseline and an entry for the candidate. The operands come from one of weft's
contracts (--op), from a Python function that is right (--reference), or from questions.

A dtype and an axis are names of the row or fixed: x=bf16[S,D] has as many elements as a row's S and D say.
A row is a shape that production runs; give its source, for `done` asks for it.

  weft task new norm --op 'rms_norm x=bf16[4096,3072] weight=bf16[3072]'
  weft task new norm --reference wanted.py:norm --input 'x=bf16[S,D]' --output 'out=bf16[S,D]' \\
      --row 'S=4096,D=3072,source=FLUX, image tokens'
""",
    "baseline": """
Copies what is to be beaten, and writes docs/baseline_source.md: repository and commit or package and version, when,
and the hash of every file. A branch is resolved to the commit that is its newest now; where there is no network, a
local clone does. Without --git or --wheel it looks whether the copies are still what was copied.

Refuses: a copy that was edited (put your changes into baseline/entry.*, the adapter), a page that was typed.

  weft task baseline norm --git https://github.com/OWNER/NAME --file kernels/norm.py
  weft task baseline norm --wheel PACKAGE --file package/norm.py --no-commit
  weft task baseline norm --restore
""",
    "lock": """
Freezes the spec, the reference, the workload rows, the grid, the tolerances, the timing and all flags, before tuning
begins. After a change `verify` and `bench` refuse: put it back, or lock again with a reason. Rows of an older lock
stay, marked as such, and both sides are measured again.

  weft task lock norm
  weft task lock norm --reason 'fp32 sums in another order need atol 1e-5'
""",
    "check": """
Every rule that needs no GPU. Writes docs/benchmark_method.md: how both sides are built and measured.

Refuses: a flag on one side alone; fast math that the baseline's own source has not; a switch of the whole process;
launch paths that differ where times from the host are compared; a launch beside the current stream, or a wait in the
timed path; an allocation on one side alone; an edited row of evidence; a profiler's report, a trace, a binary or
scratch in git's index.

  weft task check norm
  weft task check norm --compile
""",
    "verify": """
The baseline against the reference, then the candidate: every workload row and every point of the grid, from outputs
that hold NaN and then something else, between guards, with inputs compared afterwards, once with NaN and infinities
among the inputs. Then whether it would notice: the candidate's own result with one element off by twice the
tolerance must fail, and so must zeros. Counts allocations of a warm call.

With --emulator a kernel on weft's kit runs on the CPU, on the rows that are small enough.

  weft task verify norm
  weft task verify norm --candidate wide --seed 7
  weft task verify norm --emulator
""",
    "bench": """
Both sides interleaved in one process, in random order, with cold and hot caches, and the baseline a second time as
noise. Waits for an idle card, and drops what was measured while another process came onto it. Every statistic, the
card's state before, during and after, the command and the hashes of both sides are in bench/evidence.jsonl.

Refuses: sources that were not verified as they are, a lock that does not hold, a rule of `check` that is broken, a
card that stays busy, a result that is wrong before or after it was timed.

With --in-chain it measures what a model has around the op (chain.py: chain(op, *inputs)), eager and under
torch.compile: an op that the compiler can't look into costs it fusions. First the candidate passes a gate on the
inputs that the chain hands to it.

  weft task bench norm
  weft task bench norm --candidate wide --only ltx2
  weft task bench norm --in-chain
""",
    "profile": """
Names what bounds the candidate in every row of the last bench: the floor from the spec's bytes and operations, what
was reached, and what the card itself needs to move as much. Where Nsight Compute is allowed, a few counters of one
call are in docs/profile.md too: bytes, throughput, occupancy, stalls by cause, tensor instructions. The clocks are
left alone, and no report is kept.

  weft task profile norm
""",
    "dispatch": """
Measures every candidate of task.toml beside the baseline, and gives each bucket to the fastest, or to the baseline
where none is. Writes docs/dispatch.md and solution/dispatch.py, which picks by the same conditions. The dispatcher is
a candidate then: verify it and bench it.

Buckets stand in task.toml, and the first whose condition holds counts:

  [[dispatch]]
  bucket = "short"
  when = "S <= 1024"

Refuses: a row in no bucket, a bucket without a row, one candidate in one bucket.

  weft task dispatch norm
""",
    "log": """
Ideas with what became of them, so that a later attempt reads what was tried. Without --idea it tells all of them.

Refuses: a verdict without a reason (--because), or without the run whose rows say so (--run ID, or --run last).

  weft task log norm --idea 'a warp a row' --status rejected --because 'half the bytes in flight' --run last
  weft task log norm
""",
    "report": """
Renders docs/results.md from the rows: every workload row, the geometric mean with the worst row, the noise, the
bound, the chain, every attempt, every idea, and the environment. With --html one page with pictures as well.

  weft task report norm
  weft task report norm --html /tmp/norm.html
""",
    "stage": """
Lists exactly the files that a commit has, and refuses what is in git's index and is no artefact: a profiler's report,
a trace, a binary, scratch, a copy that may not be committed.

  weft task stage norm
  weft task stage norm --add
""",
    "done": """
Is anything missing? Looks for every artefact, runs `check`, compares every page with the rows that it is rendered
from, and wants right times of both sides for every row. A task ends in a win (faster on the whole, no row below 0.97)
or as a no-go.

  weft task done norm
""",
    "no-go": """
Ends a task without a win, in docs/no_go.md. Refuses without the baseline's numbers, without an attempt that was right
and reasoned about (`weft task log`), without a bound in figures (`weft task profile`), and where the roofline names
another bound.

  weft task no-go norm --bound memory --reason 'the baseline moves 97 % of what the card copies in that time'
""",
}
