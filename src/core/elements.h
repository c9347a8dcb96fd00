// Walking over the elements of a view.
#pragma once

#include "weft/tensor.h"

namespace weft {

// Elements of a view, as offsets from its data, in row-major order.
template <class Use>
void for_each_offset(const Tensor& t, Use use) {
    const std::int64_t n = t.numel();
    std::int64_t index[kMaxRank] = {}, offset = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        use(offset);
        for (int axis = t.rank - 1; axis >= 0; --axis) {
            offset += t.stride[axis];
            if (++index[axis] < t.shape[axis]) break;
            offset -= t.stride[axis] * t.shape[axis];
            index[axis] = 0;
        }
    }
}

// The same as runs of consecutive elements: use(offset of the first, how many).
template <class Use>
void for_each_run(const Tensor& t, Use use) {
    Tensor heads = t;
    std::int64_t run = 1;
    while (heads.rank > 0 && (t.shape[heads.rank - 1] == 1 || t.stride[heads.rank - 1] == run)) {
        run *= t.shape[--heads.rank];
    }
    if (t.numel() > 0) for_each_offset(heads, [&](std::int64_t offset) { use(offset, run); });
}

}  // namespace weft
