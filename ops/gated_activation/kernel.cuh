// gated_activation's kernels.
#pragma once

#include "kit/activation.cuh"
#include "kit/row_quantize.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input

// What few calls ask for has one copy of its code, which they share: a bias, and PyTorch's forms and roundings.
template <int N, class At>
[[gnu::noinline]] __device__ void add_bias(const kit::VectorRows& bias, const At& at, bool eager, DType dtype,
                                           float (&to)[N]) {
    float terms[N];
    kit::load_shared(bias, at, 0.0f, terms);
#pragma unroll 1
    for (int i = 0; i < N; ++i) {
        to[i] += terms[i];
        if (eager) to[i] = kit::round_as(dtype, to[i]);
    }
}
// A vector as a call passes it, in registers.
struct Octet {
    float at[kWidth];
};
// A vector a call: its elements do not wait for each other.
[[gnu::noinline]] __device__ Octet eager_activation(Activation activation, DType dtype, Octet x) {
    const auto each = [&](auto act) {
#pragma unroll
        for (float& value : x.at) value = act(value);
    };
    switch (activation) {
        case Activation::silu: each([](float v) { return kit::eager::silu(v); }); break;
        case Activation::gelu_tanh: each([](float v) { return kit::eager::gelu_tanh(v); }); break;
        case Activation::sigmoid: each([](float v) { return kit::eager::sigmoid(v); }); break;
        case Activation::relu: each([](float v) { return kit::relu(v); }); break;
        default: each([](float v) { return kit::eager::gelu_erf(v); });
    }
    kit::with_wide_type(dtype, [&](auto* type) {
        each([](float v) { return kit::round_through<std::remove_pointer_t<decltype(type)>>(v); });
    });
    return x;
}

// Where the products come from. Multiplier and biases are one a column, or absent.
struct GateAndUp {
    kit::VectorRows gate, up, multiplier, gate_bias, up_bias;
    Activation activation;
    bool eager;  // PyTorch's roundings and forms, to gate's dtype
    std::int64_t dim;

    // A part of a row of products.
    template <int N>
    __device__ __forceinline__ kit::PartVector part(std::int64_t column) const {
        return {0, column, kit::left<N>(dim, column)};
    }

    // Vectors of gate and up plus their biases.
    template <int N, class At>
    __device__ __forceinline__ void add_biases(const At& at, float (&g)[N], float (&u)[N]) const {
        const auto add = [&](const kit::VectorRows& bias, float (&to)[N]) {
            if (bias.data == nullptr) return;
            float sums[N];  // what a call changes lies in memory; all others keep their values in registers
            memcpy(sums, to, sizeof(sums));
            add_bias(bias, at, eager, gate.dtype, sums);
            memcpy(to, sums, sizeof(sums));
        };
        add(gate_bias, g);
        add(up_bias, u);
    }
};

// The biases of whole vectors, stored as gate or in fp32: they are on their way together with gate and up.
template <class T>
class WholeBiases {
   public:
    __device__ __forceinline__ void load(const GateAndUp& in, const kit::WholeVector& at) {
        if (in.gate_bias.data != nullptr) gate_.load(in.gate_bias, at);
        if (in.up_bias.data != nullptr) up_.load(in.up_bias, at);
    }
    __device__ __forceinline__ void add(const GateAndUp& in, const kit::WholeVector&, float (&g)[kWidth],
                                        float (&u)[kWidth]) const {
        plus(in, in.gate_bias, gate_, g);
        plus(in, in.up_bias, up_, u);
    }

   private:
    using Held = kit::Shared<T, kWidth>;
    __device__ __forceinline__ static void plus(const GateAndUp& in, const kit::VectorRows& bias,
                                                const Held& held, float (&to)[kWidth]) {
        if (bias.data == nullptr) return;
        float terms[kWidth];
        held.widen(bias, terms);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            to[i] += terms[i];
            if (in.eager) to[i] = kit::round_through<T>(to[i]);
        }
    }

    Held gate_, up_;
};
// Those of vectors that may be parts: each is asked for where it is added.
struct PartBiases {
    __device__ __forceinline__ void load(const GateAndUp&, const kit::PartVector&) {}
    __device__ __forceinline__ void add(const GateAndUp& in, const kit::PartVector& at, float (&g)[kWidth],
                                        float (&u)[kWidth]) const {
        in.add_biases(at, g, u);
    }
};

