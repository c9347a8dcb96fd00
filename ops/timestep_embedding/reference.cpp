// timestep_embedding's executable specification.
#include <cmath>

#include "ops/timestep_embedding/timestep_embedding.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const TimestepEmbedding& op, Oracle& oracle) {
    const Rows out = *fold_rows(op.out);
    const std::int64_t half = op.dim / 2;
    for (std::int64_t row = 0; row < out.rows; ++row) {
        const std::int64_t at = row * op.t.stride[0];
        const double t =
            is_floating(op.t.dtype)
                ? load_element(op.t.dtype, op.t.data, at)
                : round_to(DType::fp32, static_cast<double>(load_integer(op.t.dtype, op.t.data, at)));
        for (std::int64_t i = 0; i < half; ++i) {
            const double exponent = std::log(static_cast<double>(op.max_period)) * static_cast<double>(i) /
                                    (static_cast<double>(half) - static_cast<double>(op.downscale));
            const double angle = static_cast<double>(op.scale) * t * std::exp(-exponent);
            const double error = kEps32 * ((10 + 5 * std::fabs(exponent)) * std::fabs(angle) + 4);
            const bool finite = std::isfinite(angle);
            const std::int64_t to = row * out.stride + i;
            oracle.store(op.out, to + (op.cos_first ? half : 0), std::sin(angle), finite ? error : 0);
            oracle.store(op.out, to + (op.cos_first ? 0 : half), std::cos(angle), finite ? error : 0);
        }
        if (op.dim % 2 != 0) oracle.store(op.out, row * out.stride + op.dim - 1, 0);
    }
}

const RegisterReference<TimestepEmbedding> kReference{reference};

}  // namespace
}  // namespace weft
