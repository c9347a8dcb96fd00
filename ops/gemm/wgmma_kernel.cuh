// gemm on Hopper's wgmma: one warpgroup brings panels of a and b, two multiply.
#pragma once

#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/elect.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/registers.cuh"
#include "kit/ptx/shuffle.cuh"
#include "kit/ptx/tma.cuh"
#include "kit/ptx/wgmma.cuh"
#include "ops/gemm/tile_order.cuh"
#include "ops/gemm/wgmma_epilogue.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

struct WgmmaArguments {
    Epilogue epilogue;
    int m, n;
    int row_tiles, column_tiles;  // of out, in tiles of a cluster
    int steps;                    // of 128 bytes along k
    int clusters, cluster;        // that run; blocks of one
    int lag;      // stages that the second warpgroup is behind the first; less than the ring has
    bool chunks;  // out's rows begin at multiples of 16 bytes
};

// The tiles of a cluster, one after another; first row and column of the block's tile in each.
template <WgmmaTile kTile>
struct WgmmaTiles {
    const WgmmaArguments& args;
    int rank, tile;

    __device__ WgmmaTiles(const WgmmaArguments& arguments, int block_rank)
        : args(arguments), rank(block_rank), tile(static_cast<int>(blockIdx.x) / arguments.cluster) {}
    __device__ bool more() const { return tile < args.row_tiles * args.column_tiles; }
    __device__ void next() { tile += args.clusters; }
    __device__ TileIndex origin() const {
        constexpr int kGroup = 16;  // rows of tiles: as high as 132 tiles of 128 x 256 are wide
        const TileIndex at = tile_index(tile, args.row_tiles, args.column_tiles, kGroup / args.cluster);
        return {(at.row * args.cluster + rank) * WgmmaTile::kRows,
                at.column * kTile.out_columns(args.epilogue.gated)};
    }
};

// The parts of a block's shared memory. Stages of the ring are counted through, over all tiles.
template <WgmmaTile kTile>
struct WgmmaShared {
    static constexpr unsigned kStages = kTile.stages;
    char *ring, *staged;
    kit::Mbarrier *full, *empty;  // one a stage

    __device__ WgmmaShared() {
        ring = kit::align_shared<1024>(kit::dynamic_shared<char>());
        staged = ring + kTile.stages * kTile.stage_bytes();
        full = reinterpret_cast<kit::Mbarrier*>(staged + kTile.out_bytes(kTile.pieces()));
        empty = full + kTile.stages;
    }
    // A stage is empty when every warp of every block has left it: what one block loads, all have.
    __device__ void initialise(int cluster) const {
        if (threadIdx.x == 0) {
            for (unsigned i = 0; i < kStages; ++i) {
                kit::mbarrier_init(&full[i], 1);
                kit::mbarrier_init(&empty[i], static_cast<unsigned>(4 * WgmmaTile::kWarpgroups * cluster));
            }
            kit::fence_mbarrier_init();
        }
        cluster > 1 ? kit::cluster_sync() : __syncthreads();
    }
    __device__ static unsigned slot(unsigned item) { return item % kStages; }
    __device__ static unsigned parity(unsigned item) { return item / kStages & 1; }
    __device__ char* stage(unsigned item) const { return ring + slot(item) * kTile.stage_bytes(); }
    // The warp has left the stage. It has only read there: nothing is to be published.
    __device__ void release(unsigned item, int cluster) const {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        if (lane < cluster)
            kit::mbarrier_arrive_remote<false>(&empty[slot(item)], static_cast<unsigned>(lane));
    }
};

// One thread keeps the ring full. Blocks that share b load a part of it each, for all of them.
template <WgmmaTile kTile>
__device__ __forceinline__ void load_tiles(const WgmmaShared<kTile>& shared, WgmmaTiles<kTile> tiles,
                                           int depth, const kit::TensorMap& a, const kit::TensorMap& b,
                                           const kit::TensorMap& up) {
    const int cluster = tiles.args.cluster, boxes = kTile.boxes(cluster), rows = kTile.box_rows(cluster);
    const int of_b = tiles.args.epilogue.gated ? boxes / 2 : boxes;  // the others are up's
    const auto everyone = static_cast<uint16_t>((1 << cluster) - 1);
    kit::tma_prefetch(a);
    kit::tma_prefetch(b);
    kit::tma_prefetch(up);
    unsigned item = 0;
    for (; tiles.more(); tiles.next()) {
        const TileIndex at = tiles.origin();
        for (int step = 0; step < tiles.args.steps; ++step, ++item) {
            kit::Mbarrier* full = &shared.full[shared.slot(item)];
            if (item >= shared.kStages) {
                kit::mbarrier_wait(&shared.empty[shared.slot(item)], shared.parity(item - shared.kStages));
            }
            kit::mbarrier_arrive_expect(full, kTile.stage_bytes());
            char* to = shared.stage(item);
            kit::tma_load<2>(to, a, full, {step * depth, at.row});
            for (int box = tiles.rank; box < boxes; box += cluster) {
                char* part = to + kTile.a_bytes() + box * rows * WgmmaTile::kRowBytes;
                const kit::TensorMap& from = box < of_b ? b : up;
                const int row = at.column + box % of_b * rows;
                if (cluster == 1) {
                    kit::tma_load<2>(part, from, full, {step * depth, row});
                } else {
                    kit::tma_load_multicast<2>(part, from, full, {step * depth, row}, everyone);
                }
            }
        }
    }
}