// act(gate)·up, biases added before. The choice is the same for the whole grid: one branch a vector. What has long code
// (gelu_erf, PyTorch's forms) or is seldom asked for is left out where kLong says that none of it is.
template <bool kLong, int N>
__device__ __forceinline__ void gated(const GateAndUp& in, float (&g)[N], float (&u)[N],
                                      float (&product)[N]) {
    const auto multiply = [&](auto act) {
#pragma unroll
        for (int i = 0; i < N; ++i) product[i] = act(g[i]) * u[i];
    };
    if constexpr (kLong) {
        if (in.eager) {
            static_assert(N % kWidth == 0);
#pragma unroll
            for (int first = 0; first < N; first += kWidth) {
                Octet acts;
                memcpy(acts.at, &g[first], sizeof(acts));
                acts = eager_activation(in.activation, in.gate.dtype, acts);
#pragma unroll
                for (int i = 0; i < kWidth; ++i) product[first + i] = acts.at[i] * u[first + i];
            }
            return;  // the store rounds the product
        }
    }
    if (in.activation == Activation::silu) {
        multiply([](float x) { return kit::silu(x); });
    } else if (!kLong || in.activation == Activation::gelu_tanh) {
        multiply([](float x) { return kit::gelu_tanh(x); });
    } else if (in.activation == Activation::gelu_erf) {
        multiply([](float x) { return kit::gelu_erf(x); });
    } else if (in.activation == Activation::gelu_quick) {
        multiply([](float x) { return kit::gelu_quick(x); });
    } else if (in.activation == Activation::sigmoid) {
        multiply([](float x) { return kit::sigmoid(x); });
    } else {
        multiply([](float x) { return kit::relu(x); });
    }
}

struct GatedOut {
    kit::VectorRows rows;
    const float* scale;  // null: 1
};

// Blocks that an SM is to have room for where vectors are whole.
template <class Out, bool kLong>
constexpr int kBlocks = std::is_same_v<Out, kit::Any> ? 0
                        : kLong                       ? 6
                                                      : 8;

// What     out = act(gate)·up·multiplier / scale
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh)
// Traffic  gate and up once, out once: bound by memory. Two loads of 16 bytes in flight a thread; about 15
//          instructions an element, two of them on the special-function unit
// Needs    out may be gate's or up's memory: a thread reads its vectors before it writes there
template <class T, class Out, bool kLong>
__global__ void __launch_bounds__(256, kBlocks<Out, kLong>)
    gated_activation(const __grid_constant__ GateAndUp in, const __grid_constant__ GatedOut out,
                     kit::RowTiles tiles) {
    kit::for_each_vector<kWidth, Out>(tiles, [&](const auto& at) {
        constexpr bool kScaled = !std::is_same_v<Out, kit::Wide>;
        constexpr bool kWhole = !std::is_same_v<Out, kit::Any>;
        // The scale is asked for first: it is divided by while the vectors are under way.
        const float scale = kScaled && out.scale != nullptr ? *out.scale : 1.0f;
        kit::Fetched<T, kWidth> gate, up;
        gate.load(in.gate, at);
        up.load(in.up, at);
        [[maybe_unused]] std::conditional_t<kWhole, WholeBiases<T>, PartBiases> biases;
        if constexpr (kLong) biases.load(in, at);
        [[maybe_unused]] const float inverse = 1.0f / scale;
        float g[kWidth], u[kWidth], product[kWidth];
        gate.widen(in.gate, g);
        up.widen(in.up, u);
        if constexpr (kLong) biases.add(in, at, g, u);
        gated<kLong>(in, g, u, product);
        kit::scale_channels(in.multiplier, at, product);
        if constexpr (kScaled) {
#pragma unroll
            for (float& value : product) value *= inverse;
        }
        kit::store_row<Out>(out.rows, at, product);
    });
}

// The products of a row for kit::quantize_rows and kit::quantize_groups.
template <class T, int N = kWidth>
struct GatedRows {
    GateAndUp in;

    template <int kCount>
    struct Batch {
        kit::Vec<T, N> gate[kCount], up[kCount];
    };

    template <int kCount>
    __device__ __forceinline__ void load(Batch<kCount>& batch, std::int64_t row, std::int64_t dim,
                                         std::int64_t column, std::int64_t step) const {
        const T *gates = static_cast<const T*>(in.gate.data) + row * in.gate.stride,
                *ups = static_cast<const T*>(in.up.data) + row * in.up.stride;
        if (in.gate.aligned && in.up.aligned && kit::whole_batch<N, kCount>(dim, column, step)) {
            kit::load_whole(batch.gate, gates, column, step);
            kit::load_whole(batch.up, ups, column, step);
        } else {
            kit::load_parts(batch.gate, gates, dim, column, step, in.gate.aligned);
            kit::load_parts(batch.up, ups, dim, column, step, in.up.aligned);
        }
    }

    template <int kCount>
    __device__ __forceinline__ void values(const Batch<kCount>& batch, int b, std::int64_t column,
                                           float (&product)[N]) const {
        float g[N], u[N];
        kit::to_floats(batch.gate[b], g);
        kit::to_floats(batch.up[b], u);
        in.add_biases(in.part<N>(column), g, u);
        gated<true>(in, g, u, product);
        kit::scale_channels(in.multiplier, in.part<N>(column), product);
    }

