// Channels first: a group's places lie channel after channel.
#pragma once

#include "ops/group_norm/kernel.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Vectors that a thread has in flight. kWhole: x and out are of one dtype and consist of vectors; else these are fetched
// one by one.
template <class T, bool kWhole>
inline constexpr int kBatch = kWhole ? 16 / static_cast<int>(sizeof(T)) : 1;

struct FirstShared {
    float2 affine[kChannels];  // weight and bias of the piece's channels
};

__device__ __forceinline__ float of_channel(const void* data, DType dtype, std::int64_t channel,
                                            float absent) {
    float value[1];
    kit::load_floats_or(absent, dtype, data, channel, value, 1, false);
    return value[0];
}

// Threads of a block that has all of a group in few vectors.
inline constexpr int kFew = 32;

// Vectors [begin, end) of a group's: those of its first channel, of its second, … `kBlock` threads share them.
template <int kBlock>
struct Piece {
    std::int64_t x, out;  // offsets of the group
    unsigned begin, end;

    // Of the thread's batch from `vector` on, how many are in it.
    __device__ __forceinline__ int count(unsigned vector, int most) const {
        return vector < end ? min(most, static_cast<int>((end - vector + kBlock - 1) / kBlock)) : 0;
    }
};
// An offset in the group. Where vectors are whole it is counted in them, `gap` beyond each channel's last.
template <bool kWhole>
__device__ __forceinline__ std::int64_t offset(const NormParams& p, const std::int64_t (&stride)[3],
                                               unsigned gap, unsigned vector, unsigned channel) {
    if constexpr (kWhole) return std::int64_t{vector + channel * gap} * kWidth;
    return channel * stride[1] + std::int64_t{vector - channel * p.row.divisor} * (kWidth * stride[2]);
}
// Elements of a vector that may be a channel's last one.
__device__ __forceinline__ int elements(const NormParams& p, unsigned vector, unsigned channel) {
    return kit::left<kWidth>(p.places, std::int64_t{vector - channel * p.row.divisor} * kWidth);
}

template <class T, bool kWhole>
__device__ __forceinline__ kit::Words<T, kWidth> fetch_vector(const NormParams& p, const T* x,
                                                              unsigned vector, kit::L2Policy policy) {
    const unsigned channel = p.row.quotient(vector);
    const T* from = x + offset<kWhole>(p, p.x_stride, p.x_gap, vector, channel);
    if constexpr (kWhole) return kit::load_words<kWidth>(from, policy);
    const int count = elements(p, vector, channel);
    if (p.x_stride[2] == 1) return kit::load_vector_words<kWidth>(from, count, p.x_aligned);
    kit::Vec<T, kWidth> apart;
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
        apart[i] = i < count ? from[i * p.x_stride[2]] : kit::from_float<T>(0.0f);
    return kit::as_words(apart);
}
// The first `count` vectors of the thread's batch from `vector` on, and zeros. Of a whole batch all loads are in flight
// behind one branch.
template <class T, bool kWhole, int kBlock>
__device__ __forceinline__ void fetch(const NormParams& p, const Piece<kBlock>& piece, unsigned vector,
                                      int count, kit::L2Policy policy,
                                      kit::Words<T, kWidth> (&to)[kBatch<T, kWhole>]) {
    const T* x = static_cast<const T*>(p.x) + piece.x;
    if (kWhole && count == kBatch<T, kWhole>) {
#pragma unroll
        for (int b = 0; b < kBatch<T, kWhole>; ++b)
            to[b] = fetch_vector<T, kWhole>(p, x, vector + static_cast<unsigned>(b) * kBlock, policy);
        return;
    }
#pragma unroll
    for (int b = 0; b < kBatch<T, kWhole>; ++b) {
        to[b] = {};
        if (b < count)
            to[b] = fetch_vector<T, kWhole>(p, x, vector + static_cast<unsigned>(b) * kBlock, policy);
    }
}

// Of the thread's vectors of a piece.
template <class T, bool kWhole, int kBlock>
__device__ __forceinline__ kit::Moments moments_of_piece(const NormParams& p, const Piece<kBlock>& piece) {
    constexpr int kVectors = kBatch<T, kWhole>;
    const kit::L2Policy policy = kit::l2_policy(p.keep);
    kit::MergeMoments merge;
    kit::Moments found = merge.identity();
    for (unsigned v = piece.begin + threadIdx.x; v < piece.end; v += kVectors * kBlock) {
        kit::Words<T, kWidth> batch[kVectors];
        const int count = piece.count(v, kVectors);
        fetch<T, kWhole>(p, piece, v, count, policy, batch);
        if constexpr (kWhole) {
            found = merge(found, moments_of_vectors<T>(batch, count));
        } else {
            float values[kWidth];
            kit::to_floats(kit::as_vector<T, kWidth>(batch[0]), values);
            found = merge(found, kit::moments_of(values, elements(p, v, p.row.quotient(v))));
        }
    }
    return found;
}

