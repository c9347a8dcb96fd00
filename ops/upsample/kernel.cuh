// upsample's kernels.
#pragma once

#include "kit/axis_walk.cuh"
#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input
inline constexpr int kBatch = 4;  // elements of a thread that has no vector
inline constexpr int kThreads = 256;

// One axis of out: its strides, by how much x is smaller, and what the rest of the division by that counts for.
struct UpAxis {
    std::int64_t out, residual, x;
    kit::Divisor scale;
    unsigned part;  // of width 1, of height width_scale, …; 0: the axis is not repeated
};

struct UpParams {
    const void *x, *residual;  // residual may be null
    void* out;
    DType x_dtype, residual_dtype, out_dtype;
    kit::AxisWalk inner;  // out's innermost axes, along which a row lies: of vectors, the first one alone
    kit::AxisWalk rows;   // the others
    UpAxis axis[kit::AxisWalk::kMost];   // of inner
    UpAxis outer[kit::AxisWalk::kMost];  // of rows
    std::int64_t channel;                // x's stride of channels
    bool shuffled;                       // x has several channels for one of out
    kit::Divisor apiece;                 // elements of out that each of them becomes
};

// Where an element of out comes from, found axis by axis.
struct Place {
    std::int64_t out, residual, x;
    unsigned part;

    __device__ __forceinline__ void step(const UpAxis& axis, std::int64_t index) {
        const auto number = static_cast<unsigned>(index);
        out += number * axis.out;
        residual += number * axis.residual;
        if (axis.part == 0) {
            x += number * axis.x;
            return;
        }
        const unsigned whole = axis.scale.quotient(number);
        x += whole * axis.x;
        part += (number - whole * axis.scale.divisor) * axis.part;
    }
    // Of the axes that either was found by, together.
    __device__ __forceinline__ Place with(const Place& other, const UpParams& p) const {
        Place both{out + other.out, residual + other.residual, x + other.x, part + other.part};
        if (p.shuffled) both.x += p.apiece.quotient(both.part) * p.channel;
        return both;
    }
};

// What     out = x repeated (+ residual)
// Mapping  a thread owns one vector of 8 channels of a row (kit/elementwise.cuh)
// Traffic  residual and out once, x once and then from L2: bound by memory
// Needs    channels contiguous and whole aligned vectors in all tensors, which have the dtype T; shuffle 1
template <class T>
__global__ void __launch_bounds__(256)
    upsample_vectors(const __grid_constant__ UpParams p, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_tile<kWidth, 1>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t) {
        Place at{};
        p.rows.each(row, [&](int axis, std::int64_t index) { at.step(p.outer[axis], index); });
        auto vector = kit::load_aligned<kWidth>(static_cast<const T*>(p.x) + at.x + column);
        if (p.residual != nullptr) {
            const auto other =
                kit::load_aligned<kWidth>(static_cast<const T*>(p.residual) + at.residual + column);
            float sum[kWidth], add[kWidth];
            kit::to_floats(vector, sum);
            kit::to_floats(other, add);
#pragma unroll
            for (int i = 0; i < kWidth; ++i) sum[i] += add[i];
            vector = kit::from_floats<T>(sum);
        }
        kit::store_aligned(static_cast<T*>(p.out) + at.out + column, vector);
    });
}

// Along an axis that is repeated: how often, and how far apart the copies lie.
struct Repeat {
    unsigned count = 1;
    std::int64_t out = 0, residual = 0;
};
// `up`, whose rows and strides are those of an element of x and its first copy.
struct CopiesParams {
    UpParams up;
    Repeat time, height, width;
};

// What     the same, of so many vectors that each has a thread
// Mapping  a thread owns a vector of x, which it stores wherever it belongs
// Traffic  x, residual and out once: bound by memory. Where an element lies is found once for all of its copies
// Needs    as upsample_vectors
template <class T>
__global__ void __launch_bounds__(256)
    upsample_copies(const __grid_constant__ CopiesParams p, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_tile<kWidth, 1>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t) {
        Place at{};
        p.up.rows.each(row, [&](int axis, std::int64_t index) { at.step(p.up.outer[axis], index); });
        const auto words = kit::load_words<kWidth>(static_cast<const T*>(p.up.x) + at.x + column);
        const auto put = [&](std::int64_t to, std::int64_t from) {
            kit::Vec<T, kWidth> vector = kit::as_vector<T, kWidth>(words);
            if (p.up.residual != nullptr) {
                float sum[kWidth], add[kWidth];
                kit::to_floats(vector, sum);
                kit::to_floats(kit::load_aligned<kWidth>(static_cast<const T*>(p.up.residual) + from), add);
#pragma unroll
                for (int i = 0; i < kWidth; ++i) sum[i] += add[i];
                vector = kit::from_floats<T>(sum);
            }
            kit::store_aligned(static_cast<T*>(p.up.out) + to, vector);
        };
        for (unsigned t = 0; t < p.time.count; ++t) {
            for (unsigned h = 0; h < p.height.count; ++h) {
                std::int64_t to = at.out + column + t * p.time.out + h * p.height.out,
                             from = at.residual + column + t * p.time.residual + h * p.height.residual;
                for (unsigned w = 0; w < p.width.count; ++w) {
                    put(to, from);
                    to += p.width.out;
                    from += p.width.residual;
                }
            }
        }
    });
}

