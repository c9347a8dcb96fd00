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

// Key head h's scale; absent, 1.
double scale_of(const Tensor& scale, std::int64_t h) {
    return scale ? scale.as<float>()[h * scale.stride[0]] : 1;
}

// What a query's softmax is told beside its keys: the factor of its products and the logit of its sink.
struct Row {
    double scale, sink;
    std::int64_t out, lse;  // where its results lie
};

// One query row over the keys that it sees.
void attend(const Attention& op, Oracle& oracle, const Values& q, std::span<const Values> k,
            std::span<const Values> v, const Row& row) {
    auto [scale, sink, out, lse] = row;
    const std::size_t columns = static_cast<std::size_t>(op.v.dim(3));
    Values x, p, value(columns), error(columns);
    double top = std::isnan(sink) ? -INFINITY : sink;
    for (const Values& key : k) {
        const double score = std::inner_product(q.begin(), q.end(), key.begin(), 0.0) * scale;
        x.push_back(op.softcap == 0 ? score : op.softcap * std::tanh(score / op.softcap));
        if (x.back() > top) top = x.back();  // a NaN is no maximum, and comes back through p
    }
    const double base = top == -INFINITY ? 0 : top;
    double sum = std::exp(sink - base);
    for (const double score : x) sum += p.emplace_back(std::exp(score - base));
    const attention::RowError bound(op, scale, q, k, x, p, sink, base, sum, oracle.hardware());
    for (std::size_t j = 0; j < p.size() && sum != 0; ++j) {
        for (std::size_t d = 0; d < columns; ++d) {
            value[d] += p[j] * v[j][d];
            error[d] += bound.of_term(j, p[j] / sum, v[j][d]);
        }
    }
    for (std::size_t d = 0; d < columns; ++d)
        oracle.store(op.out, out++, sum == 0 ? 0 : value[d] / sum, bound.finite(error[d]));
    if (op.lse) oracle.store(op.lse, lse, std::log(sum) + base, bound.of_lse());
}

// Queries that share keys: those of a batch, or of a packed sequence.
struct Sequence {
    std::int64_t index, batch;  // batch: where it lies in q, and where it lies in k unless that has pages
    std::int64_t first_query, queries, first_key, keys;

    Sequence(const Attention& op, std::int64_t index)
        : index(index),
          batch(op.cu_seqlens_q ? 0 : index),
          first_query(0),
          queries(op.q.dim(1)),
          first_key(0),
          keys(attention::Extent(op).keys) {
        const auto take = [&](const Tensor& offsets, std::int64_t& first, std::int64_t& count) {
            if (!offsets) return;
            first = offsets.as<std::int32_t>()[index];
            count = offsets.as<std::int32_t>()[index + 1] - first;
        };
        take(op.cu_seqlens_q, first_query, queries);
        take(op.cu_seqlens_k, first_key, keys);
        if (op.kv_lengths) keys = std::clamp<std::int64_t>(op.kv_lengths.as<std::int32_t>()[index], 0, keys);
    }
    // Row j of one head, of k or v.
    Values row(const Attention& op, const Tensor& t, std::int64_t j, std::int64_t kv_head) const {
        if (!op.block_table) return row_at(t, offset(t, batch, first_key + j, kv_head));
        const std::int64_t tokens = t.dim(1);
        const std::int64_t page =
            op.block_table.as<std::int32_t>()[offset(op.block_table, index, j / tokens, 0)];
        if (page < 0 || page >= t.dim(0)) return Values(t.dim(3));
        return row_at(t, offset(t, page, j % tokens, kv_head));
    }
};

// All queries of a sequence over one key head.
void attend_all(const Attention& op, Oracle& oracle, const Sequence& s, std::int64_t kv_head) {
    const std::int64_t heads = op.q.dim(2), group = heads / op.k.dim(2), b = s.batch;
    const std::int64_t left = op.window_left < 0 ? op.kWidest : op.window_left;
    const std::int64_t right = op.causal ? 0 : op.window_right < 0 ? op.kWidest : op.window_right;
    const double scale = op.softmax_scale() * scale_of(op.q_scale, kv_head) * scale_of(op.k_scale, kv_head);
    const double v_scale = scale_of(op.v_scale, kv_head);
    std::vector<Values> k, v;
    std::vector<std::size_t> unmasked = {0};  // of the first j keys
    for (std::int64_t j = 0; j < s.keys; ++j) {
        if (!op.key_mask || op.key_mask.as<std::uint8_t>()[offset(op.key_mask, b, j, 0)] != 0) {
            k.push_back(s.row(op, op.k, j, kv_head));
            Values& value = v.emplace_back(s.row(op, op.v, j, kv_head));
            for (double& element : value) element *= v_scale;
        }
        unmasked.push_back(k.size());
    }
    for (std::int64_t query = 0; query < s.queries; ++query) {
        const std::int64_t i = s.first_query + query, position = query + s.keys - s.queries;
        const std::int64_t limit =
            op.key_limits ? op.key_limits.as<std::int32_t>()[offset(op.key_limits, b, i, 0)] : s.keys;
        const auto end = unmasked[std::clamp<std::int64_t>(std::min(position + right + 1, limit), 0, s.keys)];
        const auto begin = std::min(unmasked[std::clamp<std::int64_t>(position - left, 0, s.keys)], end);
        for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
            if (!oracle.wants((b * op.q.dim(1) + i) * heads + h)) continue;
            const double sink = op.sinks ? op.sinks.as<float>()[h] : -INFINITY;
            attend(op, oracle, row_at(op.q, offset(op.q, b, i, h)), {k.data() + begin, end - begin},
                   {v.data() + begin, end - begin},
                   {scale, sink, offset(op.out, b, i, h), offset(op.lse, b, h, i)});
        }
    }
}

void reference(const Attention& op, Oracle& oracle) {
    for (std::int64_t i = 0; i < attention::Extent(op).sequences; ++i) {
        for (std::int64_t h = 0; h < op.k.dim(2); ++h) attend_all(op, oracle, Sequence(op, i), h);
    }
}

const RegisterReference<Attention> kReference{reference};

}  // namespace
}  // namespace weft
