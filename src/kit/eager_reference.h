// What the references of norms of rows share where they have the bits of PyTorch's operators (rounding=eager).
#pragma once

#include <cmath>
#include <vector>

#include "kit/row_reference.h"
#include "kit/stepped.h"

namespace weft {

// The outputs of a norm whose normalised row is `n`, not yet rounded.
template <class Op>
void eager_outputs(const Op& op, std::int64_t row, const std::vector<Stepped>& n, Oracle& oracle) {
    const auto store = [&](const Tensor& out, const Tensor& mod_scale, const Tensor& mod_shift) {
        if (!out) return;
        const ReferenceRows scale(mod_scale, op.x, op.mod_index), shift(mod_shift, op.x, op.mod_index),
            to(out, op.x);
        const DType dtype = scale ? mod_scale.dtype : shift ? mod_shift.dtype : op.x.dtype;
        for (std::size_t i = 0; i < n.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            Stepped y = n[i];
            if (scale || shift) y = y.to(dtype);
            if (scale) {
                Stepped factor = Stepped::exact(scale.at(row, at));
                if (op.mod_tanh) {
                    const double tanh = std::tanh(factor.value);
                    factor = Stepped::within(tanh, 4 * kEps32 * std::fabs(tanh)).to(dtype);
                }
                factor = (factor + Stepped::exact(static_cast<double>(op.mod_offset))).to(dtype);
                y = (y * factor).to(dtype);
            }
            if (shift) y = (y + Stepped::exact(shift.at(row, at))).to(dtype);
            y.store(out, to.place(row, at), oracle);
        }
    };
    store(op.out2, op.mod_scale2, op.mod_shift2);
    store(op.out, op.mod_scale, op.mod_shift);
}

}  // namespace weft
