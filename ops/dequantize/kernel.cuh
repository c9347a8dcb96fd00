// dequantize's kernel.
#pragma once

#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit output

struct Scales {
    const float *tensor, *token;  // null: 1
};

// What     out = x · scale
// Mapping  a thread owns one vector of 8 codes of a row (kit/elementwise.cuh)
// Traffic  the codes once, out once: bound by memory
// Needs    at most one of the two scales
template <class T, class Out>
__global__ void __launch_bounds__(256)
    dequantize(kit::VectorRows in, Scales scales, kit::VectorRows out, kit::RowTiles tiles) {
    kit::for_each_vector<kWidth, Out>(tiles, out.dtype, [&](auto* type, const auto& at) {
        const float scale = scales.token != nullptr    ? scales.token[at.row]
                            : scales.tensor != nullptr ? *scales.tensor
                                                       : 1.0f;
        const auto codes = kit::load<T, kWidth>(in, at);
        float values[kWidth];
        kit::to_floats(codes, values);
#pragma unroll
        for (float& value : values) value *= scale;
        kit::store<std::remove_pointer_t<decltype(type)>>(out, at, values);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
