// gemm on Hopper's wgmma: the ring of stages that a block multiplies from, and who fills it.
#pragma once

#include "kit/ptx/cluster.cuh"
#include "kit/ptx/tma.cuh"
#include "kit/ptx/wgmma.cuh"
#include "ops/gemm/tile_order.cuh"
#include "ops/gemm/wgmma_epilogue.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// weights: b, or b and up as groups of eight rows in turn; ends: one such group, where the matrices end within eight rows (see
// load_gated). tokens: a. Columns are in boxes of what either block of a cluster loads.
struct WgmmaMaps {
    kit::TensorMap weights, ends, tokens[2], residual, out;
};

// The tiles of a cluster, one after another; first feature and token of the block's tile in each, and its steps along k.
template <WgmmaTile kTile>
struct WgmmaTiles {
    const WgmmaArguments& args;
    int rank, tile;  // rank: among the blocks with rows of their own
    int first_step, steps;

    __device__ WgmmaTiles(const WgmmaArguments& arguments, int block_rank)
        : args(arguments),
          rank(arguments.splits > 1 ? 0 : block_rank),
          tile(static_cast<int>(blockIdx.x) / (arguments.cluster * arguments.splits)) {
        const int part = arguments.splits > 1 ? block_rank : 0;
        first_step = args.steps * part / args.splits;
        steps = args.steps * (part + 1) / args.splits - first_step;
    }
    // Tiles of tokens that are computed together, by about 16 tiles of features.
    static constexpr int kTogether = 8;
    // All of them: the weights are read at one time, and then are done with.
    __device__ bool once() const { return args.token_tiles <= kTogether; }
    __device__ bool more() const { return tile < args.token_tiles * args.feature_tiles; }
    __device__ void next() { tile += args.clusters; }
    __device__ WgmmaPart part(int group) const {
        const WgmmaPart at = origin();
        return kTile.by_tokens() ? WgmmaPart{at.feature, at.token + group * kTile.warpgroup_tokens()}
                                 : WgmmaPart{at.feature + group * kTile.warpgroup_features(), at.token};
    }
    __device__ WgmmaPart origin() const {
        const TileIndex at = tile_index(tile, args.token_tiles, args.feature_tiles, kTogether);
        return kTile.by_tokens()
                   ? WgmmaPart{at.column * kTile.features(), (at.row * args.cluster + rank) * kTile.tokens}
                   : WgmmaPart{(at.column * args.cluster + rank) * kTile.features(), at.row * kTile.tokens};
    }
};

// The parts of a block's shared memory. Stages of the ring are counted through, over all tiles.
template <WgmmaTile kTile>
struct WgmmaShared {
    static constexpr unsigned kStages = kTile.stages();
    // A warp's arrivals when it leaves a stage: one lane says it of what the tensor cores have read; of scales, which lanes
    // read themselves, each says it.
    static constexpr int kWarps = 4 * WgmmaTile::kWarpgroups, kLeaving = kTile.scaled ? 32 : 1;
    char *ring, *staged, *scaled;
    kit::Mbarrier *full, *empty;  // one a stage
    kit::Mbarrier* landed;        // the residuals of a warpgroup
    unsigned own_block;           // its rank in the cluster
    unsigned first_block;         // the rank of the first of `cluster` blocks that fill this block's stages

