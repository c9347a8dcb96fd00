// gated_activation's kernels.
#pragma once

#include "kit/activation.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/row_quantize.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input
inline constexpr int kBatch = 2;  // vectors of the gate, and of up, that a thread has in flight

// Where the products come from.
template <class T>
struct GateAndUp {
    const T *gate, *up;
    std::int64_t gate_stride, up_stride;
    bool gate_aligned, up_aligned;
    kit::Activation activation;

    template <int kCount>
    struct Batch {
        kit::Vec<T, kWidth> gate[kCount], up[kCount];
    };

    template <int kCount>
    __device__ __forceinline__ void load(Batch<kCount>& batch, std::int64_t row, std::int64_t dim,
                                         std::int64_t column, std::int64_t step) const {
        const T *gates = gate + row * gate_stride, *ups = up + row * up_stride;
        if (gate_aligned && up_aligned && kit::whole_batch<kWidth, kCount>(dim, column, step)) {
            kit::load_whole(batch.gate, gates, column, step);
            kit::load_whole(batch.up, ups, column, step);
        } else {
            kit::load_parts(batch.gate, gates, dim, column, step, gate_aligned);
            kit::load_parts(batch.up, ups, dim, column, step, up_aligned);
        }
    }

    template <int kCount>
    __device__ __forceinline__ void values(const Batch<kCount>& batch, int b,
                                           float (&product)[kWidth]) const {
        float g[kWidth], u[kWidth];
        kit::to_floats(batch.gate[b], g);
        kit::to_floats(batch.up[b], u);
        // The choice is the same for the whole grid: one branch a vector.
        switch (activation) {
            case kit::Activation::silu:
#pragma unroll
                for (int i = 0; i < kWidth; ++i) product[i] = kit::silu(g[i]) * u[i];
                break;
            case kit::Activation::gelu_tanh:
#pragma unroll
                for (int i = 0; i < kWidth; ++i) product[i] = kit::gelu_tanh(g[i]) * u[i];
                break;
            default:
#pragma unroll
                for (int i = 0; i < kWidth; ++i) product[i] = kit::gelu_erf(g[i]) * u[i];
        }
    }
};

struct GatedOut {
    void* data;
    std::int64_t stride;
    DType dtype;
    bool aligned;
    const float* scale;  // null: 1
};

// What     out = act(gate)·up / scale
// Mapping  a thread owns kBatch vectors of 8 elements of a row, `lanes` vectors apart (kit/elementwise.cuh)
// Traffic  gate and up once, out once: bound by memory. 2·kBatch loads of 16 bytes in flight a thread; about
// 16
//          instructions an element, two of them on the special-function unit
// Needs    out may be gate's or up's memory: a thread reads all its vectors of a batch before it writes them
template <class T>
__global__ void __launch_bounds__(256) gated_activation(GateAndUp<T> in, GatedOut out, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    const float inverse = out.scale != nullptr ? 1.0f / *out.scale : 1.0f;
    kit::for_each_tile<kWidth, kBatch>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
        typename GateAndUp<T>::template Batch<kBatch> batch;
        in.load(batch, row, tiles.dim, column, step);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const std::int64_t at = column + b * step;
            float product[kWidth];
            in.values(batch, b, product);
#pragma unroll
            for (float& value : product) value *= inverse;
            kit::store_floats(out.dtype, out.data, row * out.stride + at, product,
                              kit::left<kWidth>(tiles.dim, at), out.aligned);
        }
    });
}

// What     scale[row] = amax(act(gate)·up) / max; out = act(gate)·up / scale[row]
// Mapping  one block a row; a thread keeps up to 4 vectors of products in registers, longer rows are read twice
// Traffic  gate and up once (twice beyond 16384 columns, then from L2), out once: bound by memory
// Needs    nothing of out overlaps the inputs (its elements are narrower)
template <class T>
__global__ void __launch_bounds__(kit::kMaxRowThreads, 1)
    gated_activation_token(GateAndUp<T> in, kit::QuantizedRows rows) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::quantize_rows<kWidth>(rows, in);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
