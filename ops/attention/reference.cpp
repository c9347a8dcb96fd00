// Attention: the executable specification.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/tolerance.h"
#include "weft/op.h"

namespace weft {
namespace {

using Values = std::vector<double>;
std::int64_t offset(const Tensor& t, std::int64_t a, std::int64_t b, std::int64_t c) {
    return a * t.stride[0] + b * t.stride[1] + (t.rank > 2 ? c * t.stride[2] : 0);
}

Values row_at(const Tensor& t, std::int64_t begin) {
    Values row(t.dim(3));
    for (double& element : row) element = load_element(t.dtype, t.data, begin++);
    return row;
}

// One query row over the keys that it sees.
void attend(const Attention& op, Oracle& oracle, const Values& q, std::span<const Values> k,
            std::span<const Values> v, double sink, std::int64_t out, std::int64_t lse) {
    Values x, p, value(q.size()), error(q.size());
    double top = std::isnan(sink) ? -INFINITY : sink;
    for (const Values& key : k) {
        const double score = std::inner_product(q.begin(), q.end(), key.begin(), 0.0) * op.softmax_scale();
        x.push_back(op.softcap == 0 ? score : op.softcap * std::tanh(score / op.softcap));
        if (x.back() > top) top = x.back();  // a NaN is no maximum, and comes back through p
    }
    const double base = top == -INFINITY ? 0 : top;
    double sum = std::exp(sink - base);
    for (const double score : x) sum += p.emplace_back(std::exp(score - base));
    const attention::RowError bound(op, q, k, x, p, sink, base, sum);
    for (std::size_t j = 0; j < p.size() && sum != 0; ++j) {
        for (std::size_t d = 0; d < q.size(); ++d) {
            value[d] += p[j] * v[j][d];
            error[d] += bound.of_term(j, p[j] / sum, v[j][d]);
        }
    }
    for (std::size_t d = 0; d < q.size(); ++d)
        oracle.store(op.out, out++, sum == 0 ? 0 : value[d] / sum, bound.finite(error[d]));
    if (op.lse) oracle.store(op.lse, lse, std::log(sum) + base, bound.of_lse());
}

// All queries of a batch over one key head.
void attend_all(const Attention& op, Oracle& oracle, std::int64_t b, std::int64_t kv_head) {
    const std::int64_t queries = op.q.dim(1), group = op.q.dim(2) / op.k.dim(2);
    const std::int64_t given = op.kv_lengths ? op.kv_lengths.as<std::int32_t>()[b] : op.k.dim(1);
    const std::int64_t keys = std::clamp<std::int64_t>(given, 0, op.k.dim(1));
    const std::int64_t left = op.window_left < 0 ? op.kWidest : op.window_left;
    const std::int64_t right = op.causal ? 0 : op.window_right < 0 ? op.kWidest : op.window_right;
    std::vector<Values> k, v;
    std::vector<std::size_t> unmasked = {0};  // of the first j keys
    for (std::int64_t j = 0; j < keys; ++j) {
        if (!op.key_mask || op.key_mask.as<std::uint8_t>()[offset(op.key_mask, b, j, 0)] != 0) {
            k.push_back(row_at(op.k, offset(op.k, b, j, kv_head)));
            v.push_back(row_at(op.v, offset(op.v, b, j, kv_head)));
        }
        unmasked.push_back(k.size());
    }
    for (std::int64_t i = 0; i < queries; ++i) {
        const std::int64_t position = i + keys - queries;
        const std::int64_t limit =
            op.key_limits ? op.key_limits.as<std::int32_t>()[offset(op.key_limits, b, i, 0)] : keys;
        const auto end = unmasked[std::clamp<std::int64_t>(std::min(position + right + 1, limit), 0, keys)];
        const auto begin = std::min(unmasked[std::clamp<std::int64_t>(position - left, 0, keys)], end);
        for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
            if (!oracle.wants((b * queries + i) * op.q.dim(2) + h)) continue;
            const double sink = op.sinks ? op.sinks.as<float>()[h] : -INFINITY;
            attend(op, oracle, row_at(op.q, offset(op.q, b, i, h)), {k.data() + begin, end - begin},
                   {v.data() + begin, end - begin}, sink, offset(op.out, b, i, h), offset(op.lse, b, h, i));
        }
    }
}

void reference(const Attention& op, Oracle& oracle) {
    const std::int64_t heads = op.k.dim(2);
    for (std::int64_t i = 0; i < op.k.dim(0) * heads; ++i) attend_all(op, oracle, i / heads, i % heads);
}

const RegisterReference<Attention> kReference{reference};

}  // namespace
}  // namespace weft
