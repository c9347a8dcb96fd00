// merge_attention_states' executable specification.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/merge_attention_states/merge_attention_states.h"
#include "weft/op.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double load_lse(const Tensor& t, std::int64_t at) {
    const double value = load_element(DType::fp32, t.data, at);
    return value == kInfinity ? -kInfinity : value;
}

void merge_row(const MergeAttentionStates& op, std::int64_t row, double a, double b, Oracle& oracle) {
    const double most = std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
    const bool empty = most == -kInfinity;
    const double by_a = empty ? 0 : std::exp(a - most), by_b = empty ? 0 : std::exp(b - most);
    const double sum = empty ? 1 : by_a + by_b;
    const double apart = by_a > 0 && by_b > 0 ? std::fabs(a - b) : 0;
    for (std::int64_t i = 0; i < op.out.dim(-1); ++i) {
        // What has no weight does not count, even where it is NaN.
        const auto element = [&](const Tensor& t, double weight) {
            return weight == 0 ? 0 : load_element(t.dtype, t.data, row * fold_rows(t)->stride + i);
        };
        const double of_a = element(op.a, by_a), of_b = element(op.b, by_b);
        const double from_a = by_a / sum * of_a, from_b = by_b / sum * of_b, value = from_a + from_b;
        const double error = (12 + apart) * kEps32 * (std::fabs(from_a) + std::fabs(from_b)) +
                             0x1p-147 * (1 + std::fabs(of_a) + std::fabs(of_b));
        const bool vanishing = apart > 80;  // e^−80: what is infinite beside it may count or not
        const double finite_error = std::isfinite(value) ? error : vanishing ? Oracle::kUndetermined : 0;
        oracle.store(op.out, row * fold_rows(op.out)->stride + i, value, finite_error);
    }
}

void reference(const MergeAttentionStates& op, Oracle& oracle) {
    const Tensor& out = op.out;
    const auto at = [](const Tensor& t, std::int64_t batch, std::int64_t head, std::int64_t token) {
        return batch * t.stride[0] + head * t.stride[1] + token * t.stride[2];
    };
    std::int64_t row = 0;
    for (std::int64_t batch = 0; batch < out.dim(0); ++batch) {
        for (std::int64_t token = 0; token < out.dim(1); ++token) {
            for (std::int64_t head = 0; head < out.dim(2); ++head, ++row) {
                const double a = load_lse(op.lse_a, at(op.lse_a, batch, head, token));
                const double b = load_lse(op.lse_b, at(op.lse_b, batch, head, token));
                merge_row(op, row, a, b, oracle);
                if (!op.lse) continue;
                const double most = std::max(a, b);
                const double more =
                    most == -kInfinity ? 0 : std::log(std::exp(a - most) + std::exp(b - most));
                const double lse = std::isnan(a) || std::isnan(b) ? std::nan("") : most + more;
                oracle.store(op.lse, at(op.lse, batch, head, token), lse,
                             std::isfinite(lse) ? kEps32 * (std::fabs(lse) + 10) : 0);
            }
        }
    }
}

const RegisterReference<MergeAttentionStates> kReference{reference};

}  // namespace
}  // namespace weft
