// grouped_gemm on Hopper's wgmma: gemm's ring, products and epilogue (ops/gemm/wgmma_kernel.cuh) over the groups' tiles.
#pragma once

#include "ops/gemm/wgmma_kernel.cuh"
#include "ops/grouped_gemm/groups.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

struct GroupedWgmmaArguments {
    WgmmaArguments first;  // the product of the first group, whose rows all have
    GroupRows rows;
    GroupStrides apart;
};

// The tiles of a cluster, one after another, as a warp finds them.
template <WgmmaTile kTile>
struct GroupedTiles {
    const GroupedWgmmaArguments& args;
    int rank, tile;  // rank: of the block in its cluster
    GroupWalk walk;
    GroupTile at;

    __device__ __forceinline__ GroupedTiles(const GroupedWgmmaArguments& arguments, int block_rank)
        : args(arguments),
          rank(block_rank),
          tile(static_cast<int>(blockIdx.x) / arguments.first.cluster),
          walk(arguments.rows, kTile.tokens, arguments.first.feature_tiles) {}

    // Goes to the next; false where there is none.
    __device__ __forceinline__ bool next() {
        const bool found = walk.find(tile, at);
        tile += args.first.clusters;
        return found;
    }
    // First feature and token of the block's tile, and of a warpgroup's part of it.
    __device__ __forceinline__ WgmmaPart origin() const {
        const TileIndex index =
            tile_index(at.index, at.row_tiles, args.first.feature_tiles, WgmmaTiles<kTile>::kTogether);
        return {(index.column * args.first.cluster + rank) * kTile.features(),
                at.begin + index.row * kTile.tokens};
    }
    __device__ __forceinline__ WgmmaPart part(int group) const {
        const WgmmaPart first = origin();
        return {first.feature + group * kTile.warpgroup_features(), first.token};
    }
    // Where a warpgroup's results begin in memory, and how many columns of them there are.
    __device__ __forceinline__ uint16_t* out_of(const WgmmaPart& part) const {
        const Epilogue& e = args.first.epilogue;
        return static_cast<uint16_t*>(e.out) + at.group * args.apart.out + part.token * e.out_stride +
               part.feature;
    }
    __device__ __forceinline__ int columns_of(const WgmmaPart& part) const {
        return min(kTile.warpgroup_features(), args.first.features - part.feature);
    }
    // Which matrix of a and of out has the rows.
    __device__ __forceinline__ int matrix() const { return args.rows.apart ? at.group : 0; }
    // Are the weights read at one time, and then done with?
    __device__ __forceinline__ bool once() const { return at.row_tiles <= WgmmaTiles<kTile>::kTogether; }
};

template <WgmmaTile kTile, bool kOnce>
__device__ __forceinline__ void load_group_weights(char* to, const WgmmaMaps& maps, kit::Mbarrier* full,
                                                   int k, int feature, int features, int group) {
    const kit::TensorMap& map = maps.weights;
    if constexpr (kTile.gated) {
        load_gated(
            to, kTile.weights(), feature, features,
            [&](int eights) { kit::tma_load<5, kOnce>(to, map, full, {k, 0, 0, eights, group}); },
            [&](char* at, int first) { kit::tma_load<4, kOnce>(at, maps.ends, full, {k, first, 0, group}); });
    } else if constexpr (kTile.across) {
        constexpr int kFeatures = kTile.warpgroup_features();
#pragma unroll
        for (int i = 0; i < WgmmaTile::kWarpgroups; ++i)
            kit::tma_load<3, kOnce>(to + i * kFeatures * WgmmaTile::kRowBytes, map, full,
                                    {feature + i * kFeatures, k, group});
    } else {
        kit::tma_load<3, kOnce>(to, map, full, {k, feature, group});
    }
}

