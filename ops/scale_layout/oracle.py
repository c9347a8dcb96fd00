"""scale_layout by reshaping: no offsets."""

from tests.oracles.numbers import decoded, linear, swizzled


def oracle(inputs: dict, options: dict) -> dict:
    dtypes = options["dtypes"]
    if "linear" in inputs:
        scales = decoded(inputs["linear"], dtypes["linear"])
        return {"to_swizzled": swizzled(scales.reshape(-1, scales.shape[-1]))}
    shape = options["shapes"]["to_linear"]
    groups = shape[-1]
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return {"to_linear": linear(decoded(inputs["swizzled"], dtypes["swizzled"]), rows, groups).reshape(shape)}