    __device__ WgmmaShared(int own, int first)
        : own_block(static_cast<unsigned>(own)), first_block(static_cast<unsigned>(first)) {
        ring = kit::align_shared<1024>(kit::dynamic_shared<char>());
        staged = ring + kTile.stages() * kTile.stage_bytes();
        scaled = staged + WgmmaTile::kWarpgroups * kTile.staged_bytes();
        full = reinterpret_cast<kit::Mbarrier*>(scaled + kTile.stages() * kTile.scale_bytes());
        empty = full + kTile.stages();
        landed = empty + kTile.stages();
    }
    // A stage is full when the copy engine has filled it, and a warp has brought its scales. It is empty when every warp of
    // every block has left it: what one block loads, all have.
    __device__ void initialise(int cluster) const {
        for (int i = static_cast<int>(threadIdx.x); i < kTile.stages() * kTile.scale_bytes() / 4;
             i += WgmmaTile::kThreads)
            reinterpret_cast<float*>(scaled)[i] = 1.0f;  // of operands that have none
        if (threadIdx.x == 0) {
            for (unsigned i = 0; i < kStages; ++i) {
                kit::mbarrier_init(&full[i], kTile.scaled ? 1 + 32 : 1);
                kit::mbarrier_init(&empty[i], static_cast<unsigned>(kWarps * (kLeaving + cluster - 1)));
            }
            for (int i = 0; i < WgmmaTile::kWarpgroups; ++i) kit::mbarrier_init(&landed[i], 1);
            kit::fence_mbarrier_init();
        }
        cluster > 1 ? kit::cluster_sync() : __syncthreads();
    }
    __device__ WgmmaDoor door(int group) const {
        return {staged + group * kTile.staged_bytes(), &landed[group],
                1 + WgmmaDoor::kBarriers * static_cast<unsigned>(group)};
    }
    __device__ static unsigned slot(unsigned item) { return item % kStages; }
    __device__ static unsigned parity(unsigned item) { return item / kStages & 1; }
    __device__ char* stage(unsigned item) const { return ring + slot(item) * kTile.stage_bytes(); }
    __device__ float* scales(unsigned item) const {
        return reinterpret_cast<float*>(scaled + slot(item) * kTile.scale_bytes());
    }
    // Until the stage that this item fills was left, or was never filled.
    __device__ void await_empty(unsigned item) const {
        if (item >= kStages) kit::mbarrier_wait(&empty[slot(item)], parity(item - kStages));
    }
    // The warp has left the stage of each block that fills it together with this one. It has only read there: nothing is to
    // be published. Scales are its own block's alone.
    __device__ void release(unsigned item, int cluster) const {
        const unsigned lane = threadIdx.x % 32, block = first_block + lane;
        kit::Mbarrier* left = &empty[slot(item)];
        if constexpr (kTile.scaled) kit::mbarrier_arrive(left);
        if (lane < static_cast<unsigned>(cluster) && !(kTile.scaled && block == own_block))
            kit::mbarrier_arrive_remote<false>(left, block);
    }
};

// `rows` rows of b and of up in turn, from `feature` of `features` on: all(feature / 8) brings them where the groups of eight are
// whole. A map of groups does not say that the last has fewer rows, so there group(to, feature) brings each by itself, zeros
// beyond the end.
template <class All, class Group>
__device__ __forceinline__ void load_gated(char* to, int rows, int feature, int features, All all,
                                           Group group) {
    if (features % 8 == 0 || feature + rows / 2 <= features) return all(feature / 8);
    for (int row = 0; row < rows; row += 16) group(to + row * WgmmaTile::kRowBytes, feature + row / 2);
}

// By one block for itself, or of a pair for both. kOnce: a, and what becomes of it, is better kept in L2.
template <WgmmaTile kTile, bool kOnce>
__device__ __forceinline__ void load_weights(char* to, const WgmmaMaps& maps, kit::Mbarrier* full, int k,
                                             int feature, int features, bool for_both) {
    const auto load = [&]<int kAxes>(char* at, const kit::TensorMap& map, const int (&from)[kAxes]) {
        for_both ? kit::tma_load_multicast<kAxes>(at, map, full, from, 0b11)
                 : kit::tma_load<kAxes, kOnce>(at, map, full, from);
    };
    if constexpr (kTile.gated) {
        load_gated(
            to, for_both ? kTile.weights() / 2 : kTile.weights(), feature, features,
            [&](int group) { load(to, maps.weights, {k, 0, 0, group}); },
            [&](char* at, int first) { load(at, maps.ends, {k, first, 0}); });
    } else {
        load(to, maps.weights, {k, feature});
    }
}

