"""upsample by NumPy's repeat, reshape and transpose: the steps of Wan 2.2's shortcut."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    x = inputs["x"]
    t, h, w, s = (int(options[name]) for name in ("time_scale", "height_scale", "width_scale", "shuffle"))
    lead, (frames, height, width, channels) = x.shape[:-4], x.shape[-4:]
    spread = np.repeat(x, t * h * w // s, axis=-1)
    parts = spread.reshape(*lead, frames, height, width, channels // s, t, h, w)
    n = len(lead)
    order = [*range(n), n, n + 4, n + 1, n + 5, n + 2, n + 6, n + 3]
    out = parts.transpose(order).reshape(*lead, frames * t, height * h, width * w, channels // s)
    return {"out": out + inputs["residual"] if "residual" in inputs else out}
