// top_k's executable specification.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/top_k/top_k.h"
#include "weft/op.h"

namespace weft {
namespace {

// Whether a comes before b: larger, NaN above all.
bool before(double a, double b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

std::vector<std::int64_t> by_value(const std::vector<double>& values) {
    std::vector<std::int64_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return before(values[static_cast<std::size_t>(a)], values[static_cast<std::size_t>(b)]);
    });
    return order;
}

// Of each group, whether it takes part.
std::vector<bool> best_groups(const TopK& op, const std::vector<double>& keys) {
    const auto groups = static_cast<std::size_t>(op.groups), each = keys.size() / groups;
    std::vector<double> scores(groups);
    for (std::size_t g = 0; g < groups; ++g) {
        std::vector<double> own(keys.begin() + static_cast<std::ptrdiff_t>(g * each),
                                keys.begin() + static_cast<std::ptrdiff_t>((g + 1) * each));
        std::stable_sort(own.begin(), own.end(), before);
        scores[g] = op.group_top > 1 && each > 1 ? round_to(DType::fp32, own[0] + own[1])
                    : each > 0                   ? own[0]
                                                 : 0;
    }
    std::vector<bool> chosen(groups);
    const auto order = by_value(scores);
    for (std::int64_t i = 0; i < op.top_groups; ++i)
        chosen[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = true;
    return chosen;
}

void reference(const TopK& op, Oracle& oracle) {
    const Rows scores = *fold_rows(op.scores), values = *fold_rows(op.values),
               indices = *fold_rows(op.indices);
    std::vector<double> keys(static_cast<std::size_t>(scores.dim));
    for (std::int64_t row = 0; row < scores.rows; ++row) {
        const auto score = [&](std::int64_t i) {
            return load_element(op.scores.dtype, op.scores.data, row * scores.stride + i);
        };
        for (std::int64_t i = 0; i < scores.dim; ++i) {
            const double key = score(i) + (op.bias ? load_element(op.bias.dtype, op.bias.data, i) : 0);
            keys[static_cast<std::size_t>(i)] = round_to(DType::fp32, key);
        }
        const std::vector<bool> takes_part = best_groups(op, keys);
        const std::int64_t each = std::max<std::int64_t>(1, scores.dim / op.groups);
        std::int64_t found = 0;
        for (const std::int64_t i : by_value(keys)) {
            if (found == op.k) break;
            if (!takes_part[static_cast<std::size_t>(i / each)]) continue;
            oracle.store(op.values, row * values.stride + found, score(i));
            oracle.store_exact(op.indices, row * indices.stride + found, i);
            ++found;
        }
    }
}

const RegisterReference<TopK> kReference{reference};

}  // namespace
}  // namespace weft
