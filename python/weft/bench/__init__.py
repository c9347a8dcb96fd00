"""weft beside what a user would run instead, measured by the library's own harness.

C++ owns the operands of every set, the checks, the order and the clock (`weft bench` is the same code); Python hands in
callables. `python -m weft.bench --help` says how.
"""

from weft.bench._measure import Options, environment, measure

__all__ = ["Options", "environment", "measure"]
