// merge_attention_states' kernel.
#pragma once

#include "kit/axis_walk.cuh"
#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input
inline constexpr int kApart = 4;  // elements of a thread that has no vector
inline constexpr int kThreads = 256;

// One number a head and token of a batch, of any strides.
struct Lse {
    float* data = nullptr;
    std::int64_t stride[3] = {};  // by head, token, batch: the order in which rows count them

    __device__ __forceinline__ float& at(std::int64_t offset) const { return data[offset]; }
};

struct MergeParams {
    kit::VectorRows a, b, out;
    Lse lse_a, lse_b, lse;  // lse may be absent
    kit::AxisWalk rows;     // heads, tokens, batches
};

__device__ __forceinline__ float finite_or_none(float lse) { return lse == INFINITY ? -INFINITY : lse; }

// The states' shares of the output, and what the logarithm of both sums is made of.
struct Shares {
    float a = 0.0f, b = 0.0f, most, sum = 1.0f;

    __device__ __forceinline__ Shares(float lse_a, float lse_b) {
        most = lse_a > lse_b || lse_a != lse_a ? lse_a : lse_b;
        if (most == -INFINITY) return;
        a = expf(lse_a - most);
        b = expf(lse_b - most);
        sum = a + b;
        const float share = 1.0f / sum;
        a *= share;
        b *= share;
    }
    __device__ __forceinline__ float lse() const { return most + logf(sum); }
};

// Those of row `row`, whose own log-sum-exp is stored if `store`.
__device__ __forceinline__ Shares shares_of(const MergeParams& p, std::int64_t row, bool store) {
    std::int64_t a = 0, b = 0, to = 0;
    p.rows.each(row, [&](int axis, std::int64_t index) {
        a += index * p.lse_a.stride[axis];
        b += index * p.lse_b.stride[axis];
        to += index * p.lse.stride[axis];
    });
    const Shares shares(finite_or_none(p.lse_a.at(a)), finite_or_none(p.lse_b.at(b)));
    if (store && p.lse.data != nullptr) p.lse.at(to) = shares.lse();
    return shares;
}

// The rows of a block: as many as have threads side by side, and again, `steps` times.
struct BlockRows {
    struct Table {
        float2 at[kThreads];
    };
    std::int64_t first, rows;  // the thread's first; all
    int together, own;         // rows side by side; which of them the thread has a part of

    __device__ __forceinline__ BlockRows(const kit::RowTiles& tiles, int steps)
        : rows(tiles.rows),
          together(static_cast<int>(blockDim.x) >> tiles.lanes_log2),
          own(static_cast<int>(threadIdx.x) >> tiles.lanes_log2) {
        first = (std::int64_t{blockIdx.z} * gridDim.y + blockIdx.y) * together * steps + own;
    }

    // load(row) and then use(row, its shares) for each of the thread's rows; `present`: it has columns. Shares are worked out
    // by one thread a row, while all wait for what they asked for first: without a condition, since it would be waited for
    // at once under one. So threads without a row or columns of their own ask for others', which nobody has stored yet.
    template <class Load, class Use>
    __device__ __forceinline__ void each(const MergeParams& p, int steps, bool present, Load load,
                                         Use use) const {
        float2(&shares)[kThreads] = kit::block_shared<Table>().at;
        if (first - own >= rows) return;
        load(min(first, rows - 1));
        const auto thread = static_cast<int>(threadIdx.x);
        const std::int64_t found = first - own + thread;
        if (thread < together * steps && found < rows) {
            const Shares of = shares_of(p, found, blockIdx.x == 0);
            shares[thread] = {of.a, of.b};
        }
        __syncthreads();
        if (!present || first >= rows) return;
        for (int step = 0;;) {
            const std::int64_t row = first + step * together, next = row + together;
            use(row, shares[step * together + own]);
            if (++step == steps || next >= rows) return;
            load(next);
        }
    }
};

template <class T, class Stored, int N>
__device__ __forceinline__ kit::Vec<T, N> bits_as(const Stored (&stored)[N]) {
    kit::Vec<T, N> elements;
    memcpy(static_cast<void*>(&elements), stored, sizeof(stored));
    return elements;
}

