// histogram's executable specification.
#include <vector>

#include "ops/histogram/histogram.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const Histogram& op, Oracle& oracle) {
    const Rows x = *fold_rows(op.x);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(op.bins));
    for (std::int64_t row = 0; row < x.rows; ++row) {
        for (std::int64_t i = 0; i < x.dim; ++i) {
            const std::int64_t value = load_integer(op.x.dtype, op.x.data, row * x.stride + i);
            if (value >= 0 && value < op.bins) ++counts[static_cast<std::size_t>(value)];
        }
    }
    for (std::int64_t bin = 0; bin < op.bins; ++bin)
        oracle.store_exact(op.counts, bin, counts[static_cast<std::size_t>(bin)]);
}

const RegisterReference<Histogram> kReference{reference};

}  // namespace
}  // namespace weft