// A warp keeps the ring full, of which one thread asks for a tile's stages. Of the tokens whole tiles are loaded: what lies
// beyond a group's end is multiplied and goes nowhere.
template <WgmmaTile kTile>
__device__ __forceinline__ void load_groups(const WgmmaShared<kTile>& shared, GroupedTiles<kTile> tiles,
                                            int depth, const WgmmaMaps& maps) {
    const int cluster = tiles.args.first.cluster, steps = tiles.args.first.steps,
              features = tiles.args.first.features;
    const int skipped = tiles.rank * kTile.loaded_columns(cluster, 0);
    const kit::TensorMap& tokens = maps.tokens[tiles.rank];
    for (unsigned first = 0; tiles.next(); first += static_cast<unsigned>(steps)) {
        const WgmmaPart at = tiles.origin();
        const int group = tiles.at.group, matrix = tiles.matrix();
        const bool once = tiles.once();
        if (kit::elect_one()) {
            for (int step = 0; step < steps; ++step) {
                const unsigned item = first + static_cast<unsigned>(step);
                kit::Mbarrier* full = &shared.full[shared.slot(item)];
                shared.await_empty(item);
                kit::mbarrier_arrive_expect(full, kTile.stage_bytes());
                char* to = shared.stage(item);
                const int k = step * depth;
                once ? load_group_weights<kTile, true>(to, maps, full, k, at.feature, features, group)
                     : load_group_weights<kTile, false>(to, maps, full, k, at.feature, features, group);
                char* part = to + kTile.weight_bytes() + skipped * WgmmaTile::kRowBytes;
                if (cluster == 1) {
                    kit::tma_load<3>(part, tokens, full, {k, at.token, matrix});
                } else {
                    kit::tma_load_multicast<3>(part, tokens, full, {k, at.token + skipped, matrix}, 0b11);
                }
            }
        }
        __syncwarp();
    }
}

// A warp brings the scales of every stage, beside the copy engine.
template <WgmmaTile kTile>
__device__ __forceinline__ void bring_group_scales(const WgmmaShared<kTile>& shared,
                                                   GroupedTiles<kTile> tiles) {
    const WgmmaArguments& args = tiles.args.first;
    unsigned item = 0;
    while (tiles.next()) {
        const WgmmaPart at = tiles.origin();
        const ScalesWithin own = scales_of_group(args.scales, tiles.args.apart, tiles.at.group);
        const auto first = args.swapped ? own.up : own.b;
        const auto second = kTile.gated && !args.swapped ? own.up : own.b;
        bring_tile_scales(shared, item, own.a, false, first, second, at, 0, args.steps, tiles.at.end,
                          args.features);
    }
}

// The first `rows` of a box's rows, by a warp, to where each begins at a multiple of 16 bytes.
template <WgmmaTile kTile>
__device__ __forceinline__ void store_whole_rows(const char* box, uint16_t* out, int64_t stride, int rows,
                                                 int columns) {
    using Box = StagedBox<kTile, 2>;
    constexpr int kChunks = Box::kRow / 16;
#pragma unroll 4
    for (int i = kit::lane_index(); i < rows * kChunks; i += 32) {
        const int row = i / kChunks, chunk = i % kChunks;
        if (chunk * 8 >= columns) continue;
        const uint4 eight = *reinterpret_cast<const uint4*>(box + Box::at(row, chunk * 16));
        kit::store(reinterpret_cast<uint4*>(out + row * stride + chunk * 8), eight);
    }
}

// A warp takes the results of a warpgroup, where the copy engine can write rows of out. Whole tiles are its; of the last of a
// group, behind which the next group's rows may lie, the warp itself stores the group's own.
template <WgmmaTile kTile>
__device__ __forceinline__ void take_groups(const WgmmaDoor& door, GroupedTiles<kTile> tiles,
                                            const WgmmaMaps& maps, int group) {
    const WgmmaArguments& args = tiles.args.first;
    while (tiles.next()) {
        const WgmmaPart part = tiles.part(group);
        const int rows = min(kTile.tokens, tiles.at.end - part.token), matrix = tiles.matrix();
        if (kit::elect_one()) kit::bulk_wait_sources<0>();
        __syncwarp();
        door.open();
        door.await();
        if (!args.out_copied) continue;
        if (rows < kTile.tokens) {
            store_whole_rows<kTile>(door.box, tiles.out_of(part), args.epilogue.out_stride, rows,
                                    tiles.columns_of(part));
        } else if (kit::elect_one()) {
            kit::tma_store<3>(maps.out, door.box, {part.feature, part.token, matrix});
            kit::bulk_commit();
        }
        __syncwarp();
    }
    if (kit::elect_one()) kit::bulk_wait<0>();
}

