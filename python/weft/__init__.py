"""weft: fused kernels for transformer inference, each with an executable specification."""

from __future__ import annotations