// Blocks of elements that a multiprocessor has room for: of those that are moved as they are, and of others.
constexpr int resident_blocks(bool words) { return words ? 4 : 3; }

// Of the rows that a block comes to next: as many as it has threads, of which each finds one.
struct RowPlaces {
    Place at[kThreads];
};

// What     the same for any strides and dtypes
// Mapping  a thread owns 4 elements of each of many rows, two rows at a time. A row lies along as many of out's innermost
//          axes as are long enough for a warp together, so that neighbours store neighbouring elements of an image of
//          three channels too. A thread finds its columns once; rows are found by the block, one by each of its threads
// Traffic  out (and residual) once in whole lines; x as its strides lie
// Needs    nothing where Word is void; else elements of its size, of one dtype, and no residual: they are moved as they are
template <class Word>
__global__ void __launch_bounds__(kThreads, resident_blocks(!std::is_void_v<Word>))
    upsample(const __grid_constant__ UpParams p, kit::RowTiles tiles) {
    constexpr int kRows = 2;
    Place(&places)[kThreads] = kit::block_shared<RowPlaces>().at;
    kit::dependency_wait();
    kit::dependents_launch();
    const int lanes = 1 << tiles.lanes_log2;
    const auto thread = static_cast<int>(threadIdx.x),
               tall = static_cast<int>(blockDim.x) >> tiles.lanes_log2;
    const std::int64_t blocks = std::int64_t{gridDim.z} * gridDim.y, apart = blocks * tall,
                       together = apart * lanes,
                       begin = (std::int64_t{blockIdx.z} * gridDim.y + blockIdx.y) * tall;
    for (std::int64_t left = std::int64_t{blockIdx.x} * (lanes * kBatch); left < tiles.dim;
         left += std::int64_t{gridDim.x} * (lanes * kBatch)) {
        const std::int64_t column = left + (thread & (lanes - 1));
        Place inner[kBatch] = {};
        std::int64_t number[kBatch];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) number[b] = min(column + b * lanes, tiles.dim - 1);
#pragma unroll
        for (int axis = 0; axis < kit::AxisWalk::kMost; ++axis) {
            if (axis >= p.inner.axes) break;
#pragma unroll
            for (int b = 0; b < kBatch; ++b) inner[b].step(p.axis[axis], p.inner.take(axis, number[b]));
        }
        for (std::int64_t top = begin; top < tiles.rows; top += together) {
            const std::int64_t found = top + thread / tall * apart + thread % tall;
            __syncthreads();
            if (found < tiles.rows) {
                Place outer{};
                p.rows.each(found, [&](int axis, std::int64_t index) { outer.step(p.outer[axis], index); });
                places[thread] = outer;
            }
            __syncthreads();
            // The thread's row in a step of the block, of which the block has as many as lanes share a row.
            const int own = thread >> tiles.lanes_log2;
            const auto ahead = static_cast<int>(min(
                std::int64_t{lanes}, tiles.rows <= top + own ? 0 : (tiles.rows - top - own - 1) / apart + 1));
            for (int step = 0; step < ahead; step += kRows) {
                std::conditional_t<std::is_void_v<Word>, float, Word> values[kRows][kBatch];
                const auto each = [&](auto use) {
#pragma unroll
                    for (int r = 0; r < kRows; ++r) {
                        const Place& row = places[min(step + r, ahead - 1) * tall + own];
#pragma unroll
                        for (int b = 0; b < kBatch; ++b) use(row.with(inner[b], p), r, b);
                    }
                };
                // Of an element that is another thread's, x alone may be read: out may be the residual's memory.
                const auto own_element = [&](int r, int b) {
                    return step + r < ahead && column + b * lanes < tiles.dim;
                };
                each([&](const Place& at, int r, int b) {
                    if constexpr (std::is_void_v<Word>) {
                        values[r][b] = kit::load_as(p.x_dtype, p.x, at.x);
                        if (p.residual != nullptr && own_element(r, b))
                            values[r][b] += kit::load_as(p.residual_dtype, p.residual, at.residual);
                    } else {
                        values[r][b] = kit::load(static_cast<const Word*>(p.x) + at.x);
                    }
                });
                each([&](const Place& at, int r, int b) {
                    if (!own_element(r, b)) return;
                    if constexpr (std::is_void_v<Word>) {
                        kit::store_as(p.out_dtype, p.out, at.out, values[r][b]);
                    } else {
                        kit::store(static_cast<Word*>(p.out) + at.out, values[r][b]);
                    }
                });
            }
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
