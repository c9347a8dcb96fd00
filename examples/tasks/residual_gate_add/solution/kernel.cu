// residual + update * gate, the product rounded before the sum, on weft's kit.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <algorithm>

#include "kit/convert.cuh"
#include "kit/launch.h"
#include "kit/vector.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using kit::bf16;

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes
inline constexpr int kRows = 4;   // of a thread: all its vectors are on their way before the first is used
inline constexpr int kMostThreads = 256;

struct GateParams {
    const bf16 *residual, *update, *gate;
    bf16* out;
    std::int64_t rows;
    int dim;
};

// What     out = round(residual + round(update * gate)); gate is one row for all
// Mapping  a thread owns one vector of the row in kRows rows, and its part of the gate in registers
// Traffic  residual, update and out once: bound by memory
// Needs    dense rows; kWhole: all bases, and dim, allow whole vectors, which wait as words: a vector that is taken apart
//          where it is loaded is waited for before the next load
template <bool kWhole>
__global__ void __launch_bounds__(kMostThreads) gated(GateParams p) {
    const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * kWidth;
    const int left = p.dim - column;
    if (left <= 0) return;
    const auto load = [&](const bf16* from) {
        if constexpr (kWhole) return kit::load_words<kWidth>(from);
        return kit::as_words(kit::load_vector<kWidth>(from, left, false));
    };
    const auto widen = [](const kit::Words<bf16, kWidth>& words, float (&to)[kWidth]) {
        kit::to_floats(kit::as_vector<bf16, kWidth>(words), to);
    };
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kRows;
    kit::Words<bf16, kWidth> residual[kRows], update[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        if (first + i >= p.rows) break;
        residual[i] = load(p.residual + (first + i) * p.dim + column);
        update[i] = load(p.update + (first + i) * p.dim + column);
    }
    float gate[kWidth];
    widen(load(p.gate + column), gate);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        if (first + i >= p.rows) break;
        float sum[kWidth], product[kWidth];
        widen(residual[i], sum);
        widen(update[i], product);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) sum[j] += kit::round_through<bf16>(product[j] * gate[j]);
        bf16* to = p.out + (first + i) * p.dim + column;
        const auto result = kit::from_floats<bf16, kWidth>(sum);
        kWhole ? kit::store_aligned(to, result) : kit::store_vector(to, result, left, false);
    }
}

const bf16* data(const tvm::ffi::TensorView& tensor) { return static_cast<const bf16*>(tensor.data_ptr()); }

void run(tvm::ffi::TensorView residual, tvm::ffi::TensorView update, tvm::ffi::TensorView gate,
         tvm::ffi::TensorView out) {
    const DLDevice device = out.device();
    const GateParams p{data(residual),   data(update),
                       data(gate),       static_cast<bf16*>(out.data_ptr()),
                       residual.size(0), static_cast<int>(residual.size(1))};
    const bool whole =
        p.dim % kWidth == 0 &&
        (reinterpret_cast<std::uintptr_t>(p.residual) | reinterpret_cast<std::uintptr_t>(p.update) |
         reinterpret_cast<std::uintptr_t>(p.gate) | reinterpret_cast<std::uintptr_t>(p.out)) %
                16 ==
            0;
    const int vectors = (p.dim + kWidth - 1) / kWidth;
    // Blocks as equal as whole warps allow: 384 vectors are two blocks of 192 threads, not 256 and 128.
    const int columns = (vectors + kMostThreads - 1) / kMostThreads;
    const int threads = ((vectors + columns - 1) / columns + 31) / 32 * 32;
    const std::int64_t groups = (p.rows + kRows - 1) / kRows;
    if (groups > 65535) TVM_FFI_THROW(ValueError) << "residual_gate_add: more than 262140 rows";
    const Stream stream{TVMFFIEnvGetStream(device.device_type, device.device_id)};
    kit::launch("residual_gate_add", whole ? gated<true> : gated<false>,
                {.grid = dim3(static_cast<unsigned>(columns), static_cast<unsigned>(groups)),
                 .block = static_cast<unsigned>(threads)},
                stream, p);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, weft::run)
