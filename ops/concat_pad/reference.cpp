// concat_pad's executable specification.
#include "ops/concat_pad/concat_pad.h"
#include "weft/op.h"

namespace weft {
namespace {

double element(const Tensor& t, std::int64_t b, std::int64_t c, std::int64_t f, std::int64_t h,
               std::int64_t w) {
    return load_element(
        t.dtype, t.data,
        b * t.stride[0] + c * t.stride[1] + f * t.stride[2] + h * t.stride[3] + w * t.stride[4]);
}

void reference(const ConcatPad& op, Oracle& oracle) {
    const Tensor &x = op.x, &out = op.out;
    const std::int64_t kept = op.cache ? op.cache.dim(2) : 0;
    std::int64_t index[5] = {};
    for (std::int64_t n = 0; n < out.numel(); ++n) {
        std::int64_t rest = n, to = 0;
        for (int axis = 4; axis >= 0; --axis) {
            index[axis] = rest % out.shape[axis];
            rest /= out.shape[axis];
            to += index[axis] * out.stride[axis];
        }
        const std::int64_t f = index[2] - op.front, h = index[3] - op.top, w = index[4] - op.left;
        double value = 0;
        if (f >= 0 && h >= 0 && h < x.dim(3) && w >= 0 && w < x.dim(4))
            value = f < kept ? element(op.cache, index[0], index[1], f, h, w)
                             : element(x, index[0], index[1], f - kept, h, w);
        oracle.store(out, to, value);
    }
}

const RegisterReference<ConcatPad> kReference{reference};

}  // namespace
}  // namespace weft
