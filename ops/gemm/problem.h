// A gemm call as plain numbers: what every implementation of it starts from.
#pragma once

#include <algorithm>

#include "ops/gemm/gemm.h"

namespace weft::gemm {

// Of [n, k] weights, in elements: `row` steps over n, `step` over k.
struct WeightStrides {
    std::int64_t row = 0, step = 0;
};

// Strides count elements.
struct Problem {
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t a_stride = 0, residual_stride = 0, out_stride = 0;
    WeightStrides b, up;
};

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

inline Problem problem(const Gemm& op) {
    Problem p;
    p.n = op.b.dim(0);
    p.k = op.b.dim(1);
    p.m = p.n > 0 ? op.out.numel() / p.n : 0;
    p.a_stride = row_stride(op.a);
    p.b = weight_strides(op.b);
    if (op.up) p.up = weight_strides(op.up);
    p.residual_stride = op.residual ? row_stride(op.residual) : 0;
    p.out_stride = row_stride(op.out);
    return p;
}

// k contiguous ("TN") or n contiguous ("NN").
inline bool is_tn(const WeightStrides& s) { return s.step == 1; }
inline bool is_nn(const WeightStrides& s) { return s.step != 1 && s.row == 1; }

}  // namespace weft::gemm
