"""weft: fused kernels for transformer inference, each with an executable specification.

Every op of the library is a function here, made from its contract: `weft.rms_norm(x, weight)` allocates its
output in the framework of its input (PyTorch, JAX, NumPy), `weft.rms_norm(x, weight, out=y)` writes where it is told.
"""

from __future__ import annotations

from weft import names as names
from weft._function import function as _function
from weft._library import function as _function_of
from weft._op import OPS as _OPS

__version__: str = _function_of("version")()

for _op in _OPS.values():
    globals()[_op.name] = _function(_op)

__all__ = sorted(_OPS)  # noqa: PLE0605 - what the registry holds
