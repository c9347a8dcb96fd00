// embedding's executable specification.
#include <cmath>

#include "ops/embedding/embedding.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const Embedding& op, Oracle& oracle) {
    const Rows table = *fold_rows(op.table), out = *fold_rows(op.out);
    for (std::int64_t row = 0; row < out.rows; ++row) {
        const std::int64_t id = load_integer(op.ids.dtype, op.ids.data, row);
        const bool there = id >= 0 && id < table.rows;
        for (std::int64_t i = 0; i < out.dim; ++i) {
            const double value =
                there ? load_element(op.table.dtype, op.table.data, id * table.stride + i) * op.scale : 0;
            const double error = op.scale == 1 || !std::isfinite(value) ? 0 : kEps32 * std::fabs(value);
            oracle.store(op.out, row * out.stride + i, value, error);
        }
    }
}

const RegisterReference<Embedding> kReference{reference};

}  // namespace
}  // namespace weft