// One thread keeps the ring full. Blocks that share their columns load a part of them each, for both.
template <WgmmaTile kTile>
__device__ __forceinline__ void load_tiles(const WgmmaShared<kTile>& shared, WgmmaTiles<kTile> tiles,
                                           int depth, const WgmmaMaps& maps) {
    constexpr int kRowsOfFeature = kTile.weights() / kTile.features();
    const bool pair = tiles.args.cluster > 1;
    const int skipped = tiles.rank * kTile.loaded_columns(tiles.args.cluster, 0);
    const int of_weights = kTile.by_tokens() * skipped, of_tokens = skipped - of_weights;
    const kit::TensorMap& tokens = maps.tokens[tiles.rank];
    kit::tma_prefetch(maps.weights);
    kit::tma_prefetch(tokens);
    unsigned item = 0;
    for (; tiles.more(); tiles.next()) {
        const auto at = tiles.origin();
        for (int step = tiles.first_step; step < tiles.first_step + tiles.steps; ++step, ++item) {
            kit::Mbarrier* full = &shared.full[shared.slot(item)];
            const int k = step * depth, feature = at.feature + of_weights / kRowsOfFeature;
            shared.await_empty(item);
            kit::mbarrier_arrive_expect(full, kTile.stage_bytes());
            char* to = shared.stage(item) + of_weights * WgmmaTile::kRowBytes;
            const bool for_both = kTile.by_tokens() && pair;
            const int features = tiles.args.features;
            tiles.once() ? load_weights<kTile, true>(to, maps, full, k, feature, features, for_both)
                         : load_weights<kTile, false>(to, maps, full, k, feature, features, for_both);
            char* part = shared.stage(item) + kTile.weight_bytes() + of_tokens * WgmmaTile::kRowBytes;
            if (kTile.by_tokens() || !pair) {
                kit::tma_load<2>(part, tokens, full, {k, at.token});
            } else {
                kit::tma_load_multicast<2>(part, tokens, full, {k, at.token + of_tokens}, 0b11);
            }
        }
    }
}

// Where a stage's scale of a token lies: where tokens are columns, four of one thread, of two groups of eight, are together.
template <WgmmaTile kTile>
__device__ __forceinline__ constexpr int scale_place(int token) {
    if (kTile.by_tokens()) return token;
    return token / 16 * 16 + token % 8 / 2 * 4 + token % 16 / 8 * 2 + token % 2;
}

// The scales of a tile's stages by a warp: of the tokens before `tokens`, and of the block in which its features lie, `first` and
// `second` of the two weights in the order of memory. A step takes it a few instructions, for it is as long on its way as the
// warps that compute: what can be known before a tile's first step is. `four`: those of four tokens come at once.
template <WgmmaTile kTile>
__device__ __forceinline__ void bring_tile_scales(const WgmmaShared<kTile>& shared, unsigned& item,
                                                  const StepScales<1>& a, bool four,
                                                  const StepScales<gemm::kScaleRows>& first,
                                                  const StepScales<gemm::kScaleRows>& second,
                                                  const WgmmaPart& at, int first_step, int steps,
                                                  int of_tokens, int features) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // From one block to the next, where a tile has features of two.
    constexpr int kFurther = kTile.features() > gemm::kScaleRows ? gemm::kScaleRows : 0;
    constexpr int kOfLane = (kTile.tokens + 31) / 32;
    const bool by_fours = kTile.by_tokens() && four;
    ScaleWalk tokens[kOfLane];
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
        const int token = at.token + (by_fours ? 4 * lane : lane + 32 * i);
        tokens[i] = a.walk(token, first_step, token < of_tokens);
    }
    ScaleWalk weights = {};
    if (lane < 2) {
        const int feature = at.feature + kFurther * lane;
        weights = (lane == 0 ? first : second).walk(feature, first_step, feature < features);
    }
    for (int step = 0; step < steps; ++step, ++item) {
        shared.await_empty(item);
        float* to = shared.scales(item);
        if (by_fours) tokens[0].bring_four(to + 4 * lane);
#pragma unroll
        for (int i = 0; i < kOfLane && !by_fours; ++i) {
            const int token = lane + 32 * i;
            if (kTile.tokens % 32 == 0 || token < kTile.tokens)
                tokens[i].bring(to + scale_place<kTile>(token));
        }
        weights.bring(to + kTile.tokens + lane);
        kit::mbarrier_arrive_copied(&shared.full[shared.slot(item)]);
    }
}

// A warp brings the scales of every stage, beside the copy engine.
template <WgmmaTile kTile>
__device__ __forceinline__ void bring_scales(const WgmmaShared<kTile>& shared, WgmmaTiles<kTile> tiles) {
    const WgmmaArguments& args = tiles.args;
    const auto& first = args.swapped ? args.scales.up : args.scales.b;
    const auto& second = kTile.gated && !args.swapped ? args.scales.up : args.scales.b;
    unsigned item = 0;
    for (; tiles.more(); tiles.next())
        bring_tile_scales(shared, item, args.scales.a, args.scales.by_fours, first, second, tiles.origin(),
                          tiles.first_step, tiles.steps, args.tokens, args.features);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
