"""weft task: one kernel against a real baseline, under rules that commands check.

A task is a folder: what is to be computed and how right it must be (task.toml, reference.py), what it is compared
with (baseline/), what is tried (solution/), what was measured (bench/evidence.jsonl) and what follows (docs/).
`python -m weft.task --help` says how; docs/task.md goes through one.
"""
