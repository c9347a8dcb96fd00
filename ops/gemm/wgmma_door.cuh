// gemm on wgmma: a call, a warpgroup's part of a tile, and the door through which its results leave.
#pragma once

#include "kit/divisor.cuh"
#include "kit/mma_tile.cuh"
#include "kit/ptx/barrier.cuh"
#include "kit/ptx/mbarrier.cuh"
#include "kit/ptx/proxy_fence.cuh"
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

// Do the tokens of a tile, the first of which is given, have different rows of the gate?
__device__ __forceinline__ bool gate_differs(const WgmmaArguments& args, int token, int tokens) {
    if (args.epilogue.gate.data == nullptr) return false;
    const int last = min(token + tokens, args.tokens) - 1;
    return args.gate_run.quotient(static_cast<unsigned>(token)) !=
           args.gate_run.quotient(static_cast<unsigned>(last));
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
