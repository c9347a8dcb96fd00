// A gemm call as plain numbers: what every implementation of it starts from.
#pragma once

#include <algorithm>

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

// The scales along k of one row of a, or of one block of rows of weights; 1 where there are none.
class ScaleRow {
   public:
    ScaleRow(const Tensor& scales, std::int64_t row) {
        if (!scales) return;
        step_ = scales.stride[scales.rank - 1];
        data_ = scales.as<float>() + row * leading_stride(scales, 1).value_or(0);
    }
    explicit operator bool() const { return data_ != nullptr; }
    float at(std::int64_t k) const { return data_ != nullptr ? data_[k / kScaleColumns * step_] : 1.0f; }

   private:
    const float* data_ = nullptr;
    std::int64_t step_ = 0;
};

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
