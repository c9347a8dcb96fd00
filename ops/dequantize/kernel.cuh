// dequantize's kernels.
#pragma once

#include "kit/elementwise.cuh"
#include "kit/narrow.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit output

// Those of the tensor, of rows, of groups of a row's columns, and of blocks of 128 by 128; null: there are none.
struct Scales {
    const float *tensor, *token, *block;
    std::int64_t block_row_stride, block_column_stride;
    GroupScales groups;

    // Of a vector that begins at this column.
    __device__ __forceinline__ float at(std::int64_t row, std::int64_t column) const {
        if (block != nullptr) return block[row / 128 * block_row_stride + column / 128 * block_column_stride];
        if (token != nullptr) return token[row];
        const float scale = tensor != nullptr ? *tensor : 1.0f;
        return groups.data != nullptr ? kit::load_group_scale(groups, row, column) * scale : scale;
    }
};

// What     out = x · scale
// Mapping  a thread owns one vector of 8 codes of a row (kit/elementwise.cuh)
// Traffic  the codes once, out once: bound by memory
// Needs    no scales of groups or blocks
template <class T, class Out>
__global__ void __launch_bounds__(256)
    dequantize(kit::VectorRows in, Scales scales, kit::VectorRows out, kit::RowTiles tiles) {
    kit::for_each_vector<kWidth, Out>(tiles, [&](const auto& at) {
        const float scale = scales.token != nullptr    ? scales.token[at.row]
                            : scales.tensor != nullptr ? *scales.tensor
                                                       : 1.0f;
        const auto codes = kit::load<T, kWidth>(in, at);
        float values[kWidth];
        kit::to_floats(codes, values);
#pragma unroll
        for (float& value : values) value *= scale;
        kit::store_row<Out>(out, at, values);
    });
}

// What     out = x · scale of any codes and scales: their dtypes are decided here
// Mapping  a thread owns one vector of 8 codes of a row, which lies in one group and one block
// Traffic  the codes and their scales once, out once: bound by memory
__global__ void __launch_bounds__(256)
    dequantize_any(kit::VectorRows in, Scales scales, kit::VectorRows out, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::with_code(in.dtype, [&](auto* code) {
        kit::for_each_tile<kWidth, 1>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t) {
            const int count = kit::left<kWidth>(tiles.dim, column);
            const float scale = scales.at(row, column);
            float values[kWidth];
            kit::load_codes<std::remove_pointer_t<decltype(code)>>(in.data, row * in.stride + column, count,
                                                                   in.aligned, values);
#pragma unroll
            for (float& value : values) value *= scale;
            kit::with_wide_type(out.dtype, [&](auto* type) {
                using Out = std::remove_pointer_t<decltype(type)>;
                kit::store_vector(static_cast<Out*>(out.data) + row * out.stride + column,
                                  kit::from_floats<Out>(values), count, out.aligned);
            });
        });
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
