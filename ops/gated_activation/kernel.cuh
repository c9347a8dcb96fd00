// gated_activation's kernels.
#pragma once

#include "kit/activation.cuh"
#include "kit/row_quantize.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input

// act(gate)·up. The choice is the same for the whole grid: one branch a vector. gelu_erf, whose code is long,
// is left out where kErf says that it is not asked for.
template <bool kErf>
__device__ __forceinline__ void gated(kit::Activation activation, const float (&g)[kWidth],
                                      const float (&u)[kWidth], float (&product)[kWidth]) {
    if (activation == kit::Activation::silu) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) product[i] = kit::silu(g[i]) * u[i];
    } else if (!kErf || activation == kit::Activation::gelu_tanh) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) product[i] = kit::gelu_tanh(g[i]) * u[i];
    } else {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) product[i] = kit::gelu_erf(g[i]) * u[i];
    }
}

// Where the products come from.
struct GateAndUp {
    kit::VectorRows gate, up;
    kit::Activation activation;
};

struct GatedOut {
    kit::VectorRows rows;
    const float* scale;  // null: 1
};

// What     out = act(gate)·up / scale
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh)
// Traffic  gate and up once, out once: bound by memory. Two loads of 16 bytes in flight a thread; about 15
//          instructions an element, two of them on the special-function unit
// Needs    out may be gate's or up's memory: a thread reads its vectors before it writes there
template <class T, class Out, bool kErf>
__global__ void __launch_bounds__(256) gated_activation(GateAndUp in, GatedOut out, kit::RowTiles tiles) {
    kit::for_each_vector<kWidth, Out>(tiles, out.rows.dtype, [&](auto* type, const auto& at) {
        using O = std::remove_pointer_t<decltype(type)>;
        constexpr bool kScaled = std::is_same_v<O, kit::e4m3> || std::is_same_v<O, kit::e5m2>;
        // The scale is asked for first: it is divided by while the vectors are under way.
        const float scale = kScaled && out.scale != nullptr ? *out.scale : 1.0f;
        const auto gate = kit::load<T, kWidth>(in.gate, at), up = kit::load<T, kWidth>(in.up, at);
        const float inverse = 1.0f / scale;
        float g[kWidth], u[kWidth], product[kWidth];
        kit::to_floats(gate, g);
        kit::to_floats(up, u);
        gated<kErf>(in.activation, g, u, product);
        if constexpr (kScaled) {
#pragma unroll
            for (float& value : product) value *= inverse;
        }
        kit::store<O>(out.rows, at, product);
    });
}

// The products of a row for kit::quantize_rows.
template <class T>
struct GatedRows {
    GateAndUp in;

    template <int kCount>
    struct Batch {
        kit::Vec<T, kWidth> gate[kCount], up[kCount];
    };

    template <int kCount>
    __device__ __forceinline__ void load(Batch<kCount>& batch, std::int64_t row, std::int64_t dim,
                                         std::int64_t column, std::int64_t step) const {
        const T *gates = static_cast<const T*>(in.gate.data) + row * in.gate.stride,
                *ups = static_cast<const T*>(in.up.data) + row * in.up.stride;
        if (in.gate.aligned && in.up.aligned && kit::whole_batch<kWidth, kCount>(dim, column, step)) {
            kit::load_whole(batch.gate, gates, column, step);
            kit::load_whole(batch.up, ups, column, step);
        } else {
            kit::load_parts(batch.gate, gates, dim, column, step, in.gate.aligned);
            kit::load_parts(batch.up, ups, dim, column, step, in.up.aligned);
        }
    }

    template <int kCount>
    __device__ __forceinline__ void values(const Batch<kCount>& batch, int b,
                                           float (&product)[kWidth]) const {
        float g[kWidth], u[kWidth];
        kit::to_floats(batch.gate[b], g);
        kit::to_floats(batch.up[b], u);
        gated<true>(in.activation, g, u, product);
    }
};

// What     scale[row] = amax(act(gate)·up) / max; out = act(gate)·up / scale[row]
// Mapping  one block a row; a thread keeps up to 4 vectors of products in registers, longer rows are read twice
// Traffic  gate and up once (twice beyond 16384 columns, then from L2), out once: bound by memory
// Needs    nothing of out overlaps the inputs (its elements are narrower)
template <class T>
__global__ void __launch_bounds__(kit::kMaxRowThreads, 1)
    gated_activation_token(GateAndUp in, kit::QuantizedRows rows) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::quantize_rows<kWidth>(rows, GatedRows<T>{in});
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
