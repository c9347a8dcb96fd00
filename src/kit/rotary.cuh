// Rotary embedding inside kernels: a block works out the angles of a few tokens once, for all their heads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kit/convert.cuh"
#include "kit/rotary.h"
#include "kit/target.h"
#include "kit/vector.cuh"
#include "weft/context.h"
#include "weft/device_info.h"
#include "weft/tensor.h"

namespace weft::inline WEFT_TARGET::kit {

inline constexpr int kTurnPairs = 128;  // pairs of a head that one launch turns; larger heads take several
inline constexpr int kTurnTokens = 4;   // tokens of a block, at most
inline constexpr int kTurnWidth = 8;    // pairs that a thread turns at a time

// What a kernel knows of the angles; `frequency` travels with the launch, so that every device has the host's
// bits.
struct Rotation {
    float frequency[kTurnPairs];
    int first = 0, count = 0;  // the launch's pairs
    int half = 0;              // pairs in a head
    int head_dim = 0;
    bool interleaved = false;
    const void* positions = nullptr;  // null: none
    bool wide_positions = false;
    std::int64_t start = 0;
    // Tables by position; null where angles are computed.
    const void *cos = nullptr, *sin = nullptr;
    DType table_dtype = DType::fp32;
    std::int64_t table = 0, cos_row = 0, cos_step = 0, sin_row = 0, sin_step = 0;

    __host__ __device__ bool is_first() const { return first == 0; }
};

// Host: how an op with fields positions, cos, sin and the option pairs turns its heads, from pair `first` on;
// all but the frequencies.
template <class Op>
Rotation rotation_of(const Op& op, std::int64_t head_dim, std::int64_t start, std::int64_t first) {
    Rotation r;
    r.first = static_cast<int>(first);
    r.half = static_cast<int>(op.rotated() / 2);
    r.count = std::min(kTurnPairs, r.half - r.first);
    r.head_dim = static_cast<int>(head_dim);
    r.interleaved = op.pairs == Op::Pairs::interleaved;
    r.start = start;
    if (op.positions) {
        r.positions = op.positions.data;
        r.wide_positions = op.positions.dtype == DType::int64;
    }
    if (op.cos) {
        r.cos = op.cos.data, r.cos_row = op.cos.stride[0], r.cos_step = op.cos.stride[1];
        r.sin = op.sin.data, r.sin_row = op.sin.stride[0], r.sin_step = op.sin.stride[1];
        r.table_dtype = op.cos.dtype;
        r.table = op.cos.dim(0);
    }
    return r;
}

// Host: the frequencies of a rotation; a context remembers the last ones, since a model has one base.
struct FrequencyCache {
    float base = 0;
    int half = 0, first = -1;
    float frequency[kTurnPairs];
};
inline void set_frequencies(Rotation& r, float base, Context& context) {
    if (r.cos != nullptr) return;
    auto& cache = context.slot<FrequencyCache>();
    if (cache.base != base || cache.half != r.half || cache.first != r.first) {
        cache.base = base, cache.half = r.half, cache.first = r.first;
        for (int i = 0; i < r.count; ++i)
            cache.frequency[i] = rotary_frequency(base, 2 * r.half, r.first + i);
    }
    std::copy(cache.frequency, cache.frequency + r.count, r.frequency);
}

// Host: launches that turn all pairs of a head.
inline std::int64_t turn_launches(std::int64_t rotated) {
    return std::max<std::int64_t>(1, (rotated / 2 + kTurnPairs - 1) / kTurnPairs);
}

// Host: whether vectors of heads may be loaded whole: the halves of a head begin at multiples of a vector,
// too.
inline bool heads_aligned(const Tensor& heads, std::int64_t rotated) {
    return rows_aligned(heads, kTurnWidth) && rotated / 2 % kTurnWidth == 0;
}

struct alignas(16) Turns {
    float cos[kTurnTokens][kTurnPairs], sin[kTurnTokens][kTurnPairs];
};

__device__ __forceinline__ std::int64_t position_at(const Rotation& r, std::int64_t offset) {
    return r.wide_positions ? static_cast<const std::int64_t*>(r.positions)[offset]
                            : static_cast<const std::int32_t*>(r.positions)[offset];
}

// Fills turns[t] for the block's `tokens` tokens (a power of two), whose positions are given. Lanes take
// tokens first: the frequencies are launch constants, which a warp reads one address at a time.
__device__ __forceinline__ void fill_turns(const Rotation& r, Turns& turns, const std::int64_t* positions,
                                           int tokens) {
    const int shift = __ffs(tokens) - 1;
    for (int i = static_cast<int>(threadIdx.x); i < tokens * r.count; i += static_cast<int>(blockDim.x)) {
        const int token = i & (tokens - 1), pair = i >> shift;
        const std::int64_t position = positions[token];
        float c = 0.0f, s = 0.0f;
        if (r.cos == nullptr) {
            sincosf(static_cast<float>(position) * r.frequency[pair], &s, &c);
        } else if (position >= 0 && position < r.table) {
            c = load_as(r.table_dtype, r.cos, position * r.cos_row + (r.first + pair) * r.cos_step);
            s = load_as(r.table_dtype, r.sin, position * r.sin_row + (r.first + pair) * r.sin_step);
        }
        turns.cos[token][pair] = c;
        turns.sin[token][pair] = s;
    }
}

// A head is cut into units of 8 pairs to turn, then units of 16 elements to copy: those beyond the rotated
// ones, which the launch of the first pairs takes along.
__host__ __device__ inline int turn_units(const Rotation& r) {
    return (r.count + kTurnWidth - 1) / kTurnWidth;
}
__host__ __device__ inline int copy_units(int elements) {
    return (elements + 2 * kTurnWidth - 1) / (2 * kTurnWidth);
}
__host__ __device__ inline int head_units(const Rotation& r) {
    return turn_units(r) + (r.is_first() ? copy_units(r.head_dim - 2 * r.half) : 0);
}

// Copies unit `unit` of the `elements` from `from`.
template <class T>
__device__ __forceinline__ void copy_unit(const T* from, T* to, int elements, int unit, bool aligned) {
    constexpr int kWidth = 2 * kTurnWidth;
    const int at = unit * kWidth, count = elements - at < kWidth ? elements - at : kWidth;
    store_vector(to + at, load_vector<kWidth>(from + at, count, aligned), count, aligned);
}

// (a, b) → (a·cos − b·sin, b·cos + a·sin)
template <int N>
__device__ __forceinline__ void turn(float (&a)[N], float (&b)[N], const float* cos, const float* sin) {
    const auto c = load_aligned<N>(cos), s = load_aligned<N>(sin);
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float turned = a[i] * c[i] - b[i] * s[i];
        b[i] = b[i] * c[i] + a[i] * s[i];
        a[i] = turned;
    }
}

