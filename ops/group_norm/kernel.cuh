// What group_norm's kernels share: parameters, turns, and how the moments of pieces become those of groups.
//
// x is read twice, and what L2 holds of it costs nothing the second time. So the results of a set of groups follow its
// moments as soon as these are known, while the moments of later sets are being found. Blocks take numbered turns from a
// counter: a turn is a piece's moments or its result. A result waits for the moments of its set, all of which have lower
// numbers, so their blocks run already and wait for nobody: no wait is for ever, however few blocks there is room for.
#pragma once

#include "kit/activation.cuh"
#include "kit/elementwise.cuh"
#include "kit/moments.cuh"
#include "kit/ptx/atomic.cuh"
#include "kit/reduce.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kThreads = 256, kWidth = 8;
inline constexpr int kChannels = 1024;  // of a piece, channels first, at most

struct NormParams {
    const void *x, *weight, *bias;  // weight and bias may be null
    void* out;
    DType weight_dtype, bias_dtype, out_dtype;
    std::int64_t x_stride[3], out_stride[3];  // batch, channel, place
    std::int64_t channels, places;
    unsigned groups, each;                                      // each: channels of a group
    bool x_aligned, out_aligned, weight_aligned, bias_aligned;  // as the kernel moves them
    float eps;
    bool silu;
    // Sets: of groups whose moments are found together. Channels first a group, channels last those of a block's columns.
    unsigned pieces;          // of a set
    unsigned items, ahead;    // pieces of all sets; how many moments are begun before the first result
    bool backwards, keep;     // results from a set's last piece on; L2 keeps x after all else
    std::int64_t piece;       // channels first: vectors of a group; channels last: places
    kit::Moments* pieces_of;  // [batch, group, piece]
    float2* groups_of;        // [batch, group]: mean, 1/deviation
    unsigned *taken, *done;   // turns that blocks took; of each set, arrivals
    kit::Divisor row;         // channels first: by a channel's vectors
    unsigned x_gap, out_gap;  // channels first: whole vectors from a channel's last to the next one's first
    unsigned columns, sets_across;  // channels last: of a block, whole groups of them; sets of a batch
    int lanes;                      // channels last: threads that merge a group's moments in a block
};

// What     counters, before the blocks that take turns
// Mapping  a thread a counter
// Traffic  none to speak of
__global__ void __launch_bounds__(kThreads)
    begin_turns(const __grid_constant__ NormParams p, unsigned counters) {
    kit::dependency_wait();
    kit::dependents_launch();
    const unsigned i = blockIdx.x * kThreads + threadIdx.x;
    if (i < counters) p.taken[i] = 0;
}

struct Turn {
    unsigned set, piece;
    bool moments, result;  // sets in one piece: both
};
struct TurnShared {
    unsigned number, arrived;
};

// Items: the moments of `ahead`, then results and moments by turns, then the other results.
__device__ __forceinline__ Turn take_turn(const NormParams& p) {
    if (p.pieces == 1) return {blockIdx.x, 0, true, true};
    unsigned& taken = kit::block_shared<TurnShared>().number;
    if (threadIdx.x == 0) taken = kit::atomic_add(p.taken, 1u);
    __syncthreads();
    const unsigned number = taken, behind = number - p.ahead;
    unsigned item = number;
    bool result = false;
    if (number >= p.items + (p.items - p.ahead)) {
        item = number - p.items;
        result = true;
    } else if (number >= p.ahead) {
        result = behind % 2 == 0;
        item = (result ? 0 : p.ahead) + behind / 2;
    }
    const unsigned set = item / p.pieces, piece = item - set * p.pieces;
    return {set, result && p.backwards ? p.pieces - 1 - piece : piece, !result, result};
}

__device__ __forceinline__ float2 mean_and_inverse(const kit::Moments& m, float eps) {
    return make_float2(m.mean, 1.0f / sqrtf(m.squares / m.count + eps));
}

// A warp's lanes together: of all pieces of a group, in an order that does not depend on who does it.
__device__ __forceinline__ kit::Moments merged_pieces(const NormParams& p, std::int64_t group) {
    constexpr unsigned kLoads = 4;  // in flight
    kit::MergeMoments merge;
    kit::Moments found = merge.identity();
    for (unsigned i = threadIdx.x & 31; i < p.pieces; i += kLoads * 32) {
        kit::Moments some[kLoads];
#pragma unroll
        for (unsigned b = 0; b < kLoads; ++b) {
            some[b] = merge.identity();
            if (i + b * 32 < p.pieces) some[b] = p.pieces_of[group * p.pieces + i + b * 32];
        }
#pragma unroll
        for (const kit::Moments& one : some) found = merge(found, one);
    }
    return kit::warp_reduce(found, merge);
}

// The block has stored the moments of its piece. The block that finds that these were the set's last merges the pieces:
// `done` counts these, and one more when the set's means are there.
__device__ __forceinline__ void publish(const NormParams& p, unsigned set, std::int64_t first_group,
                                        unsigned groups) {
    unsigned& arrived = kit::block_shared<TurnShared>().arrived;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        arrived = kit::atomic_add(p.done + set, 1u);
        if (arrived + 1 == p.pieces) __threadfence();
    }
    __syncthreads();
    if (arrived + 1 < p.pieces) return;
    for (unsigned group = threadIdx.x / 32; group < groups; group += kThreads / 32) {
        const kit::Moments all = merged_pieces(p, first_group + group);
        if ((threadIdx.x & 31) == 0) p.groups_of[first_group + group] = mean_and_inverse(all, p.eps);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        kit::atomic_add(p.done + set, 1u);
    }
}
// One thread, before a barrier of the block.
__device__ __forceinline__ void await_set(const NormParams& p, unsigned set) {
    while (kit::atomic_add(p.done + set, 0u) <= p.pieces) __nanosleep(64);
    __threadfence();
}

template <int N>
__device__ __forceinline__ float total(float (&of)[N]) {
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2) {
#pragma unroll
        for (int i = 0; i < half; ++i) of[i] += of[i + half];
    }
    return of[0];
}
// Of a batch's first `count` vectors; the others are zeros. The mean first, then the distances from it.
template <class T, int N, int kVectors>
__device__ __forceinline__ kit::Moments moments_of_vectors(const kit::Words<T, N> (&batch)[kVectors],
                                                           int count) {
    float sums[N] = {}, squares[N] = {}, values[N];
#pragma unroll
    for (int b = 0; b < kVectors; ++b) {
        kit::to_floats(kit::as_vector<T, N>(batch[b]), values);
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] += values[i];
    }
    const float elements = static_cast<float>(count * N), mean = total(sums) / elements;
#pragma unroll
    for (int b = 0; b < kVectors; ++b) {
        if (b >= count) break;
        kit::Words<T, N> words = batch[b];
        if constexpr (kit::Words<T, N>::kBytes == 16) words = kit::opaque<T, N>(words);  // not 64 numbers
        kit::to_floats(kit::as_vector<T, N>(words), values);
#pragma unroll
        for (int i = 0; i < N; ++i) squares[i] += (values[i] - mean) * (values[i] - mean);
    }
    return {elements, mean, total(squares)};
}

template <int N>
__device__ __forceinline__ void activate(const NormParams& p, float (&values)[N]) {
    if (!p.silu) return;
#pragma unroll
    for (float& value : values) value = kit::silu(value);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
