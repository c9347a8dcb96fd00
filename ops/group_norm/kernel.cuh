// group_norm's kernels: moments of pieces, moments of groups, and the result.
#pragma once

#include "kit/activation.cuh"
#include "kit/axis_walk.cuh"
#include "kit/elementwise.cuh"
#include "kit/moments.cuh"
#include "kit/reduce.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kThreads = 256, kWidth = 8;

struct NormParams {
    const void *x, *weight, *bias;  // weight and bias may be null
    void* out;
    DType x_dtype, weight_dtype, bias_dtype, out_dtype;
    std::int64_t x_stride[3], out_stride[3];  // batch, channel, place
    std::int64_t batches, channels, places;
    unsigned groups, each, pieces;  // channels of a group; pieces that a group's places are cut into
    std::int64_t piece;             // first: vectors of a group; last: places
    bool x_aligned, out_aligned, weight_aligned, bias_aligned;  // first: whole vectors of neighbouring places
    kit::AxisWalk rows;                                         // channels, or places; then batches
    kit::Divisor of_group;                                      // by a group's channels
    int column;               // last: channels that a thread reads at once: 8, or 1 where groups cut vectors
    int columns;              // last: of a block, whole groups of them
    kit::Moments* pieces_of;  // [batch, group, piece]
    float2* groups_of;        // [batch, group]: mean, 1/deviation
    float eps;
    bool silu;
};

__device__ __forceinline__ float normalised(const NormParams& p, float x, float2 group, float weight,
                                            float bias) {
    const float y = (x - group.x) * group.y * weight + bias;
    return p.silu ? kit::silu(y) : y;
}
__device__ __forceinline__ float of_channel(const void* data, DType dtype, std::int64_t channel,
                                            float absent) {
    return data != nullptr ? kit::load_as(dtype, data, channel) : absent;
}