template <class T, bool kWhole, int kBlock>
__device__ __forceinline__ void store_result(const NormParams& p, const Piece<kBlock>& piece, unsigned vector,
                                             unsigned channel, const float (&values)[kWidth]) {
    const std::int64_t to = piece.out + offset<kWhole>(p, p.out_stride, p.out_gap, vector, channel);
    if constexpr (kWhole) {
        kit::store_aligned(static_cast<T*>(p.out) + to, kit::from_floats<T>(values));
    } else {
        const int count = elements(p, vector, channel);
        if (p.out_stride[2] == 1)
            return kit::store_floats(p.out_dtype, p.out, to, values, count, p.out_aligned);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            if (i < count) kit::store_as(p.out_dtype, p.out, to + i * p.out_stride[2], values[i]);
        }
    }
}

// What     out = act((x − mean)/deviation·weight + bias), channels first
// Mapping  a block takes a turn: the moments of a piece of a group, or its result; both where a group is one piece. Its
//          threads take the piece's vectors in turn, a batch of them at a time. Of a group of few vectors a warp is a block
// Traffic  x twice, out once: bound by memory. The second time L2 has what fits between the two turns of a piece
// Needs    fewer than 2^31 vectors a group; at most kChannels channels a piece; out may be x's memory
template <class T, bool kWhole, int kBlock>
__global__ void __launch_bounds__(kBlock, 4 * kThreads / kBlock)
    norm_first(const __grid_constant__ NormParams p) {
    constexpr int kVectors = kBatch<T, kWhole>;
    float2(&affine)[kChannels] = kit::block_shared<FirstShared>().affine;
    kit::dependency_wait();
    kit::dependents_launch();
    const Turn turn = take_turn(p);
    const unsigned begin = turn.piece * static_cast<unsigned>(p.piece), batch_number = turn.set / p.groups;
    const std::int64_t channel = std::int64_t{turn.set - batch_number * p.groups} * p.each;
    const Piece<kBlock> piece{batch_number * p.x_stride[0] + channel * p.x_stride[1],
                              batch_number * p.out_stride[0] + channel * p.out_stride[1], begin,
                              min(begin + static_cast<unsigned>(p.piece), p.row.divisor * p.each)};
    float2 known{};
    if (turn.moments) {
        kit::BlockGroup block{.lanes = kBlock};
        const kit::Moments found = block.reduce(moments_of_piece<T, kWhole>(p, piece), kit::MergeMoments{});
        if (!turn.result) {
            if (threadIdx.x == 0) p.pieces_of[std::int64_t{turn.set} * p.pieces + turn.piece] = found;
            return publish(p, turn.set, turn.set, 1);
        }
        known = mean_and_inverse(found, p.eps);
    }
    kit::Words<T, kWidth> batch[kVectors];
    const kit::L2Policy policy = kit::l2_policy(false);
    unsigned v = piece.begin + threadIdx.x;
    int count = piece.count(v, kVectors);
    fetch<T, kWhole>(p, piece, v, count, policy, batch);  // before the wait: these loads need no mean
    const unsigned first = p.row.quotient(piece.begin);
    const unsigned channels = piece.end > piece.begin ? p.row.quotient(piece.end - 1) - first + 1 : 0;
    for (unsigned c = threadIdx.x; c < channels; c += kBlock)
        affine[c] = make_float2(of_channel(p.weight, p.weight_dtype, channel + first + c, 1.0f),
                                of_channel(p.bias, p.bias_dtype, channel + first + c, 0.0f));
    if (!turn.moments && threadIdx.x == 0) await_set(p, turn.set);
    __syncthreads();
    if (!turn.moments) known = p.groups_of[turn.set];
    while (count > 0) {
#pragma unroll
        for (int b = 0; b < kVectors; ++b) {
            if (b >= count) break;
            const unsigned vector = v + static_cast<unsigned>(b) * kBlock, of = p.row.quotient(vector);
            float values[kWidth];
            kit::to_floats(kit::as_vector<T, kWidth>(batch[b]), values);
            const float2 own = affine[of - first];
            const float scale = known.y * own.x;
#pragma unroll
            for (float& value : values) value = (value - known.x) * scale + own.y;
            activate(p, values);
            store_result<T, kWhole>(p, piece, vector, of, values);
        }
        v += kVectors * kBlock;
        count = piece.count(v, kVectors);
        fetch<T, kWhole>(p, piece, v, count, policy, batch);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
