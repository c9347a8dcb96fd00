// upsample's executable specification.
#include <cmath>

#include "ops/upsample/upsample.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const Upsample& op, Oracle& oracle) {
    const Tensor& out = op.out;
    const int rank = out.rank;
    const std::int64_t scale[] = {op.time_scale, op.height_scale, op.width_scale};
    for (std::int64_t n = 0; n < out.numel(); ++n) {
        std::int64_t index[kMaxRank] = {}, rest = n, to = 0, from = 0, beside = 0, part = 0;
        for (int axis = rank - 1; axis >= 0; --axis) {
            index[axis] = rest % out.shape[axis];
            rest /= out.shape[axis];
            to += index[axis] * out.stride[axis];
            if (op.residual) beside += index[axis] * op.residual.stride[axis];
        }
        for (int axis = 0; axis < rank - 1; ++axis) {
            const int place = axis - (rank - 4);
            const std::int64_t by = place >= 0 ? scale[place] : 1;
            if (place >= 0) part = part * by + index[axis] % by;
            from += index[axis] / by * op.x.stride[axis];
        }
        from += (index[rank - 1] * op.shuffle + part * op.shuffle / (scale[0] * scale[1] * scale[2])) *
                op.x.stride[rank - 1];
        double value = load_element(op.x.dtype, op.x.data, from), error = 0;
        if (op.residual) {
            value += load_element(op.residual.dtype, op.residual.data, beside);
            error = std::isfinite(value) ? kEps32 * std::fabs(value) : 0;
        }
        oracle.store(out, to, value, error);
    }
}

const RegisterReference<Upsample> kReference{reference};

}  // namespace
}  // namespace weft