// A warpgroup's sums of one tile. The products of a stage are issued before those of the one before are
// waited for, whose stage is then released.
template <class A, class B, WgmmaTile kTile>
__device__ __forceinline__ void multiply_tile(float (&sums)[kTile.columns / 2],
                                              const WgmmaShared<kTile>& shared, unsigned& item,
                                              const WgmmaArguments& args, int group) {
    for (int step = 0; step < args.steps; ++step, ++item) {
        kit::mbarrier_wait(&shared.full[shared.slot(item)], shared.parity(item));
        const char* stage = shared.stage(item);
        const auto a = kit::matrix_descriptor(stage + group * 64 * WgmmaTile::kRowBytes,
                                              kit::Swizzle::bytes128, 8 * WgmmaTile::kRowBytes);
        const auto b =
            kit::matrix_descriptor(stage + kTile.a_bytes(), kit::Swizzle::bytes128, 8 * WgmmaTile::kRowBytes);
        kit::wgmma_fence();
#pragma unroll
        for (int i = 0; i < WgmmaTile::kRowBytes / 32; ++i) {
            kit::wgmma<A, B, kTile.columns>(sums, a.moved(32 * i), b.moved(32 * i), step > 0 || i > 0);
        }
        kit::wgmma_commit();
        if (group == 0 && item + 1 == static_cast<unsigned>(min(args.lag, args.steps))) {
            kit::named_barrier_arrive(1, 256);
        }
        if (step > 0) {
            kit::wgmma_wait<1>();
            shared.release(item - 1, args.cluster);
        }
    }
    kit::wgmma_wait<0>();
    kit::wgmma_hold(sums);
    shared.release(item - 1, args.cluster);
}

// What:    out tile = epilogue(sum over k of a · b [and of a · up]), see gemm.h
// Mapping: as many clusters as run at once, each with every so many-th tile. A block has 128 rows: warpgroups
//          1 and 2 own 64 each, with all sums of a row in registers; of warpgroup 0 one thread keeps a ring of
//          stages full. Gated, a stage of b is as many rows of b as of up, so that a thread has both sums of
//          an element. The blocks of a cluster lie below each other and share b by multicast
// Traffic: a once for each column of tiles, b once for each row of clusters, through L2; bound by wgmma
// Needs:   steps > 0, boxes of WgmmaTile in the maps (b's twice where nothing is gated), SM 9.0a
template <class A, class B, int kColumns, int kStages>  // a WgmmaTile: nvcc takes none as a kernel's argument
__global__ void __launch_bounds__(WgmmaTile::kThreads, 1)
    gemm_wgmma(const __grid_constant__ WgmmaArguments args, const __grid_constant__ kit::TensorMap a,
               const __grid_constant__ kit::TensorMap b, const __grid_constant__ kit::TensorMap up) {
    constexpr WgmmaTile kTile{kColumns, kStages};
    const WgmmaShared<kTile> shared;
    WgmmaTiles<kTile> tiles(args, args.cluster > 1 ? static_cast<int>(kit::cluster_rank()) : 0);
    shared.initialise(args.cluster);
    kit::dependency_wait();
    kit::dependents_launch();
    if (threadIdx.x < 128) {
        kit::registers_release<40>();
        if (threadIdx.x < 32 && kit::elect_one())
            load_tiles(shared, tiles, WgmmaTile::kRowBytes / sizeof(A), a, b, up);
        __syncwarp();
    } else {
        kit::registers_acquire<232>();
        // From one lane, so that the compiler knows it to be the same in all of them.
        const int warp = kit::shuffle(static_cast<int>(threadIdx.x) / 32 - 4, 0), group = warp / 4;
        const Scales scales = load_scales(args.epilogue);
        char* staged = shared.staged + warp * kTile.pieces() * WgmmaTile::kPieceBytes;
        unsigned item = 0;
        float sums[kTile.columns / 2];
        if (args.lag > 0 && group == 1) kit::named_barrier_sync(1, 256);
        for (; tiles.more(); tiles.next()) {
            multiply_tile<A, B>(sums, shared, item, args, group);
            const TileIndex at = tiles.origin();
            const int row = at.row + warp * 16, left = args.n - at.column;
            const WarpPlace place{row, at.column, args.m - row,
                                  min(left, kTile.out_columns(args.epilogue.gated))};
            finish_sums<kTile>(sums, args.epilogue, scales, place, left, args.chunks, staged);
        }
    }
    if (args.cluster > 1) kit::cluster_sync();  // until here other blocks copy and arrive here
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
