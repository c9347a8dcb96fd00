// A grouped product as products: each of its groups is a call of gemm, which says what is computed and how it lies in memory.
#pragma once

#include <algorithm>

#include "ops/gemm/problem.h"
#include "ops/grouped_gemm/grouped_gemm.h"

namespace weft::grouped {

// Index `i` of a tensor's first axis.
inline Tensor part_of(const Tensor& t, std::int64_t i) {
    if (!t) return {};
    Tensor part = t;
    part.data = static_cast<char*>(t.data) + bytes(t.dtype, i * t.stride[0]);
    part.rank = t.rank - 1;
    std::copy_n(&t.shape[1], part.rank, &part.shape[0]);
    std::copy_n(&t.stride[1], part.rank, &part.stride[0]);
    return part;
}
// The matrix in which the rows of group g lie: all rows, or the group's own.
inline Tensor rows_of(const GroupedGemm& op, const Tensor& t, std::int64_t g) {
    return op.apart() && t ? part_of(t, g) : t;
}
// A scale of a group as a tensor of one element.
inline Tensor scale_of(const Tensor& scales, std::int64_t g) {
    Tensor scale = part_of(scales, g);
    if (scale) scale.rank = 1, scale.shape[0] = 1, scale.stride[0] = 1;
    return scale;
}

// The product of group g as if all rows of its matrix were its own.
inline Gemm product_of(const GroupedGemm& op, std::int64_t g) {
    Gemm product{.a = rows_of(op, op.a, g),
                 .b = part_of(op.b, g),
                 .a_scale = op.a_scale,
                 .b_scale = scale_of(op.b_scale, g),
                 .bias = part_of(op.bias, g),
                 .up = part_of(op.up, g),
                 .up_scale = scale_of(op.up_scale, g),
                 .up_bias = part_of(op.up_bias, g),
                 .a_group_scale = rows_of(op, op.a_group_scale, g),
                 .b_block_scale = part_of(op.b_block_scale, g),
                 .up_block_scale = part_of(op.up_block_scale, g),
                 .out = rows_of(op, op.out, g)};
    product.activation = op.activation;
    return product;
}

// A group's rows in its matrix.
struct Span {
    std::int64_t begin = 0, end = 0;
};
// Of group g; `before`: of the group before, where rows are one after the other.
inline Span span_of(const GroupedGemm& op, std::int64_t g, const Span& before) {
    const Tensor& numbers = op.numbers();
    const std::int64_t number = numbers ? load_integer(numbers.dtype, numbers.data, g) : op.rows();
    if (op.apart()) return {0, std::clamp<std::int64_t>(number, 0, op.rows())};
    return {before.end, std::clamp(number, before.end, op.rows())};
}

// Elements from one group to the next; of a lone group nothing is asked.
inline std::int64_t apart(const Tensor& t) { return t && t.dim(0) > 1 ? t.stride[0] : 0; }

}  // namespace weft::grouped
