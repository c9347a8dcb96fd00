// concat_pad's kernel.
#pragma once

#include "kit/axis_walk.cuh"
#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

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
    std::int64_t to = 0, x = 0, cache = 0;
    bool inside = true, kept = false;

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

// What     out = [cache, x] with zeros around
// Mapping  a thread owns batches of 4 or 8 words along out's innermost axis (kit/elementwise.cuh)
// Traffic  cache, x and out once: bound by memory, in words of 16 bytes where the innermost axis is not padded
// Needs    all strides in words
template <class Word>
__global__ void __launch_bounds__(256) concat_pad(const __grid_constant__ PadParams p, kit::RowTiles tiles) {
    constexpr int kBatch = batch_of(sizeof(Word));
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_tile<1, kBatch>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
        Source source;
        p.rows.each(row, [&](int axis, std::int64_t index) { source.step(p.axis[axis + 1], index); });
        Word words[kBatch];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            Source own = source;
            own.step(p.axis[0], column + b * step);
            words[b] = Word{};
            if (!own.inside || column + b * step >= tiles.dim) continue;
            words[b] = kit::load(own.kept ? static_cast<const Word*>(p.cache) + own.cache
                                          : static_cast<const Word*>(p.x) + own.x);
        }
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            if (column + b * step < tiles.dim)
                kit::store(static_cast<Word*>(p.out) + source.to + (column + b * step) * p.axis[0].out,
                           words[b]);
        }
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
