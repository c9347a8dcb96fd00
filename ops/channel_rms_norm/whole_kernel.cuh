// Whole vectors: x and out are of one dtype and lie in aligned vectors of 16 bytes, of a place's channels or of a
// channel's places. The host knows so (whole_vectors in channel_rms_norm.cu); nothing is asked again here.
#pragma once

#include "ops/channel_rms_norm/kernel.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));  // elements

inline constexpr unsigned kLastVectors = 32 * kHeld;  // of a place, at most
inline constexpr int kApartHeld = 8;                  // vectors that a thread keeps, of as many channels
inline constexpr int kApartThreads = 512, kApartChannels = 1024;  // at most

struct WholeParams {
    ChannelParams call;
    kit::Divisor batch;  // last: by a batch's places; apart: by its blocks
    // Vectors from batch to batch, and from place to place or, apart, from channel to channel.
    unsigned x_pitch[2], out_pitch[2];
    unsigned vectors;            // of a place, or of a channel
    unsigned places;             // last: of all batches
    unsigned lanes, lanes_log2;  // last: that share a place; apart: side by side along a channel
};

template <class T, class Data>
__device__ __forceinline__ T* vector_at(Data* data, const unsigned (&pitch)[2], unsigned batch, unsigned row,
                                        unsigned vector) {
    const std::uint64_t at = std::uint64_t{batch} * pitch[0] + std::uint64_t{row} * pitch[1] + vector;
    return static_cast<T*>(data) + at * kVector<T>;
}

template <class T>
__device__ __forceinline__ void add_squares(const kit::Words<T, kVector<T>>& words,
                                            float (&squares)[kVector<T>]) {
    float values[kVector<T>];
    kit::to_floats(kit::as_vector<T, kVector<T>>(words), values);
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i) squares[i] += values[i] * values[i];
}
// use(value, i) makes the vector's results. It is unpacked anew, so that its numbers need not stay in registers since their
// squares were added.
template <class T, class Use>
__device__ __forceinline__ void store_result(const WholeParams& p, T* to,
                                             const kit::Words<T, kVector<T>>& words, Use use) {
    constexpr int N = kVector<T>;
    float values[N];
    kit::to_floats(kit::as_vector<T, N>(kit::opaque<T, N>(words)), values);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = use(values[i], i);
    if (p.call.silu) {
#pragma unroll
        for (float& value : values) value = kit::silu(value);
    }
    kit::store_aligned(to, kit::from_floats<T>(values));
}

// Weights and biases: a vector's first four channels lie beside the next vector's first four, so that lanes side by side
// read what lies side by side.
template <class T>
struct LastShared {
    kit::Vec<float, 4> weight[kVector<T> / 4][kLastVectors], bias[kVector<T> / 4][kLastVectors];
};

// What     out = act(x / max(‖x‖, eps)·√channels·weight + bias), channels neighbours in memory
// Mapping  lanes of a warp share a place, which stays in their registers; blocks take places in turn
// Traffic  x and out once: bound by memory
// Needs    at most kLastVectors vectors a place; lanes a power of two up to 32, that hold them all; fewer than 2^31 places;
//          out may be x's memory
template <class T>
__global__ void __launch_bounds__(kThreads, 4) channels_last_whole(const __grid_constant__ WholeParams p) {
    constexpr int N = kVector<T>;
    LastShared<T>& shared = kit::block_shared<LastShared<T>>();
    kit::dependency_wait();
    kit::dependents_launch();
    const unsigned lane = threadIdx.x & (p.lanes - 1), own = threadIdx.x >> p.lanes_log2;
    const unsigned count = (p.vectors + p.lanes - 1 - lane) >> p.lanes_log2, rows = kThreads >> p.lanes_log2;
    unsigned first = blockIdx.x * rows, batch = 0, within = 0, vectors = 0;
    kit::Words<T, N> held[kHeld];
    const auto fetch = [&] {
        const unsigned place = first + own;
        vectors = place < p.places ? count : 0;
        batch = p.batch.quotient(place);
        within = place - batch * p.batch.divisor;
        const T* from = vector_at<const T>(p.call.x, p.x_pitch, batch, within, lane);
#pragma unroll
        for (unsigned v = 0; v < kHeld; ++v) {
            if (v < vectors) held[v] = kit::load_words<N>(from + v * p.lanes * N);
        }
    };
    fetch();
    for (unsigned c = threadIdx.x; c < p.vectors * N; c += kThreads) {
        shared.weight[c % N / 4][c / N][c % 4] = of_channel(p.call.weight, p.call.weight_dtype, c, 1.0f);
        shared.bias[c % N / 4][c / N][c % 4] = of_channel(p.call.bias, p.call.bias_dtype, c, 0.0f);
    }
    __syncthreads();
    while (first < p.places) {
        float squares[N] = {}, sum = 0.0f;
#pragma unroll
        for (unsigned v = 0; v < kHeld; ++v) {
            if (v < vectors) add_squares<T>(held[v], squares);
        }
#pragma unroll
        for (const float square : squares) sum += square;
        const float factor = factor_of(p.call, kit::warp_reduce(sum, kit::Sum{}, static_cast<int>(p.lanes)));
        T* out = vector_at<T>(p.call.out, p.out_pitch, batch, within, lane);
#pragma unroll
        for (unsigned v = 0; v < kHeld; ++v) {
            if (v >= vectors) break;
            kit::Vec<float, 4> weight[N / 4], bias[N / 4] = {};
#pragma unroll
            for (int i = 0; i < N / 4; ++i) {
                weight[i] = kit::load(&shared.weight[i][lane + v * p.lanes]);
                if (p.call.bias != nullptr) bias[i] = kit::load(&shared.bias[i][lane + v * p.lanes]);
            }
            store_result(p, out + v * p.lanes * N, held[v], [&](float x, int i) {
                return x * factor * weight[i / 4][i % 4] + bias[i / 4][i % 4];
            });
        }
        first += gridDim.x * rows;
        fetch();
    }
}

