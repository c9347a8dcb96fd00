// reduce's executable specification.
#include <cmath>
#include <limits>

#include "ops/reduce/reduce.h"
#include "weft/op.h"

namespace weft {
namespace {

using Kind = Reduce::Kind;

// What has been seen of the terms of one result.
struct Seen {
    double sum = 0, magnitude = 0, max = -std::numeric_limits<double>::infinity(), amax = 0;
    std::int64_t count = 0;

    void add(double term) {
        ++count;
        sum += term;
        magnitude += std::fabs(term);
        if (!(max >= term) && !std::isnan(max)) max = term;
        if (!(amax >= std::fabs(term)) && !std::isnan(amax)) amax = std::fabs(term);
    }
};

void store(const Reduce& op, std::int64_t at, const Seen& seen, Oracle& oracle) {
    const Tensor& to = op.out;
    const bool exact = op.x.dtype == DType::int8;
    const double n = static_cast<double>(seen.count);
    double value = op.kind == Kind::max ? seen.max : op.kind == Kind::amax ? seen.amax : seen.sum;
    double error = op.factor ? kEps32 * std::fabs(value) : 0;
    if (op.kind == Kind::sum || op.kind == Kind::mean)
        error = exact ? 0 : (64 + n * 0x1p-20) * kEps32 * seen.magnitude;
    if (op.kind == Kind::mean) {
        value /= n;
        error = error / n + 2 * kEps32 * std::fabs(value);
    }
    if (!is_floating(to.dtype)) {  // within 2^53, where double is exact
        const double limit = to.dtype == DType::int32 ? 0x7fffffff : 0x1p53;
        return oracle.store_exact(to, at,
                                  static_cast<std::int64_t>(std::fmin(std::fmax(value, -limit - 1), limit)));
    }
    if (exact) error += kEps32 * std::fabs(value);
    oracle.store(to, at, value, std::isfinite(value) && std::isfinite(error) ? error : 0);
}

void reference(const Reduce& op, Oracle& oracle) {
    const Rows x = *fold_rows(op.x), factor = op.factor ? *fold_rows(op.factor) : x;
    for (std::int64_t row = 0; row < x.rows; ++row) {
        Seen seen;
        for (std::int64_t i = 0; i < x.dim; ++i) {
            double term = load_element(op.x.dtype, op.x.data, row * x.stride + i);
            if (op.factor) term *= load_element(op.factor.dtype, op.factor.data, row * factor.stride + i);
            seen.add(term);
        }
        store(op, row, seen, oracle);
    }
}

const RegisterReference<Reduce> kReference{reference};

}  // namespace
}  // namespace weft
