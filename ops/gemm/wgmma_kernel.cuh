// gemm on Hopper's wgmma: one warpgroup brings panels of the weights and of a, two multiply.
#pragma once

#include "kit/ptx/elect.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/registers.cuh"
#include "kit/ptx/tma.cuh"
#include "ops/gemm/parked.cuh"
#include "ops/gemm/wgmma_by_tokens.cuh"
#include "ops/gemm/wgmma_sums.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// A warp carries residuals and results of a warpgroup between memory and its box; those alone that the copy engine moves.
template <WgmmaTile kTile>
__device__ __forceinline__ void carry_tiles(const WgmmaDoor& door, WgmmaTiles<kTile> tiles,
                                            const WgmmaMaps& maps, int group) {
    for (; tiles.more(); tiles.next()) {
        const WgmmaPart part = tiles.part(group);
        if (kit::elect_one()) kit::bulk_wait_sources<0>();
        __syncwarp();
        const bool rows = tiles.args.adds_rows || gate_differs(tiles.args, part.token, kTile.tokens);
        if (!kTile.by_tokens() && rows) {  // see apply_rows
            door.open();
            door.await();
        }
        if (tiles.args.carried && kit::elect_one()) {
            kit::mbarrier_arrive_expect(door.landed, kTile.staged_bytes());
            door.each_panel<kTile>(2, part, [&](char* panel, const int (&at)[2]) {
                kit::tma_load<2>(panel, maps.residual, door.landed, at);
            });
        }
        __syncwarp();
        door.open();
        door.await();
        if (tiles.args.out_copied && kit::elect_one()) {
            door.each_panel<kTile>(tiles.args.out_bytes, part, [&](char* panel, const int (&at)[2]) {
                kit::tma_store<2>(maps.out, panel, at);
            });
            kit::bulk_commit();
        }
    }
    if (kit::elect_one()) kit::bulk_wait<0>();
}

// Results whose rows the copy engine does not write (store_rows).
template <WgmmaTile kTile>
__device__ __forceinline__ void store_part(const WgmmaDoor& door, const WgmmaArguments& args,
                                           const WgmmaPart& part, int warp) {
    const int64_t stride = args.epilogue.out_stride * args.out_bytes;
    store_rows<kTile>(
        door, args.out_bytes,
        static_cast<char*>(args.epilogue.out) + part.token * stride + part.feature * args.out_bytes, stride,
        min(kTile.warpgroup_tokens(), args.tokens - part.token),
        min(kTile.warpgroup_features(), args.features - part.feature) * args.out_bytes, warp);
}

// What blocks that share a tile along k make of its sums, together; by the threads that compute.
template <WgmmaTile kTile>
__device__ __forceinline__ void finish_split(const WgmmaShared<kTile>& shared,
                                             const WgmmaTiles<kTile>& tiles) {
    const WgmmaArguments& args = tiles.args;
    const WgmmaPart at = tiles.origin();
    await_parked(args.splits);
    finish_parked<finished_rows(kTile.tokens)>(
        args.epilogue,
        {.at = reinterpret_cast<float*>(shared.ring),
         .stride = WgmmaTile::kParkedStride,
         .group = 8,
         .tokens = kTile.tokens,
         .features = kTile.features(),
         .token = at.token,
         .feature = at.feature},
        args.tokens, args.features, static_cast<int>(shared.first_block), args.splits,
        static_cast<int>(threadIdx.x) - 128, 128 * WgmmaTile::kWarpgroups);
}

inline constexpr unsigned kComputeBarrier = 1 + WgmmaDoor::kBarriers * WgmmaTile::kWarpgroups;