struct ApartShared {
    float2 affine[kApartChannels];  // weight and bias
    // Of each warp, the squares of the block's places; then a factor for each place.
    alignas(16) float squares[kApartThreads / 32][32 * 8];
    alignas(16) float factors[32 * 8];
};

// What     the same, places neighbours in memory
// Mapping  a block owns vectors of neighbouring places and all their channels: lanes of a warp are side by side along a
//          channel, the block's other threads have other channels; all stay in registers
// Traffic  x and out once: bound by memory
// Needs    blocks of whole warps, whose threads hold all channels; lanes a power of two up to 32; out may be x's memory
template <class T>
__global__ void __launch_bounds__(kApartThreads, 2)
    channels_apart_whole(const __grid_constant__ WholeParams p) {
    constexpr int N = kVector<T>;
    ApartShared& shared = kit::block_shared<ApartShared>();
    kit::dependency_wait();
    kit::dependents_launch();
    const unsigned batch = p.batch.quotient(blockIdx.x), lane = threadIdx.x & (p.lanes - 1);
    const unsigned vector = (blockIdx.x - batch * p.batch.divisor) * p.lanes + lane;
    const unsigned row = threadIdx.x >> p.lanes_log2, rows = blockDim.x >> p.lanes_log2;
    const auto channels = static_cast<unsigned>(p.call.channels);
    const unsigned end = vector < p.vectors ? channels : 0;
    const T* x = vector_at<const T>(p.call.x, p.x_pitch, batch, row, vector);
    const std::uint64_t step = std::uint64_t{rows} * p.x_pitch[1] * N;
    kit::Words<T, N> held[kApartHeld];
#pragma unroll
    for (unsigned v = 0; v < kApartHeld; ++v) {
        if (row + v * rows < end) held[v] = kit::load_words<N>(x + v * step);
    }
    for (unsigned c = threadIdx.x; c < channels; c += blockDim.x)
        shared.affine[c] = make_float2(of_channel(p.call.weight, p.call.weight_dtype, c, 1.0f),
                                       of_channel(p.call.bias, p.call.bias_dtype, c, 0.0f));
    float squares[N] = {};
#pragma unroll
    for (unsigned v = 0; v < kApartHeld; ++v) {
        if (row + v * rows < end) add_squares<T>(held[v], squares);
    }
    for (unsigned mask = 16; mask >= p.lanes; mask >>= 1) {
#pragma unroll
        for (float& square : squares) square += kit::shuffle_xor(square, static_cast<int>(mask));
    }
    if ((threadIdx.x & 31) < p.lanes)
        kit::store_aligned(&shared.squares[threadIdx.x / 32][lane * N], kit::from_floats<float>(squares));
    __syncthreads();
    if (threadIdx.x < p.lanes * N) {
        float sum = 0.0f;
        for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += shared.squares[warp][threadIdx.x];
        shared.factors[threadIdx.x] = factor_of(p.call, sum);
    }
    __syncthreads();
    const kit::Vec<float, N> factors = kit::load_aligned<N>(&shared.factors[lane * N]);
    T* out = vector_at<T>(p.call.out, p.out_pitch, batch, row, vector);
    const std::uint64_t out_step = std::uint64_t{rows} * p.out_pitch[1] * N;
#pragma unroll
    for (unsigned v = 0; v < kApartHeld; ++v) {
        if (row + v * rows >= end) break;
        const float2 own = shared.affine[row + v * rows];
        store_result(p, out + v * out_step, held[v],
                     [&](float x, int i) { return x * factors[i] * own.x + own.y; });
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