// Turns, or copies, unit `unit` of a head. `from` may be `to`: a unit is read before it is written.
template <class T>
__device__ __forceinline__ void turn_unit(const Rotation& r, const T* from, T* to, int unit, const float* cos,
                                          const float* sin, bool aligned) {
    constexpr int kWidth = kTurnWidth;
    const int pair = unit * kWidth, count = r.count - pair < kWidth ? r.count - pair : kWidth;
    if (count <= 0) {
        const int rotated = 2 * r.half;
        copy_unit(from + rotated, to + rotated, r.head_dim - rotated, unit - turn_units(r), aligned);
        return;
    }
    float a[kWidth], b[kWidth];
    if (r.interleaved) {
        const int at = 2 * (r.first + pair);
        float both[2 * kWidth];
        to_floats(load_vector<2 * kWidth>(from + at, 2 * count, aligned), both);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) a[i] = both[2 * i], b[i] = both[2 * i + 1];
        turn(a, b, cos + pair, sin + pair);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) both[2 * i] = a[i], both[2 * i + 1] = b[i];
        store_vector(to + at, from_floats<T>(both), 2 * count, aligned);
    } else {
        const int low = r.first + pair, high = low + r.half;
        Vec<T, kWidth> first, second;
        if (aligned) {  // then every unit is whole; one branch, so that both loads are in flight together
            first = load_aligned<kWidth>(from + low);
            second = load_aligned<kWidth>(from + high);
        } else {
            first = load_elements<kWidth>(from + low, count, T());
            second = load_elements<kWidth>(from + high, count, T());
        }
        to_floats(first, a);
        to_floats(second, b);
        turn(a, b, cos + pair, sin + pair);
        store_vector(to + low, from_floats<T>(a), count, aligned);
        store_vector(to + high, from_floats<T>(b), count, aligned);
    }
}

// Host: how many tokens a block takes, a power of two, so that there are blocks for every multiprocessor.
inline int tokens_a_block(std::int64_t tokens, const DeviceInfo& device) {
    int count = kTurnTokens;
    while (count > 1 && (tokens + count - 1) / count < 2 * device.sms) count /= 2;
    return count;
}

}  // namespace weft::inline WEFT_TARGET::kit
