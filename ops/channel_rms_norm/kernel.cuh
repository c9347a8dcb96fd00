// channel_rms_norm's kernels.
#pragma once

#include "kit/activation.cuh"
#include "kit/elementwise.cuh"
#include "kit/reduce.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kThreads = 256, kWidth = 8, kHeld = 4;

struct ChannelParams {
    const void *x, *weight, *bias, *length;  // all but x may be null
    void* out;
    DType weight_dtype, bias_dtype, length_dtype, out_dtype;
    std::int64_t x_stride[3], out_stride[3], length_stride[3];  // batch, channel, place
    std::int64_t batches, channels, places;
    bool x_aligned, out_aligned, weight_aligned, bias_aligned;
    int lanes, lanes_log2;  // last: that share a place
    kit::Divisor by_places;
    bool few;         // fewer than 2^31 places in all
    float eps, root;  // √channels
    bool silu, eager;
};

__device__ __forceinline__ float of_channel(const void* data, DType dtype, std::int64_t channel,
                                            float absent) {
    return data != nullptr ? kit::load_as(dtype, data, channel) : absent;
}
// As PyTorch's operators round it. Few calls ask for this code, which is long: one copy of it is enough.
[[gnu::noinline]] __device__ float eager_scaled(const ChannelParams& p, float x, float factor, float weight,
                                                float bias) {
    const auto rounded = [&](float y) { return kit::round_as(p.out_dtype, y); };
    float y = rounded(__fmul_rn(rounded(x / factor), p.root));
    if (p.weight != nullptr) y = rounded(__fmul_rn(y, weight));
    if (p.bias != nullptr) y = rounded(__fadd_rn(y, bias));
    return p.silu ? kit::eager::silu(y) : y;
}
// `factor` as factor_of or given_factor gives it.
__device__ __forceinline__ float scaled(const ChannelParams& p, float x, float factor, float weight,
                                        float bias) {
    if (p.eager) return eager_scaled(p, x, factor, weight, bias);
    const float y = x * factor * weight + bias;
    return p.silu ? kit::silu(y) : y;
}
__device__ __forceinline__ float factor_of(const ChannelParams& p, float squares) {
    const float length = sqrtf(squares);
    return p.root / (length < p.eps ? p.eps : length);
}
// Of a length that is given; with eager roundings the length itself, which x is divided by.
__device__ __forceinline__ float given_factor(const ChannelParams& p, std::int64_t batch,
                                              std::int64_t within) {
    const float length =
        kit::load_as(p.length_dtype, p.length, batch * p.length_stride[0] + within * p.length_stride[2]);
    return p.eager ? length : p.root / length;
}

__device__ __forceinline__ std::int64_t batch_of(const ChannelParams& p, std::int64_t place) {
    return p.few ? p.by_places.quotient(static_cast<unsigned>(place)) : place / p.places;
}

// What     out = act(x / length·√channels·weight + bias), channels neighbours in memory; length is given or max(‖x‖, eps)
// Mapping  lanes of a warp share a place; a lane keeps up to 4 vectors of it in registers, and reads more twice
// Traffic  x and out once: bound by memory
// Needs    lanes a power of two up to 32; out may be x's memory
template <class T>
__global__ void __launch_bounds__(kThreads) channels_last(const __grid_constant__ ChannelParams p) {
    kit::dependency_wait();
    kit::dependents_launch();
    const int lane = static_cast<int>(threadIdx.x) & (p.lanes - 1);
    const std::int64_t place =
        std::int64_t{blockIdx.x} * (blockDim.x >> p.lanes_log2) + (threadIdx.x >> p.lanes_log2);
    const std::int64_t batch = batch_of(p, place), within = place - batch * p.places;
    const std::int64_t dim = place < p.batches * p.places ? p.channels : 0;
    const T* x = static_cast<const T*>(p.x) + batch * p.x_stride[0] + within * p.x_stride[2];
    const auto load = [&](std::int64_t at) {
        return kit::load_vector<kWidth>(x + at, kit::left<kWidth>(dim, at), p.x_aligned);
    };
    const std::int64_t step = p.lanes * kWidth;
    kit::Vec<T, kWidth> held[kHeld];
#pragma unroll
    for (int v = 0; v < kHeld; ++v) held[v] = load(lane * kWidth + v * step);
    const auto each = [&](auto use) {
        float values[kWidth];
#pragma unroll
        for (int v = 0; v < kHeld; ++v) {
            kit::to_floats(held[v], values);
            use(lane * kWidth + v * step, values);
        }
        for (std::int64_t at = lane * kWidth + kHeld * step; at < dim; at += step) {
            kit::to_floats(load(at), values);
            use(at, values);
        }
    };
    float factor;
    if (p.length == nullptr) {
        float squares[kWidth] = {}, sum = 0.0f;
        each([&](std::int64_t, const float (&values)[kWidth]) {
#pragma unroll
            for (int i = 0; i < kWidth; ++i) squares[i] += values[i] * values[i];
        });
#pragma unroll
        for (const float square : squares) sum += square;
        factor = factor_of(p, kit::warp_reduce(sum, kit::Sum{}, p.lanes));
    } else {
        factor = dim > 0 ? given_factor(p, batch, within) : 1.0f;
    }
    each([&](std::int64_t at, float (&values)[kWidth]) {
        const int count = kit::left<kWidth>(dim, at);
        float weight[kWidth], bias[kWidth];
        kit::load_floats_or(1.0f, p.weight_dtype, p.weight, at, weight, count, p.weight_aligned);
        kit::load_floats_or(0.0f, p.bias_dtype, p.bias, at, bias, count, p.bias_aligned);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[i] = scaled(p, values[i], factor, weight[i], bias[i]);
        kit::store_floats(p.out_dtype, p.out, batch * p.out_stride[0] + within * p.out_stride[2] + at, values,
                          count, p.out_aligned);
    });
}

