// residual_add's executable specification.
#include <cmath>

#include "ops/residual_add/residual_add.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const ResidualAdd& op, Oracle& oracle) {
    const Rows x = *fold_rows(op.x), residual = *fold_rows(op.residual), out = *fold_rows(op.out);
    for (std::int64_t row = 0; row < x.rows; ++row) {
        for (std::int64_t i = 0; i < x.dim; ++i) {
            const double a = load_element(op.x.dtype, op.x.data, row * x.stride + i);
            const double b = load_element(op.residual.dtype, op.residual.data, row * residual.stride + i);
            const double bias = op.bias ? load_element(op.bias.dtype, op.bias.data, i) : 0;
            // Each fp32 addition rounds its result by at most half an ulp.
            const double error = kEps32 * ((op.bias ? std::fabs(a + bias) : 0) + std::fabs(a + bias + b));
            oracle.store(op.out, row * out.stride + i, a + bias + b, error);
        }
    }
}

const RegisterReference<ResidualAdd> kReference{reference};

}  // namespace
}  // namespace weft
