"""Weft in an LTX-Video pipeline: the same video before and after, what was replaced, and how often it was called."""

from __future__ import annotations

import numpy as np
import weft.diffusers
from ltx import arguments, prepared, render


def main() -> None:
    chosen = arguments(__doc__).parse_args()
    pipe, size, text = prepared(chosen)
    before = render(pipe, size, text, chosen.steps)

    report = weft.diffusers.accelerate(pipe)
    after = render(pipe, size, text, chosen.steps)

    print(report)
    print("attention:", dict(weft.diffusers.attention_calls()))
    error = float(np.mean((after - before) ** 2))
    print(f"PSNR against the video without weft: {-10 * np.log10(max(error, 1e-20)):.1f} dB")

    weft.diffusers.undo(pipe)
    same = np.array_equal(render(pipe, size, text, chosen.steps), before)
    print("after undo, the first video again:", "bit for bit" if same else "no")


if __name__ == "__main__":
    main()
