// concat_pad's kernel.
#pragma once

#include "kit/axis_walk.cuh"
#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kThreads = 256;

// One axis of out: where its elements come from.
struct PadAxis {
    std::int64_t out, x, cache;   // strides, in words
    std::int64_t before, inside;  // zeros in front; elements of the source, all of them along time
    std::int64_t kept;            // of which so many are the cache's
};

struct PadParams {
    const void *x, *cache;
    void* out;
    kit::AxisWalk rows;  // out's axes but the innermost
    PadAxis axis[5];     // the innermost first
};

// Where an element of out comes from, found axis by axis.
struct Source {
    std::int64_t to, x, cache;
    bool inside, kept;

    __device__ __forceinline__ void step(const PadAxis& axis, std::int64_t index) {
        to += index * axis.out;
        const std::int64_t at = index - axis.before;
        inside = inside && at >= 0 && at < axis.inside;
        kept = kept || at < axis.kept;
        x += (at - axis.kept) * axis.x;
        cache += at * axis.cache;
    }
};

// Words that a thread has in flight: short ones are more.
constexpr int batch_of(int bytes) { return bytes >= 16 ? 4 : 8; }

struct Sources {
    Source at[kThreads];  // of rows that the block comes to next
};

// A thread's batch of words, the same of every row: `lanes` apart, the first one at `column`. 32-bit numbers tell, counted
// from there, where the source and its kept part begin and end, and the row.
struct Batch {
    std::int64_t x, cache, out;  // offsets in a row
    int lanes, first, split, last, end;
};
__device__ __forceinline__ Batch batch_at(const PadAxis& axis, std::int64_t dim, std::int64_t column,
                                          int lanes) {
    const auto ahead = [&](std::int64_t place) {
        return static_cast<int>(max(std::int64_t{-1}, min(place - column, std::int64_t{1} << 30)));
    };
    const std::int64_t at = column - axis.before;
    return {(at - axis.kept) * axis.x,
            at * axis.cache,
            column * axis.out,
            lanes,
            max(0, ahead(axis.before)),
            ahead(axis.before + axis.kept),
            ahead(axis.before + axis.inside),
            ahead(dim)};
}
template <class Word>
__device__ __forceinline__ void copy_batch(const PadParams& p, const Source& row, const Batch& batch) {
    constexpr int kBatch = batch_of(sizeof(Word));
    const PadAxis& axis = p.axis[0];
    const Word* x = static_cast<const Word*>(p.x) + (row.x + batch.x);
    const Word* cache = static_cast<const Word*>(p.cache) + (row.cache + batch.cache);
    Word* out = static_cast<Word*>(p.out) + (row.to + batch.out);
    const int last = row.inside ? batch.last : 0, split = row.kept ? batch.last : batch.split;
    Word words[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
        const int i = b * batch.lanes;
        words[b] = Word{};
        if (i >= batch.first && i < last) words[b] = kit::load(i < split ? cache : x);
        x += batch.lanes * axis.x;
        cache += batch.lanes * axis.cache;
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
        if (b * batch.lanes < batch.end) kit::store(out, words[b]);
        out += batch.lanes * axis.out;
    }
}

// What     out = [cache, x] with zeros around
// Mapping  lanes own batches of 4 or 8 words along out's innermost axis (kit/elementwise.cuh); where a row comes from one
//          thread finds, of as many rows at once as the block has threads
// Traffic  cache, x and out once: bound by memory, in words of 16 bytes where the innermost axis is not padded
// Needs    all strides in words
template <class Word>
__global__ void __launch_bounds__(kThreads, 5)
    concat_pad(const __grid_constant__ PadParams p, kit::RowTiles tiles) {
    Source(&rows)[kThreads] = kit::block_shared<Sources>().at;
    kit::dependency_wait();
    kit::dependents_launch();
    const int lanes = 1 << tiles.lanes_log2, across = lanes * batch_of(sizeof(Word));
    const unsigned tall = blockDim.x >> tiles.lanes_log2, own = threadIdx.x >> tiles.lanes_log2;
    const std::int64_t apart = std::int64_t{gridDim.z} * gridDim.y * tall, together = apart * lanes;
    for (std::int64_t left = std::int64_t{blockIdx.x} * across; left < tiles.dim;
         left += std::int64_t{gridDim.x} * across) {
        const std::int64_t column = left + (threadIdx.x & static_cast<unsigned>(lanes - 1));
        const Batch batch = batch_at(p.axis[0], tiles.dim, column, lanes);
        for (std::int64_t top = (std::int64_t{blockIdx.z} * gridDim.y + blockIdx.y) * tall; top < tiles.rows;
             top += together) {
            const std::int64_t row = top + threadIdx.x / tall * apart + threadIdx.x % tall;
            __syncthreads();
            if (row < tiles.rows) {
                Source source{0, 0, 0, true, false};
                p.rows.each(row, [&](int axis, std::int64_t index) { source.step(p.axis[axis + 1], index); });
                rows[threadIdx.x] = source;
            }
            __syncthreads();
            unsigned next = own;
            for (std::int64_t mine = top + own; mine < min(top + together, tiles.rows); mine += apart) {
                copy_batch<Word>(p, rows[next], batch);
                next += tall;
            }
        }
    }
}