// A warpgroup over all tiles.
template <class T, WgmmaTile kTile>
__device__ __forceinline__ void compute_groups(const WgmmaShared<kTile>& shared, GroupedTiles<kTile> tiles,
                                               int group, int warp) {
    const WgmmaArguments& args = tiles.args.first;
    const WgmmaDoor door = shared.door(group);
    constexpr Scales kNone{1.0f, 1.0f, 1.0f};
    unsigned item = 0;
    float sums[kTile.sums()];
    while (tiles.next()) {
        RowTerms terms = terms_of_all<kTile>(kNone);
        if (args.looks_up) {
            const Epilogue own = epilogue_of_group(args.epilogue, tiles.args.apart, tiles.at.group);
            terms = load_terms<kTile>(own, load_scales(own), tiles.part(group), warp, args.features);
        }
        if constexpr (sizeof(T) == 1) {
            multiply_promoted<T, T>(sums, shared, item, args.steps, args.cluster, group);
        } else {
            multiply_tile<T, T>(sums, shared, item, args.steps, args.cluster, group);
        }
        finish_sums<kTile, false>(sums, args, kNone, terms, door, warp, 0, [] { return WgmmaPart{}; });
        if (!args.out_copied) {
            const WgmmaPart part = tiles.part(group);
            store_rows<kTile>(door, 2, reinterpret_cast<char*>(tiles.out_of(part)),
                              args.epilogue.out_stride * 2, min(kTile.tokens, tiles.at.end - part.token),
                              2 * tiles.columns_of(part), warp);
        }
        door.leave();
    }
}

// What:    the rows of each group's part of out = epilogue(sum over k of b · a of the group [and of up · a]), see
//          grouped_gemm.h
// Mapping: as many clusters as run at once, each with every so many-th tile of those that the groups have; every warp finds
//          them by itself, from the groups' sizes. A tile has 128 rows of a group's weights and up to 256 tokens of the
//          group, from its first on; what lies beyond its last is not written. The rest is gemm's (gemm_wgmma)
// Traffic: the weights of a group once for each of its tiles of tokens, a once for each pair of tiles of features, through
//          L2; bound by wgmma, and of few rows by the weights
// Needs:   steps > 0, the boxes of WgmmaTile in maps with an axis of groups, SM 9.0a. kTokens, kGated, kScaled and
//          kAcross are a WgmmaTile, which nvcc does not take whole
template <class T, int kTokens, bool kGated, bool kScaled, bool kAcross>
__global__ void __launch_bounds__(WgmmaTile::kThreads, 1)
    grouped_wgmma(const __grid_constant__ GroupedWgmmaArguments args,
                  const __grid_constant__ WgmmaMaps maps) {
    constexpr WgmmaTile kTile{kTokens, kGated, kScaled, 0, kAcross};
    const int cluster = args.first.cluster;
    const int rank = cluster > 1 ? static_cast<int>(kit::cluster_rank()) : 0;
    const WgmmaShared<kTile> shared(rank, 0);
    shared.initialise(cluster);
    kit::dependency_wait();
    kit::dependents_launch();
    const int warp = kit::warp_uniform(static_cast<int>(threadIdx.x) / 32), group = warp / 4 - 1;
    if (group < 0) {
        kit::registers_release<40>();
        const GroupedTiles<kTile> tiles(args, rank);
        if (warp == 0) load_groups(shared, tiles, WgmmaTile::kRowBytes / sizeof(T), maps);
        if (warp == 1 || warp == 2) take_groups(shared.door(warp - 1), tiles, maps, warp - 1);
        if constexpr (kTile.scaled) {
            if (warp == 3) bring_group_scales(shared, tiles);
        }
    } else {
        kit::registers_acquire<232>();
        compute_groups<T>(shared, GroupedTiles<kTile>(args, rank), group, warp % 4);
    }
    if (cluster > 1) kit::cluster_sync();  // until here the other block copies and arrives here
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
