"""Whole models of other libraries with weft in them, beside the same models without it.

`python -m weft.bench.models` measures steps of models of random weights at their real sizes: the library's own eager
forward, its compiled one, and both with `accelerate`. Blocks are all alike, so that a part of them is measured by
default, and the row says how many. Each result is compared with the same step in fp32 before it is timed and after.
"""
