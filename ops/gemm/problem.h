// A gemm call as plain numbers: what every implementation of it starts from.
#pragma once

#include <algorithm>

#include "ops/gemm/gemm.h"

namespace weft::gemm {

// Strides count elements. `b_row` steps over n, `b_step` over k.
struct Problem {
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t a_stride = 0, b_row = 0, b_step = 0, residual_stride = 0, out_stride = 0;
};

// The stride of a lone row, or column, is meaningless: it becomes what a dense matrix has.
inline std::int64_t row_stride(const Tensor& t) {
    const Rows rows = fold_rows(t).value_or(Rows{});
    return rows.rows > 1 && t.numel() > 0 ? rows.stride : rows.dim;
}

inline Problem problem(const Gemm& op) {
    Problem p;
    p.n = op.b.dim(0);
    p.k = op.b.dim(1);
    p.m = p.n > 0 ? op.out.numel() / p.n : 0;
    p.a_stride = row_stride(op.a);
    p.b_row = op.b.stride[0];
    p.b_step = op.b.stride[1];
    if (p.k <= 1) p.b_step = p.b_row == 1 && p.n > 1 ? p.n : 1;
    if (p.n <= 1) p.b_row = p.b_step == 1 ? std::max<std::int64_t>(1, p.k) : 1;
    p.residual_stride = op.residual ? row_stride(op.residual) : 0;
    p.out_stride = row_stride(op.out);
    return p;
}

// k contiguous ("TN") or n contiguous ("NN").
inline bool is_tn(const Problem& p) { return p.b_step == 1; }
inline bool is_nn(const Problem& p) { return p.b_step != 1 && p.b_row == 1; }

}  // namespace weft::gemm