// Of a place that has no more channels than a vector: they stay in registers.
template <class T>
__device__ __forceinline__ void few_channels(const ChannelParams& p, const T* x, std::int64_t batch,
                                             std::int64_t within) {
    const int count = static_cast<int>(p.channels);
    float values[kWidth], squares = 0.0f, weight[kWidth], bias[kWidth];
#pragma unroll
    for (int c = 0; c < kWidth; ++c) values[c] = c < count ? kit::to_float(x[c * p.x_stride[1]]) : 0.0f;
    kit::load_floats_or(1.0f, p.weight_dtype, p.weight, 0, weight, count, false);
    kit::load_floats_or(0.0f, p.bias_dtype, p.bias, 0, bias, count, false);
#pragma unroll
    for (const float value : values) squares += value * value;
    const float factor = p.length == nullptr ? factor_of(p, squares) : given_factor(p, batch, within);
#pragma unroll
    for (int c = 0; c < kWidth; ++c) {
        if (c < count) values[c] = scaled(p, values[c], factor, weight[c], bias[c]);
    }
    const std::int64_t to = batch * p.out_stride[0] + within * p.out_stride[2];
    kit::with_type(p.out_dtype, [&](auto* type) {
        using Out = std::remove_pointer_t<decltype(type)>;
        Out* out = static_cast<Out*>(p.out) + to;
#pragma unroll
        for (int c = 0; c < kWidth; ++c) {
            if (c < count) kit::store(out + c * p.out_stride[1], kit::from_float<Out>(values[c]));
        }
    });
}

// What     the same for any strides: places neighbours in memory, or nothing
// Mapping  a thread owns a place and walks its channels twice, neighbours reading neighbouring places; few of them once
// Traffic  x twice, the second time from L2 where it holds what the blocks of one moment read (once where the length is
//          given); out once
// Needs    out may be x's memory
template <class T>
__global__ void __launch_bounds__(kThreads) channels_apart(const __grid_constant__ ChannelParams p) {
    kit::dependency_wait();
    kit::dependents_launch();
    const std::int64_t place = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (place >= p.batches * p.places) return;
    const std::int64_t batch = batch_of(p, place), within = place - batch * p.places;
    const T* x = static_cast<const T*>(p.x) + batch * p.x_stride[0] + within * p.x_stride[2];
    if (p.channels <= kWidth) return few_channels(p, x, batch, within);
    float factor;
    if (p.length == nullptr) {
        float squares[kWidth] = {}, sum = 0.0f;
        for (std::int64_t first = 0; first < p.channels; first += kWidth) {
#pragma unroll
            for (int i = 0; i < kWidth; ++i) {
                if (first + i >= p.channels) continue;
                const float value = kit::to_float(x[(first + i) * p.x_stride[1]]);
                squares[i] += value * value;
            }
        }
#pragma unroll
        for (const float square : squares) sum += square;
        factor = factor_of(p, sum);
    } else {
        factor = given_factor(p, batch, within);
    }
    const std::int64_t to = batch * p.out_stride[0] + within * p.out_stride[2];
#pragma unroll 8
    for (std::int64_t c = 0; c < p.channels; ++c) {
        kit::store_as(
            p.out_dtype, p.out, to + c * p.out_stride[1],
            scaled(p, kit::to_float(x[c * p.x_stride[1]]), factor,
                   of_channel(p.weight, p.weight_dtype, c, 1.0f), of_channel(p.bias, p.bias_dtype, c, 0.0f)));
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
