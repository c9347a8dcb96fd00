// copy's executable specification.
#include <algorithm>

#include "ops/copy/copy.h"
#include "weft/op.h"

namespace weft {
namespace {

void copy_element(const Copy& op, std::int64_t from, std::int64_t to, Oracle& oracle) {
    if (is_floating(op.out.dtype)) {
        const double value = op.x ? load_element(op.x.dtype, op.x.data, from) : static_cast<double>(op.value);
        return oracle.store(op.out, to, value);
    }
    if (op.x) return oracle.store_exact(op.out, to, load_integer(op.x.dtype, op.x.data, from));
    store_element(op.out.dtype, op.out.data, to, static_cast<double>(op.value));  // saturates
    oracle.store_exact(op.out, to, load_integer(op.out.dtype, op.out.data, to));
}

void reference(const Copy& op, Oracle& oracle) {
    const Tensor& out = op.out;
    for (std::int64_t n = 0; n < out.numel(); ++n) {
        std::int64_t from = 0, to = 0, rest = n;
        for (int axis = out.rank - 1; axis >= 0; --axis) {
            const std::int64_t index = rest % out.shape[axis];
            rest /= out.shape[axis];
            to += index * out.stride[axis];
            if (op.x) from += index * op.x.stride[axis];
        }
        copy_element(op, from, to, oracle);
    }
}

const RegisterReference<Copy> kReference{reference};

}  // namespace
}  // namespace weft
