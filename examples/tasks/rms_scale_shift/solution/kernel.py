"""weft's rms_norm with a modulation of each row."""

import weft


def run(x, weight, scale, shift, eps, out):
    weft.rms_norm(x, weight=weight, mod_scale=scale, mod_shift=shift, eps=eps, out=out)
