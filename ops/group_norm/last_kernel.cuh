// Channels last: a place's channels lie side by side, all groups of them.
#pragma once

#include "ops/group_norm/kernel.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Places that a thread has in flight. A thread owns kColumn channels of one group: 8, of which x and out have whole
// vectors of one dtype, or 2 or 1.
template <class T, int kColumn>
inline constexpr int kPlaces = kColumn == kWidth ? 8 / static_cast<int>(sizeof(T)) : 8;

struct LastShared {
    kit::Moments at[kThreads];
    float2 groups[kThreads];
};

// A set's columns, and the thread's one of them in every so many places.
struct Strip {
    unsigned batch, first, own, rows, column, row;
    std::int64_t begin, end;  // of the thread's places; an idle thread has none

    __device__ __forceinline__ int count(std::int64_t place, int most) const {
        return place < end ? static_cast<int>(min(std::int64_t{most}, (end - place + rows - 1) / rows)) : 0;
    }
};
template <int kColumn>
__device__ __forceinline__ Strip strip_of(const NormParams& p, const Turn& turn) {
    Strip s{};
    s.batch = turn.set / p.sets_across;
    s.first = (turn.set - s.batch * p.sets_across) * p.columns;
    s.own = min(static_cast<unsigned>(p.channels) / kColumn - s.first, p.columns);
    s.rows = kThreads / max(1u, s.own);
    s.row = threadIdx.x / max(1u, s.own);
    s.column = threadIdx.x - s.row * s.own;
    s.begin = turn.piece * p.piece + s.row;
    s.end = s.row < s.rows ? min((turn.piece + 1) * p.piece, p.places) : 0;
    return s;
}

// The first `count` places from `place` on, and zeros.
template <class T, int kColumn>
__device__ __forceinline__ void fetch(const NormParams& p, const Strip& s, const T* x, std::int64_t place,
                                      int count, kit::L2Policy policy,
                                      kit::Words<T, kColumn> (&to)[kPlaces<T, kColumn>]) {
    const T* from = x + place * p.x_stride[2];
    const std::int64_t step = s.rows * p.x_stride[2];
#pragma unroll
    for (int b = 0; b < kPlaces<T, kColumn>; ++b) {
        to[b] = {};
        if (b < count) to[b] = kit::load_words<kColumn>(from + b * step, policy);
    }
}

// Moments of the set's groups in the block's places: to memory, or, where the set is one piece, to shared memory.
template <class T, int kColumn>
__device__ __forceinline__ void moments_of_strip(const NormParams& p, const Turn& turn, const Strip& s,
                                                 const T* x) {
    constexpr int kBatch = kPlaces<T, kColumn>;
    LastShared& shared = kit::block_shared<LastShared>();
    const kit::L2Policy policy = kit::l2_policy(p.keep);
    kit::MergeMoments merge;
    kit::Moments found = merge.identity();
    for (std::int64_t place = s.begin; place < s.end; place += kBatch * s.rows) {
        kit::Words<T, kColumn> batch[kBatch];
        const int count = s.count(place, kBatch);
        fetch<T, kColumn>(p, s, x, place, count, policy, batch);
        found = merge(found, moments_of_vectors<T, kColumn, kBatch>(batch, count));
    }
    shared.at[threadIdx.x] = found;
    __syncthreads();
    const unsigned lanes = static_cast<unsigned>(p.lanes), each = p.each / kColumn, parts = each * s.rows;
    const unsigned group = threadIdx.x / lanes, groups = s.own / each;
    found = merge.identity();
    for (unsigned i = threadIdx.x & (lanes - 1); group < groups && i < parts; i += lanes) {
        const unsigned row = i / each;
        found = merge(found, shared.at[row * s.own + group * each + (i - row * each)]);
    }
    found = kit::warp_reduce(found, merge, p.lanes);
    const std::int64_t first = std::int64_t{s.batch} * p.groups + s.first / each;
    if (group < groups && (threadIdx.x & (lanes - 1)) == 0) {
        if (turn.result) {
            shared.groups[group] = mean_and_inverse(found, p.eps);
        } else {
            p.pieces_of[(first + group) * p.pieces + turn.piece] = found;
        }
    }
    if (!turn.result) publish(p, turn.set, first, groups);
}

// What     out = act((x − mean)/deviation·weight + bias), channels last
// Mapping  a block takes a turn: the moments of its columns' groups in a piece of the places, or the results; both where
//          all places are one piece. A thread owns a column of kColumn channels and every so many places
// Traffic  x twice, out once, in whole rows: bound by memory. The second time L2 has what fits between the two turns
// Needs    channels are neighbours in memory; a block's columns are those of whole groups; out may be x's memory
template <class T, int kColumn>
__global__ void __launch_bounds__(kThreads, 4) norm_last(const __grid_constant__ NormParams p) {
    constexpr int kBatch = kPlaces<T, kColumn>;
    kit::dependency_wait();
    kit::dependents_launch();
    const Turn turn = take_turn(p);
    const Strip s = strip_of<kColumn>(p, turn);
    const std::int64_t channel = std::int64_t{s.first + s.column} * kColumn;
    const T* x = static_cast<const T*>(p.x) + s.batch * p.x_stride[0] + channel;
    if (turn.moments) moments_of_strip<T, kColumn>(p, turn, s, x);
    if (!turn.result) return;
    kit::Words<T, kColumn> batch[kBatch];
    const kit::L2Policy policy = kit::l2_policy(false);
    int count = s.count(s.begin, kBatch);
    fetch<T, kColumn>(p, s, x, s.begin, count, policy, batch);  // before the wait: these loads need no mean
    if (!turn.moments && threadIdx.x == 0) await_set(p, turn.set);
    __syncthreads();
    if (count == 0) return;
    const unsigned group = s.column / (p.each / kColumn);
    const float2 known =
        turn.moments ? kit::block_shared<LastShared>().groups[group]
                     : p.groups_of[std::int64_t{s.batch} * p.groups + s.first / (p.each / kColumn) + group];
    float scale[kColumn], bias[kColumn];
    kit::load_floats_or(1.0f, p.weight_dtype, p.weight, channel, scale, kColumn, p.weight_aligned);
    kit::load_floats_or(0.0f, p.bias_dtype, p.bias, channel, bias, kColumn, p.bias_aligned);
#pragma unroll
    for (float& one : scale) one *= known.y;
    const std::int64_t out = s.batch * p.out_stride[0] + channel;
    for (std::int64_t place = s.begin; count > 0;) {
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            if (b >= count) break;
            float values[kColumn];
            kit::to_floats(kit::as_vector<T, kColumn>(batch[b]), values);
#pragma unroll
            for (int i = 0; i < kColumn; ++i) values[i] = (values[i] - known.x) * scale[i] + bias[i];
            activate(p, values);
            const std::int64_t to = out + (place + std::int64_t{b} * s.rows) * p.out_stride[2];
            if constexpr (kColumn == kWidth) {
                kit::store_aligned(static_cast<T*>(p.out) + to, kit::from_floats<T>(values));
            } else {
                kit::store_floats(p.out_dtype, p.out, to, values, kColumn, p.out_aligned);
            }
        }
        place += kBatch * s.rows;
        count = s.count(place, kBatch);
        fetch<T, kColumn>(p, s, x, place, count, policy, batch);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
