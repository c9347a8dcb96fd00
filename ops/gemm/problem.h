// A gemm call as plain numbers: what every implementation of it starts from.
#pragma once

#include <algorithm>
#include <bit>

#include "ops/gemm/gemm.h"
#include "weft/row_map.h"

namespace weft::gemm {

// Columns of a, and rows and columns of weights, that share a scale where groups and blocks have scales.
inline constexpr int kScaleColumns = 128, kScaleRows = 128;

// Of [n, k] weights, in elements: `row` steps over n, `step` over k.
struct WeightStrides {
    std::int64_t row = 0, step = 0;
};

// Strides count elements.
struct Problem {
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t a_stride = 0, out_stride = 0;
    std::int64_t residual_stride = 0;  // 0 where its rows are no matrix beside out (own_stride)
    WeightStrides b, up;
};

// The rows of gate or residual as those of out find them, over the fewest axes.
inline RowMap rows_beside(const Tensor& operand, const Tensor& out) {
    RowMap map = map_rows(operand, out).value_or(RowMap{});
    RowMap* const alone[] = {&map};
    fold_maps(alone);
    return map;
}
// Where the elements of such an operand lie, that is there or not: from its first to element n of the row that belongs to row
// m of out it is row(m) + column(n).
struct Beside {
    RowMap map;
    Beside(const Tensor& operand, const Tensor& out) {
        if (operand) map = rows_beside(operand, out);
    }
    std::int64_t row(std::int64_t m) const { return map.offset(m); }
    std::int64_t column(std::int64_t n) const { return map.single ? 0 : n; }
};
// The stride of an operand that has a row for each of out's, one stride apart; else 0.
inline std::int64_t own_stride(const Tensor& operand, const Tensor& out) {
    const RowMap map = rows_beside(operand, out);
    if (map.single || map.axes > 1) return 0;
    return map.axes == 1 ? map.stride[0] : out.dim(-1);
}

// The stride of a lone row, or column, is meaningless: it becomes what a dense matrix has.
inline std::int64_t row_stride(const Tensor& t) {
    const Rows rows = fold_rows(t).value_or(Rows{});
    return rows.rows > 1 && t.numel() > 0 ? rows.stride : rows.dim;
}

inline WeightStrides weight_strides(const Tensor& t) {
    WeightStrides s{t.stride[0], t.stride[1]};
    const std::int64_t n = t.dim(0), k = t.dim(1);
    if (k <= 1) s.step = s.row == 1 && n > 1 ? n : 1;
    if (n <= 1) s.row = s.step == 1 ? std::max<std::int64_t>(1, k) : 1;
    return s;
}

// The scales of an operand that change along k, and how many of its rows and columns share one; `data` is null where there are
// none.
struct ScalesAlong {
    GroupScales groups;
    int rows = 1, columns_log2 = 0;
    const std::int8_t* zeros = nullptr;  // of each group: what is subtracted from its codes of int4, dense

    constexpr int columns() const { return 1 << columns_log2; }
    float at(std::int64_t row, std::int64_t k) const {
        if (groups.data == nullptr) return 1.0f;
        const std::int64_t place = groups.at(row / rows, k >> columns_log2);
        return static_cast<float>(load_element(groups.dtype, groups.data, place));
    }
    constexpr float zero(std::int64_t row, std::int64_t k) const {
        return zeros == nullptr ? 0.0f : zeros[row * groups.groups + (k >> columns_log2)];
    }
};
inline int log2_of(int columns) { return std::countr_zero(static_cast<unsigned>(columns)); }
inline ScalesAlong scales_along(const Tensor& linear, const Tensor& swizzled, std::int64_t rows,
                                std::int64_t k) {
    const GroupScales groups = group_scales(linear, swizzled, rows, k);
    return {groups, 1, groups.data == nullptr ? 0 : log2_of(group_columns(groups.dtype))};
}
// Of codes of int4, whose scales' dtype does not say how many columns share one.
inline ScalesAlong scales_of_int4(const Tensor& codes, const Tensor& scales, const Tensor& zeros,
                                  std::int64_t columns) {
    GroupScales groups{.data = scales.data, .dtype = scales.dtype, .rows = codes.dim(0)};
    groups.groups = groups.padded_groups = scales.dim(1);
    groups.padded_rows = groups.rows;
    groups.row_stride = groups.rows > 1 ? scales.stride[0] : 0;
    groups.group_stride = groups.groups > 1 ? scales.stride[1] : 0;
    return {groups, 1, log2_of(static_cast<int>(columns)), zeros ? zeros.as<const std::int8_t>() : nullptr};
}
inline ScalesAlong scales_of_a(const Gemm& op) {
    const std::int64_t k = op.b.dim(1);
    return scales_along(op.a_group_scale, op.a_swizzled_scale, k > 0 ? op.a.numel() / k : 0, k);
}
// Of b, and of up.
inline ScalesAlong scales_of_weights(const Tensor& codes, const Tensor& block, const Tensor& linear,
                                     const Tensor& swizzled) {
    if (block) return {group_scales(block, {}, 0, 0), kScaleRows, log2_of(kScaleColumns)};
    return codes ? scales_along(linear, swizzled, codes.dim(0), codes.dim(1)) : ScalesAlong{};
}
inline ScalesAlong scales_of_b(const Gemm& op) {
    if (op.whole_codes()) return scales_of_int4(op.b, op.b_group_scale, op.b_group_zero, op.group);
    return scales_of_weights(op.b, op.b_block_scale, op.b_group_scale, op.b_swizzled_scale);
}
inline ScalesAlong scales_of_up(const Gemm& op) {
    if (op.whole_codes() && op.up)
        return scales_of_int4(op.up, op.up_group_scale, op.up_group_zero, op.group);
    return scales_of_weights(op.up, op.up_block_scale, op.up_group_scale, op.up_swizzled_scale);
}

// Whether rows of codes of four bits, which begin at whole words, consist of such, and 32 bits count their bytes, scales and
// zero points.
inline bool plain_codes(std::int64_t rows, std::int64_t length, std::int64_t stride,
                        const ScalesAlong& scales) {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    const std::int64_t last = (length - 1) >> scales.columns_log2;  // of a row's groups
    return length > 0 && length % 8 == 0 && rows <= kMost && ((rows - 1) * stride + length) / 2 <= kMost &&
           scales.groups.at(rows - 1, last) <= kMost &&
           (scales.zeros == nullptr || rows * (last + 1) <= kMost);
}

inline Problem problem(const Gemm& op) {
    Problem p;
    p.n = op.b.dim(0);
    p.k = op.b.dim(1);
    p.m = p.n > 0 ? op.out.numel() / p.n : 0;
    p.a_stride = row_stride(op.a);
    p.b = weight_strides(op.b);
    if (op.up) p.up = weight_strides(op.up);
    p.residual_stride = op.residual ? own_stride(op.residual, op.out) : 0;
    p.out_stride = row_stride(op.out);
    return p;
}

// k contiguous ("TN") or n contiguous ("NN").
inline bool is_tn(const WeightStrides& s) { return s.step == 1; }
inline bool is_nn(const WeightStrides& s) { return s.step != 1 && s.row == 1; }

}  // namespace weft::gemm
