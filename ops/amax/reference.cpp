// amax's executable specification.
#include <cmath>
#include <limits>

#include "ops/amax/amax.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const Amax& op, Oracle& oracle) {
    const Rows x = *fold_rows(op.x);
    double amax = load_element(DType::fp32, op.amax.data, 0);
    if (amax < 0) amax = 0;
    for (std::int64_t row = 0; row < x.rows; ++row) {
        for (std::int64_t i = 0; i < x.dim; ++i) {
            const double v = std::fabs(load_element(op.x.dtype, op.x.data, row * x.stride + i));
            if (std::isnan(v) || v > amax) amax = v;  // once NaN, no comparison is true again
        }
    }
    oracle.store(op.amax, 0, amax);
}

const RegisterReference<Amax> kReference{reference};

}  // namespace
}  // namespace weft
