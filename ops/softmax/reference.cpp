// softmax's executable specification.
#include <cmath>
#include <limits>
#include <vector>

#include "ops/softmax/softmax.h"
#include "weft/op.h"
#include "weft/row_map.h"

namespace weft {
namespace {

void reference(const Softmax& op, Oracle& oracle) {
    const RowMap x = *map_rows(op.x, op.x), out = *map_rows(op.out, op.x);
    const std::int64_t rows = row_count(op.x), dim = op.x.dim(-1);
    const double k = 150 + static_cast<double>(dim) / 256;
    std::vector<double> logits(static_cast<std::size_t>(dim));
    for (std::int64_t row = 0; row < rows; ++row) {
        double max = -std::numeric_limits<double>::infinity(), sum = 0, exponent = 0;
        for (std::int64_t i = 0; i < dim; ++i) {
            const double v =
                load_element(op.x.dtype, op.x.data, x.offset(row) + i) * static_cast<double>(op.scale);
            logits[static_cast<std::size_t>(i)] = v;
            if (v > max) max = v;  // NaN is not larger, and reaches every element through the sum
        }
        const bool empty = std::isinf(max) && max < 0;
        for (const double v : logits) {
            const double e = std::exp(empty ? v : v - max);
            sum += e;
            if (e > 0) exponent += e * std::fabs(v - max);
        }
        for (std::size_t i = 0; i < logits.size(); ++i) {
            const double e = std::exp(empty ? logits[i] : logits[i] - max);
            const double y = sum == 0 ? 0 : e / sum;
            double error = 0;
            if (y > 0) error = y * kEps32 * (k + 4 * std::fabs(logits[i] - max) + 4 * exponent / sum);
            if (std::isfinite(logits[i])) error += 0x1p-125;
            oracle.store(op.out, out.offset(row) + static_cast<std::int64_t>(i), y,
                         std::isfinite(y) ? error : 0);
        }
    }
}

const RegisterReference<Softmax> kReference{reference};

}  // namespace
}  // namespace weft