// Elements [0, count) of a vector, `apart` from each other in memory, widened.
template <class T>
__device__ __forceinline__ void load_apart(const T* from, int count, std::int64_t apart, bool aligned,
                                           float (&values)[kWidth]) {
    if (apart == 1) return kit::to_floats(kit::load_vector<kWidth>(from, count, aligned), values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = i < count ? kit::to_float(from[i * apart]) : 0.0f;
}

// What     moments of a piece of a group, channels first
// Mapping  a block a piece: its threads take the vectors of the group's channels in turn
// Traffic  x once: bound by memory
// Needs    fewer than 2^31 vectors a group
template <class T>
__global__ void __launch_bounds__(kThreads)
    moments_first(const __grid_constant__ NormParams p, kit::Divisor row) {
    kit::dependency_wait();
    kit::dependents_launch();
    const unsigned piece = blockIdx.x % p.pieces, group = blockIdx.x / p.pieces % p.groups;
    const std::int64_t batch = blockIdx.x / p.pieces / p.groups;
    const T* x =
        static_cast<const T*>(p.x) + batch * p.x_stride[0] + std::int64_t{group} * p.each * p.x_stride[1];
    const std::int64_t all = std::int64_t{row.divisor} * p.each;
    const std::int64_t last = min((piece + 1) * p.piece, all);
    kit::MergeMoments merge;
    kit::Moments found = merge.identity();
#pragma unroll 4
    for (std::int64_t v = piece * p.piece + threadIdx.x; v < last; v += kThreads) {
        const unsigned channel = row.quotient(static_cast<unsigned>(v));
        const std::int64_t at = (v - std::int64_t{channel} * row.divisor) * kWidth;
        const int count = kit::left<kWidth>(p.places, at);
        float values[kWidth];
        load_apart(x + channel * p.x_stride[1] + at * p.x_stride[2], count, p.x_stride[2], p.x_aligned,
                   values);
        found = merge(found, kit::moments_of(values, min(count, kWidth)));
    }
    kit::BlockGroup block{.lanes = kThreads};
    found = block.reduce(found, merge);
    if (threadIdx.x == 0) p.pieces_of[blockIdx.x] = found;
}

struct ThreadMoments {
    kit::Moments at[kThreads];
};

// What     the same, channels last: moments of all groups over a piece of the places
// Mapping  a thread owns a column of 8 channels (or of 1) and every so many places; a thread a group merges its columns
// Traffic  x once in whole rows: bound by memory
// Needs    channels are neighbours in memory; a block's columns are those of whole groups
template <class T>
__global__ void __launch_bounds__(kThreads) moments_last(const __grid_constant__ NormParams p) {
    kit::Moments(&parts)[kThreads] = kit::block_shared<ThreadMoments>().at;
    kit::dependency_wait();
    kit::dependents_launch();
    const unsigned piece = blockIdx.x % p.pieces;
    const std::int64_t batch = blockIdx.x / p.pieces;
    const int first = static_cast<int>(blockIdx.y) * p.columns;
    const int own = min(static_cast<int>(p.channels) / p.column - first, p.columns), rows = kThreads / own;
    const int column = static_cast<int>(threadIdx.x) % own, row = static_cast<int>(threadIdx.x) / own;
    const T* x = static_cast<const T*>(p.x) + batch * p.x_stride[0] + (first + column) * p.column;
    kit::MergeMoments merge;
    kit::Moments found = merge.identity();
    const std::int64_t last = min((piece + 1) * p.piece, p.places);
    if (row < rows) {
#pragma unroll 4
        for (std::int64_t place = piece * p.piece + row; place < last; place += rows) {
            float values[kWidth];
            kit::to_floats(kit::load_vector<kWidth>(x + place * p.x_stride[2], p.column, p.x_aligned),
                           values);
            found = merge(found, kit::moments_of(values, p.column));
        }
    }
    parts[threadIdx.x] = found;
    __syncthreads();
    const int each = static_cast<int>(p.each) / p.column, begin = static_cast<int>(threadIdx.x) * each;
    if (begin >= own) return;
    found = merge.identity();
    for (int c = begin; c < begin + each; ++c) {
        for (int r = 0; r < rows; ++r) found = merge(found, parts[r * own + c]);
    }
    p.pieces_of[(batch * p.groups + (first + begin) / each) * p.pieces + piece] = found;
}

// What     mean and 1/deviation of each group from the moments of its pieces
// Mapping  a warp a group
// Traffic  the moments, from L2
__global__ void __launch_bounds__(kThreads) moments_of_groups(const __grid_constant__ NormParams p) {
    kit::dependency_wait();
    kit::dependents_launch();
    const std::int64_t group = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
    const bool present = group < p.batches * p.groups;
    kit::MergeMoments merge;
    kit::Moments found = merge.identity();
    for (unsigned i = threadIdx.x & 31; present && i < p.pieces; i += 32)
        found = merge(found, p.pieces_of[group * p.pieces + i]);
    found = kit::warp_reduce(found, merge);
    if (present && (threadIdx.x & 31) == 0)
        p.groups_of[group] = make_float2(found.mean, 1.0f / sqrtf(found.squares / found.count + p.eps));
}

// What     out = act((x − mean)/deviation·weight + bias), channels first
// Mapping  rows are channels; a thread owns one vector of 8 places (kit/elementwise.cuh)
// Traffic  x and out once: bound by memory; of small tensors x comes from L2
// Needs    out may be x's memory
template <class T>
__global__ void __launch_bounds__(kThreads)
    normalise_first(const __grid_constant__ NormParams p, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_tile<kWidth, 1>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t) {
        std::int64_t index[2];
        p.rows.each(row, [&](int axis, std::int64_t i) { index[axis] = i; });
        const std::int64_t channel = index[0], batch = index[1];
        const int count = kit::left<kWidth>(tiles.dim, column);
        const T* x = static_cast<const T*>(p.x) + batch * p.x_stride[0] + channel * p.x_stride[1] +
                     column * p.x_stride[2];
        float values[kWidth];
        load_apart(x, count, p.x_stride[2], p.x_aligned, values);
        const float2 group =
            p.groups_of[batch * p.groups + p.of_group.quotient(static_cast<unsigned>(channel))];
        const float weight = of_channel(p.weight, p.weight_dtype, channel, 1.0f);
        const float bias = of_channel(p.bias, p.bias_dtype, channel, 0.0f);
#pragma unroll
        for (float& value : values) value = normalised(p, value, group, weight, bias);
        const std::int64_t to =
            batch * p.out_stride[0] + channel * p.out_stride[1] + column * p.out_stride[2];
        if (p.out_stride[2] == 1)
            return kit::store_floats(p.out_dtype, p.out, to, values, count, p.out_aligned);
        for (int i = 0; i < kWidth && i < count; ++i)
            kit::store_as(p.out_dtype, p.out, to + i * p.out_stride[2], values[i]);
    });
}

// What     the same, channels last
// Mapping  rows are places; a thread owns one vector of 8 channels
// Traffic  x and out once; weight, bias and the groups' numbers from L1
// Needs    out may be x's memory
template <class T>
__global__ void __launch_bounds__(kThreads)
    normalise_last(const __grid_constant__ NormParams p, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_tile<kWidth, 1>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t) {
        std::int64_t index[2];
        p.rows.each(row, [&](int axis, std::int64_t i) { index[axis] = i; });
        const std::int64_t place = index[0], batch = index[1];
        const int count = kit::left<kWidth>(tiles.dim, column);
        const T* x = static_cast<const T*>(p.x) + batch * p.x_stride[0] + place * p.x_stride[2] + column;
        float values[kWidth], weight[kWidth], bias[kWidth];
        kit::to_floats(kit::load_vector<kWidth>(x, count, p.x_aligned), values);
        kit::load_floats_or(1.0f, p.weight_dtype, p.weight, column, weight, count, p.weight_aligned);
        kit::load_floats_or(0.0f, p.bias_dtype, p.bias, column, bias, count, p.bias_aligned);
        const auto group = [&](int i) {
            const auto channel = static_cast<unsigned>(column) + static_cast<unsigned>(i < count ? i : 0);
            return p.groups_of[batch * p.groups + p.of_group.quotient(channel)];
        };
        const float2 first = group(0);  // the vector's own, where groups do not cut vectors
#pragma unroll
        for (int i = 0; i < kWidth; ++i)
            values[i] = normalised(p, values[i], p.column == kWidth ? first : group(i), weight[i], bias[i]);
        kit::store_floats(p.out_dtype, p.out, batch * p.out_stride[0] + place * p.out_stride[2] + column,
                          values, count, p.out_aligned);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
