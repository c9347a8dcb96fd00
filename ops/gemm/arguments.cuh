// A gemm call as its kernels are given it.
#pragma once

#include "kit/vector.cuh"
#include "ops/gemm/epilogue.cuh"
#include "ops/gemm/problem.h"
#include "ops/gemm/scales.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T = void>
const T* data_of(const Tensor& t) {
    return t ? static_cast<const T*>(t.data) : nullptr;
}

ByColumn by_column(const Tensor& t) { return {data_of(t), t.dtype, t && kit::rows_aligned(t, 4)}; }

RowsBeside rows_beside_of(const Tensor& t, const Tensor& out) {
    if (!t) return {};
    return {t.data, t.dtype, kit::rows_aligned(t, 4), gemm::rows_beside(t, out)};
}

Epilogue epilogue_of(const Gemm& op, const gemm::Problem& p) {
    Epilogue e{};
    e.a_scale = data_of<float>(op.a_scale);
    e.b_scale = data_of<float>(op.b_scale);
    e.up_scale = data_of<float>(op.up_scale);
    e.out_scale = data_of<float>(op.out_scale);
    e.token_scale = data_of<float>(op.a_token_scale);
    e.channel_scale = by_column(op.b_channel_scale);
    e.up_channel_scale = by_column(op.up_channel_scale);
    e.bias = by_column(op.bias);
    e.up_bias = by_column(op.up_bias);
    e.out = op.out.data;
    e.out_stride = p.out_stride;
    e.out_dtype = op.out.dtype;
    e.activation = op.activation;
    e.gated = static_cast<bool>(op.up);
    e.out_vectors = kit::rows_aligned(op.out, 4);
    e.residual = rows_beside_of(op.residual, op.out);
    e.gate = rows_beside_of(op.gate, op.out);
    return e;
}

inline ScalesWithin scales_within(const Gemm& op) {
    if (!op.scaled_within()) return {};
    const auto of_blocks = [](const Tensor& t) -> StepScales<gemm::kScaleRows> {
        return {data_of<float>(t), t ? t.stride[0] : 0, t ? t.stride[1] : 0};
    };
    const GroupScales a = group_scales(op.a_group_scale, {}, 0, 0);
    const bool by_fours = a.data != nullptr && a.row_stride == 1 && a.group_stride % 4 == 0 &&
                          reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0 && gemm::problem(op).m % 4 == 0;
    return {{static_cast<const float*>(a.data), a.row_stride, a.group_stride},
            of_blocks(op.b_block_scale),
            of_blocks(op.up_block_scale),
            by_fours};
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