// a becomes the sum of both states' parts.
template <int N>
__device__ __forceinline__ void merge(float2 shares, float (&a)[N], const float (&b)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float of_a = shares.x == 0.0f ? 0.0f : shares.x * a[i];
        const float of_b = shares.y == 0.0f ? 0.0f : shares.y * b[i];
        a[i] = of_a + of_b;
    }
}

// What     out = (e^lse_a·a + e^lse_b·b) / (e^lse_a + e^lse_b), lse beside it where it is wanted
// Mapping  a thread owns one vector of 8 elements of some rows, each a token's head; a block has up to 256 rows, of which one
//          thread each works out the shares and stores lse
// Traffic  a, b and out once: bound by memory; the log-sum-exps once a row
// Needs    out may be a's or b's memory; a and b are of the dtype T, and all vectors are whole
template <class T>
__global__ void __launch_bounds__(kThreads)
    merge_attention_states(const __grid_constant__ MergeParams p, kit::RowTiles tiles, int steps) {
    kit::dependency_wait();
    kit::dependents_launch();
    const unsigned lanes = 1u << tiles.lanes_log2, vector = blockIdx.x * lanes + (threadIdx.x & (lanes - 1));
    kit::Fetched<T, kWidth> stored_a, stored_b;
    const auto load = [&](std::int64_t row) {
        const kit::WholeVector at{static_cast<unsigned>(row), min(vector, tiles.vectors - 1)};
        stored_a.load(p.a, at);
        stored_b.load(p.b, at);
    };
    const bool present = vector < tiles.vectors;
    BlockRows(tiles, steps).each(p, steps, present, load, [&](std::int64_t row, float2 shares) {
        float a[kWidth], b[kWidth];
        stored_a.widen(p.a, a);
        stored_b.widen(p.b, b);
        merge(shares, a, b);
        kit::store_row<kit::Wide>(p.out, kit::WholeVector{static_cast<unsigned>(row), vector}, a);
    });
}

// What     the same of rows that begin at no vector or end within one
// Mapping  a thread owns 4 elements of a row, as far apart as threads share it: neighbours move neighbouring elements
// Traffic  the same
// Needs    out may be a's or b's memory; elements of a and b have the size of Stored
template <class Stored>
__global__ void __launch_bounds__(kThreads)
    merge_attention_states_apart(const __grid_constant__ MergeParams p, kit::RowTiles tiles, int steps) {
    kit::dependency_wait();
    kit::dependents_launch();
    const int lanes = 1 << tiles.lanes_log2;
    const std::int64_t column =
        std::int64_t{blockIdx.x} * (lanes * kApart) + (threadIdx.x & static_cast<unsigned>(lanes - 1));
    const auto left = static_cast<int>(min(tiles.dim - column, std::int64_t{1} << 30));
    // Where the thread loads what it has not: its first element once more, or, if it has none, the row's last.
    const int rest = min(0, left - 1);
    Stored stored_a[kApart], stored_b[kApart];
    const auto load = [&](std::int64_t row) {
        const auto fetch = [&](const kit::VectorRows& from, Stored(&to)[kApart]) {
            const Stored* first = static_cast<const Stored*>(from.data) + row * from.stride + column;
#pragma unroll
            for (int i = 0; i < kApart; ++i) to[i] = kit::load(first + (i * lanes < left ? i * lanes : rest));
        };
        fetch(p.a, stored_a);
        fetch(p.b, stored_b);
    };
    BlockRows(tiles, steps).each(p, steps, left > 0, load, [&](std::int64_t row, float2 shares) {
        float a[kApart], b[kApart];
        kit::with_wide_type(p.a.dtype, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            if constexpr (sizeof(T) == sizeof(Stored)) {
                kit::to_floats(bits_as<T>(stored_a), a);
                kit::to_floats(bits_as<T>(stored_b), b);
            }
        });
        merge(shares, a, b);
        kit::with_wide_type(p.out.dtype, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            T* to = static_cast<T*>(p.out.data) + row * p.out.stride + column;
#pragma unroll
            for (int i = 0; i < kApart; ++i) {
                if (i * lanes < left) to[i * lanes] = kit::from_float<T>(a[i]);
            }
        });
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