// A warpgroup over all tiles.
template <class A, class B, bool kPromoted, WgmmaTile kTile>
__device__ __forceinline__ void compute_tiles(const WgmmaShared<kTile>& shared, WgmmaTiles<kTile> tiles,
                                              int group, int warp) {
    const WgmmaArguments& args = tiles.args;
    const Scales scales = load_scales(args.epilogue);
    const WgmmaDoor door = shared.door(group);
    unsigned item = 0;
    float sums[kTile.sums()];
    for (unsigned parity = 0; tiles.more(); tiles.next(), parity ^= 1) {
        // Where nothing is to be looked up the tensor cores need not wait for the tile's place to be found.
        RowTerms terms = terms_of_all<kTile>(scales);
        if (args.looks_up && !kTile.by_tokens())
            terms = load_terms<kTile>(args.epilogue, scales, tiles.part(group), warp, args.features);
        if constexpr (kPromoted) {
            multiply_promoted<A, B>(sums, shared, item, tiles.steps, args.cluster, group);
        } else {
            multiply_tile<A, B>(sums, shared, item, tiles.steps, args.cluster, group);
        }
        if constexpr (kTile.splittable()) {
            if (args.splits > 1) {  // the ring's last stages have been read by both warpgroups
                kit::named_barrier_sync(kComputeBarrier, 128 * WgmmaTile::kWarpgroups);
                float* parked = reinterpret_cast<float*>(shared.ring);
                if constexpr (kTile.by_tokens()) {
                    park_by_tokens<kTile>(parked, sums, args.swapped, group, warp);
                } else {
                    park_sums<kTile>(parked, sums, args.swapped, group, warp);
                }
                finish_split(shared, tiles);
                return;
            }
        }
        if constexpr (kTile.by_tokens()) {
            finish_by_tokens<kTile>(sums, args, scales, door, warp, parity, tiles.part(group));
        } else {
            finish_sums<kTile, sizeof(A) == 1>(sums, args, scales, terms, door, warp, parity,
                                               [&] { return tiles.part(group); });
        }
        if (!args.out_copied) store_part<kTile>(door, args, tiles.part(group), warp);
        door.leave();
    }
}

// What:    out tile = epilogue(sum over k of b · a [and of up · a]), see gemm.h
// Mapping: as many clusters as run at once, each with every so many-th tile. A block has 128 rows of the weights and up
//          to 256 tokens: warpgroups 1 and 2 own 64 rows each, with their sums in registers; of warpgroup 0 one thread
//          keeps a ring of stages full, a warp brings scales that change within the sum, and a warp for each of the
//          others takes their results. Gated, eight rows of b and eight of up take turns, so that a thread has both
//          sums of an element. The blocks of a pair have neighbouring features and share their tokens by multicast.
//          Or up to eight blocks share one tile along k, and each finishes its part of the sums of all (deterministic).
//          Or a block has 128 tokens as rows and kWeightColumns rows of the weights as columns
// Traffic: the weights once for each tile of tokens, a once for each pair of tiles of features, through L2; bound by
//          wgmma
// Needs:   steps > 0, the boxes of WgmmaTile in the maps, SM 9.0a; kPromoted, which fp8 alone has: a kernel with both
//          ways would have its products waited for one by one (ptxas C7515). kTokens and kGated are a WgmmaTile,
//          which nvcc does not take whole
template <class A, class B, bool kPromoted, int kTokens, bool kGated, bool kScaled, int kWeightColumns>
__global__ void __launch_bounds__(WgmmaTile::kThreads, 1)
    gemm_wgmma(const __grid_constant__ WgmmaArguments args, const __grid_constant__ WgmmaMaps maps) {
    constexpr WgmmaTile kTile{kTokens, kGated, kScaled, kWeightColumns};
    const int rank = args.cluster * args.splits > 1 ? static_cast<int>(kit::cluster_rank()) : 0;
    const WgmmaShared<kTile> shared(rank, args.splits > 1 ? rank : 0);
    const WgmmaTiles<kTile> tiles(args, rank);
    shared.initialise(args.cluster);
    kit::dependency_wait();
    kit::dependents_launch();
    const int warp = kit::warp_uniform(static_cast<int>(threadIdx.x) / 32), group = warp / 4 - 1;
    if (group < 0) {
        kit::registers_release<40>();
        if (warp == 0 && kit::elect_one()) load_tiles(shared, tiles, WgmmaTile::kRowBytes / sizeof(A), maps);
        if ((warp == 1 || warp == 2) && args.splits == 1)
            carry_tiles(shared.door(warp - 1), tiles, maps, warp - 1);
        if constexpr (kTile.scaled) {
            if (warp == 3) bring_scales(shared, tiles);
        }
        __syncwarp();
        if (args.splits > 1) await_parked(args.splits);
    } else {
        kit::registers_acquire<232>();
        compute_tiles<A, B, kPromoted>(shared, tiles, group, warp % 4);
    }
    if (args.splits > 1) release_parked(args.splits);
    if (args.cluster > 1) kit::cluster_sync();  // until here the other block copies and arrives here
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