// Elements of a unit of four bytes, units of a thread, and how long rows are at least, of which a block's table then has
// room for all.
template <class Element>
inline constexpr int kInUnit = 4 / static_cast<int>(sizeof(Element));
inline constexpr int kUnits = 8, kFlatLeast = 8;
template <class Element>
inline constexpr int kFlatChunk = kThreads * kUnits * kInUnit<Element>;

struct FlatParams {
    PadParams pad;
    kit::Divisor width;  // of a row of out
    unsigned rows, end;  // of out; its elements
    unsigned ahead;      // of its first unit, elements that are not out's
    std::int64_t cache;  // elements from x's first to the cache's
};

// For each row of out that a block reaches, and the next: where its first element lies that is not in front of the source,
// in elements from x's first; none where the row is zeros.
inline constexpr std::int64_t kNoRow = INT64_MIN;
template <class Element>
struct RowBegins {
    std::int64_t at[kFlatChunk<Element> / kFlatLeast + 3];
};

// What     the same, into one stretch of memory
// Mapping  a thread owns units of four bytes of out, wherever rows begin in them, and its neighbour the next ones; its block
//          finds where each row comes from
// Traffic  as above: neighbours load neighbouring elements, and store units
// Needs    out without gaps, of fewer than 2^30 elements; rows of kFlatLeast elements or more, which lie side by side in x
//          and the cache too, of either of which a row is
template <class Element>
__global__ void __launch_bounds__(kThreads) concat_pad_flat(const __grid_constant__ FlatParams p) {
    constexpr int N = kInUnit<Element>;
    RowBegins<Element>& begins = kit::block_shared<RowBegins<Element>>();
    kit::dependency_wait();
    kit::dependents_launch();
    // Elements are numbered from the first of out; in front of it, of the first unit, numbers are less than 0.
    const int first = static_cast<int>(blockIdx.x) * kFlatChunk<Element> - static_cast<int>(p.ahead);
    const unsigned top = p.width.quotient(static_cast<unsigned>(max(first, 0))), width = p.width.divisor;
    const unsigned count = p.width.quotient(static_cast<unsigned>(first + kFlatChunk<Element> - 1)) - top + 2;
    for (unsigned i = threadIdx.x; i < count; i += kThreads) {
        std::int64_t begin = kNoRow;
        if (top + i < p.rows) {
            Source source{0, 0, 0, true, false};
            p.pad.rows.each(top + i,
                            [&](int axis, std::int64_t index) { source.step(p.pad.axis[axis + 1], index); });
            if (source.inside) begin = source.kept ? p.cache + source.cache : source.x;
        }
        begins.at[i] = begin;
    }
    __syncthreads();
    const auto inside = static_cast<unsigned>(p.pad.axis[0].inside),
               before = static_cast<unsigned>(p.pad.axis[0].before);
    // Elements of the first row that are before the block's.
    const int behind = first - static_cast<int>(top * width);
    const auto* x = static_cast<const Element*>(p.pad.x);
    // One load an element, so that all are in flight together; they become units afterwards.
    Element elements[kUnits][N];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
        const int at = behind + static_cast<int>((u * kThreads + threadIdx.x) * N);
        const unsigned row = p.width.quotient(static_cast<unsigned>(max(at, 0)));
        const int column = at - static_cast<int>(row * width);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const bool next = i > 0 && column + i >= static_cast<int>(width);
            const std::int64_t begin = begins.at[row + next];
            // Of an element in front of the source this is a large number.
            const unsigned number = static_cast<unsigned>(column + i) - (next ? width : 0) - before;
            elements[u][i] = 0;
            if (number < inside && begin != kNoRow) elements[u][i] = kit::load(x + begin + number);
        }
    }
    auto* out = static_cast<Element*>(p.pad.out);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
        const int at = first + static_cast<int>((u * kThreads + threadIdx.x) * N),
                  end = static_cast<int>(p.end);
        kit::Vec<Element, N> unit;
#pragma unroll
        for (int i = 0; i < N; ++i) unit[i] = elements[u][i];
        if (at >= 0 && at + N <= end) {
            kit::store_aligned(out + at, unit);
            continue;
        }
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (at + i >= 0 && at + i < end) out[at + i] = unit[i];
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