    // Whole vectors, as they are loaded, and their products where there is neither long code nor a multiplier.
    struct Whole {
        kit::Words<T, N> gate, up;
    };
    __device__ __forceinline__ Whole load(const kit::WholeVector& at) const {
        return {kit::as_words(kit::load<T, N>(in.gate, at)), kit::as_words(kit::load<T, N>(in.up, at))};
    }
    __device__ __forceinline__ void values(const Whole& loaded, float (&product)[N]) const {
        float g[N], u[N];
        kit::to_floats(kit::as_vector<T, N>(loaded.gate), g);
        kit::to_floats(kit::as_vector<T, N>(loaded.up), u);
        gated<false>(in, g, u, product);
    }
};

// The same of two tensors of NVFP4 codes.
template <int N = kWidth>
struct GatedCodes {
    GateAndUp in;
    GroupScales gate_scales, up_scales;

    template <int kCount>
    struct Batch {
        float gate[kCount][N], up[kCount][N];
    };

    template <int kCount>
    __device__ __forceinline__ void load(Batch<kCount>& batch, std::int64_t row, std::int64_t dim,
                                         std::int64_t column, std::int64_t step) const {
#pragma unroll
        for (int b = 0; b < kCount; ++b) {
            const std::int64_t at = column + b * step;
            load_scaled(in.gate, gate_scales, row, at, kit::left<N>(dim, at), batch.gate[b]);
            load_scaled(in.up, up_scales, row, at, kit::left<N>(dim, at), batch.up[b]);
        }
    }

    template <int kCount>
    __device__ __forceinline__ void values(const Batch<kCount>& batch, int b, std::int64_t column,
                                           float (&product)[N]) const {
        float g[N], u[N];
#pragma unroll
        for (int i = 0; i < N; ++i) g[i] = batch.gate[b][i], u[i] = batch.up[b][i];
        in.add_biases(in.part<N>(column), g, u);
        gated<true>(in, g, u, product);
        kit::scale_channels(in.multiplier, in.part<N>(column), product);
    }

   private:
    __device__ __forceinline__ static void load_scaled(const kit::VectorRows& codes,
                                                       const GroupScales& scales, std::int64_t row,
                                                       std::int64_t column, int count, float (&to)[N]) {
        kit::load_codes<kit::e2m1>(codes.data, row * codes.stride + column, count, codes.aligned, to);
        const float scale = count > 0 ? kit::load_group_scale(scales, row, column) : 0.0f;
#pragma unroll
        for (float& value : to) value *= scale;
    }
};

// What     scale[row] = amax(act(gate)·up·multiplier) / max; out = act(gate)·up·multiplier / scale[row]
// Mapping  one block a row; a thread keeps up to 4 vectors of products in registers, longer rows are read twice
// Traffic  gate and up once (twice beyond 16384 columns, then from L2), out once: bound by memory
// Needs    nothing of out overlaps the inputs (its elements are narrower)
template <class T>
__global__ void __launch_bounds__(kit::kMaxRowThreads, 1)
    gated_activation_token(const __grid_constant__ GateAndUp in,
                           const __grid_constant__ kit::QuantizedRows rows) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::quantize_rows<kWidth>(rows, GatedRows<T>{in});
}

// What     group_scale[row, g] of the largest |act(gate)·up·multiplier| in a group of columns; out = act(gate)·up·
//          multiplier / group_scale, over the tensor's scale
// Mapping  a thread owns 16 elements of a row: a group of NVFP4; 2 lanes have one of MX, 8 one of 128 columns
// Traffic  gate and up once, out and scales once: bound by memory
// Needs    tile_groups; nothing of out overlaps the inputs; whole_groups, and nothing but gate and up, where kWhole
template <bool kWhole, class Source>
__global__ void __launch_bounds__(256, kWhole ? kit::kGroupBlocks : 0)
    gated_activation_grouped(Source in, kit::GroupedRows out, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    const float tensor = out.scale != nullptr ? *out.scale : 1.0f;
    if constexpr (kWhole) {
        kit::quantize_whole_groups(out, tiles, in, tensor);
    } else {
        kit::quantize_groups(out, tiles, in, tensor);
    }
}

// What     out = act(gate)·up·multiplier / scale, gate and up of NVFP4
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh)
// Traffic  gate, up and their scales once, out once: bound by memory
// Needs    nothing of out overlaps the inputs
__global__ void __launch_bounds__(256)
    gated_activation_codes(const __grid_constant__ GatedCodes<> in, const __grid_constant__ GatedOut out,
                           kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    const float inverse = 1.0f / (out.scale != nullptr ? *out.scale : 1.0f);
    kit::for_each_tile<kWidth, 1>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t) {
        GatedCodes<>::Batch<1> batch;
        in.load(batch, row, tiles.dim, column, kWidth);
        float product[kWidth];
        in.values(batch, 0, column, product);
#pragma unroll
        for (float& value : product) value *= inverse;  // 1 where out is not of fewer bits
        kit::store_floats(out.rows.dtype, out.rows.data, row * out.rows.stride + column, product,
                          kit::left<kWidth>(tiles.dim, column), out.rows.aligned);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
