"""nms as its definition says, box by box, in NumPy's float32."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    boxes, scores = inputs["boxes"].astype(np.float32), inputs["scores"]
    threshold, n = np.float32(options["threshold"]), len(scores)
    order = np.lexsort((np.arange(n), np.where(np.isnan(scores), -np.inf, -scores), ~np.isnan(scores)))
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    for i in order:
        low, high = np.fmax(boxes[kept, :2], boxes[i, :2]), np.fmin(boxes[kept, 2:], boxes[i, 2:])
        both = np.prod(np.fmax(high - low, np.float32(0)), axis=1, dtype=np.float32)
        if not np.any(both / (area[kept] + area[i] - both) > threshold):
            kept.append(int(i))
    return {"keep": np.array(kept + [-1] * (n - len(kept)), np.int64), "count": np.array([len(kept)])}
