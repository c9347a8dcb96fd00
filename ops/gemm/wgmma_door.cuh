// gemm on wgmma: a call, a warpgroup's part of a tile, and the door through which its results leave.
#pragma once

#include "kit/divisor.cuh"
#include "kit/mma_tile.cuh"
#include "kit/ptx/barrier.cuh"
#include "kit/ptx/mbarrier.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/ptx/shuffle.cuh"
#include "kit/tensor_map.h"
#include "ops/gemm/epilogue.cuh"
#include "ops/gemm/scales.cuh"
#include "ops/gemm/wgmma.h"

namespace weft::inline WEFT_TARGET {
namespace {

using gemm::WgmmaTile;

struct WgmmaArguments {
    Epilogue epilogue;
    ScalesWithin scales;
    int tokens, features;     // m, n
    kit::Divisor gate_run;    // tokens, one after another, that share their row of the gate
    bool looks_up;            // there are terms of a feature: scales, biases, a gate
    bool carried, adds_rows;  // the copy engine brings residuals; there are some that it does not bring
    int token_tiles, feature_tiles;  // of out, in tiles of a cluster
    int steps;                       // of 128 bytes along k
    int clusters, cluster;           // that run; blocks of one with features of their own
    int splits;                      // blocks of one that share a tile along k: then `cluster` is 1
    bool swapped;                    // up lies before b: in a stage its rows come first
    bool plain;                      // products have neither scales nor biases, but those of tokens
    int out_bytes;                   // of an element of out
    bool out_copied;  // the copy engine takes results: rows of out begin at whole 16 bytes, and end so
};

// A warpgroup's part of a tile: its first feature and token.
struct WgmmaPart {
    int feature, token;
};

// Where the results of a warpgroup pass through shared memory: its box, and a warp of the loading warpgroup that brings
// residuals and takes results, so that those who compute do not wait for the copy engine. `base`: of three named barriers.
struct WgmmaDoor {
    char* box;
    kit::Mbarrier* landed;  // the residuals
    unsigned base;

    static constexpr unsigned kThreads = 128 + 32, kBarriers = 3;
    // By the warps that compute: until the box is free; the results are in it.
    __device__ void enter() const { kit::named_barrier_sync(base, kThreads); }
    __device__ void leave() const {
        kit::fence_proxy_async();
        kit::named_barrier_arrive(base + 1, kThreads);
    }
    // The warps that compute, among themselves.
    __device__ void meet() const { kit::named_barrier_sync(base + 2, 128); }
    // By the warp that carries.
    __device__ void open() const { kit::named_barrier_arrive(base, kThreads); }
    __device__ void await() const { kit::named_barrier_sync(base + 1, kThreads); }
    // use(panel, first feature and token of it) for the panels of a box of elements of so many bytes.
    template <WgmmaTile kTile, class F>
    __device__ __forceinline__ void each_panel(int element, const WgmmaPart& part, F use) const {
        const int row = kTile.panel_row_bytes(element), panels = kTile.panels(element);
        for (int i = 0; i < panels; ++i)
            use(box + i * row * kTile.warpgroup_tokens(), {part.feature + i * (row / element), part.token});
    }
};

// What a row of `length` bytes in memory is made of: whole words of four bytes, and bytes before and behind them.
struct RowInWords {
    int before, words;
    __device__ __forceinline__ RowInWords(const char* row, int length)
        : before(min(length, static_cast<int>(-reinterpret_cast<uintptr_t>(row) & 3))),
          words((length - before) / 4) {}
};

// The words of every eighth row of a panel, a lane each, put together from two of the panel's. Of these rows the swizzle is the
// same, and where their words begin. `kRows` of them are read before they are stored: each would else wait for the one before.
template <int kRows, class Place>
__device__ __forceinline__ void store_words(char* out, int64_t stride, int width, int row, int rows,
                                            int length, Place at) {
    const int lane = kit::lane_index();
    out += row * stride;
    const RowInWords in(out, length);
    const unsigned place = 0x3210u + 0x1111u * static_cast<unsigned>(in.before);
    const char *low = at(row, 4 * lane & (width - 1)), *high = at(row, (4 * lane + 4) & (width - 1));
    out += in.before + 4 * lane;
    rows = lane < in.words ? rows : 0;
#pragma unroll 1
    for (; row < rows; row += 8 * kRows) {
        uint32_t parts[kRows][2] = {};
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            if (row + 8 * i >= rows) continue;
            parts[i][0] = *reinterpret_cast<const uint32_t*>(low + 8 * i * width);
            parts[i][1] = *reinterpret_cast<const uint32_t*>(high + 8 * i * width);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i, out += 8 * stride) {
            if (row + 8 * i < rows)
                kit::store(reinterpret_cast<uint32_t*>(out), __byte_perm(parts[i][0], parts[i][1], place));
        }
        low += 8 * kRows * width, high += 8 * kRows * width;
    }
}

// The bytes before and behind the words of a panel's rows, at most six: eight lanes a row, from row `first` on those that are
// `step` apart.
template <class Place>
__device__ __forceinline__ void store_bytes(char* out, int64_t stride, int first, int step, int rows,
                                            int length, Place at) {
    const int lane = kit::lane_index();
#pragma unroll 1
    for (int row = first + lane / 8; row < rows; row += step) {
        char* to = out + row * stride;
        const RowInWords in(to, length);
        const int byte = lane % 8 < in.before ? lane % 8 : lane % 8 + 4 * in.words;
        if (byte < length) kit::store(to + byte, *at(row, byte));
    }
}

// Results from a warpgroup's box to where rows begin at any byte, which the copy engine does not write, by the warps that
// compute: `rows` of them, of `length` bytes, `stride` bytes apart from `out` on; elements have `element` bytes. (The warp that
// carries has registers for a few words at a time, and took twice as long as the products of a tile.)
template <WgmmaTile kTile>
__device__ __forceinline__ void store_rows(const WgmmaDoor& door, int element, char* out, int64_t stride,
                                           int rows, int length, int warp) {
    constexpr int kWarps = 4, kWords = 8;
    const int width = kTile.panel_row_bytes(element);
    const char* box = door.box;
    door.meet();
    for (; length > 0; length -= width, out += width, box += width * kTile.warpgroup_tokens()) {
        const auto at = [&](int row, int byte) {
            return box +
                   kit::swizzled(static_cast<kit::Swizzle>(width), static_cast<unsigned>(row * width + byte));
        };
        const int end = min(length, width);
#pragma unroll 1
        for (int row = warp; row < 8; row += kWarps)
            store_words<kWords>(out, stride, width, row, rows, end, at);
        store_bytes(out, stride, 4 * warp, 4 * kWarps, rows, end, at);
    }
}

// Do the tokens of a tile, the first of which is given, have different rows of the gate?
__device__ __forceinline__ bool gate_differs(const WgmmaArguments& args, int token, int tokens) {
    if (args.epilogue.gate.data == nullptr) return false;
    const int last = min(token + tokens, args.tokens) - 1;
    return args.gate_run.quotient(static_cast<unsigned>(token)) !=
           args.gate_run.quotient(static_cast<unsigned>(last));
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
