// What implementations of gemm that are several launches leave each other in scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/gemm/gemm.h"
#include "weft/tensor.h"

namespace weft::gemm {

// Bytes of it that one call may take, the library's own workspace not counted.
inline constexpr std::size_t kMostScratch = std::size_t{1} << 30;

// The axes of `like` over elements of `dtype` at address `at`, dense but for the rows, which are `stride` elements apart.
inline Tensor in_scratch(const Tensor& like, DType dtype, std::int64_t stride, std::uintptr_t at) {
    Tensor t = like;
    t.data = reinterpret_cast<void*>(at);
    t.dtype = dtype;
    t.stride[t.rank - 1] = 1;
    for (int axis = t.rank - 2; axis >= 0; --axis) {
        t.stride[axis] = stride;
        stride *= t.shape[axis];
    }
    return t;
}

// What is left of a call once operands that nobody multiplies well as they are have been made anew in scratch memory.
struct Remade {
    Gemm product;
    std::size_t bytes = 0;  // of scratch
};

}  // namespace weft::gemm
