// What the rungs share whose blocks bring slices in pairs: two blocks of a cluster have tiles below each other; who stays
// on the card and takes tile after tile; and the way of results out, by the copy engine.
#pragma once

#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/elect.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/ptx/registers.cuh"
#include "ladder/hgemm/padded.cuh"
#include "ladder/hgemm/wgmma.cuh"

namespace weft::inline WEFT_TARGET {

inline constexpr int kPair = 2, kPairThreads = 3 * 128;
inline constexpr std::uint16_t kBoth = 0b11;

// A block brings its own rows of A, and half of B's slice to both. Both blocks' copies make a stage full: it expects all of
// its bytes, whoever brings them.
template <int kWide, int kStages, class Stage>
__device__ __forceinline__ void bring_shared(const TmaRing<kWide, kStages, Stage>& ring, const TmaMaps& maps,
                                             Corner at, int rank, int step, int slice) {
    constexpr int kBoxes = kWide / 64 / kPair;
    Stage& to = ring.stages[step % kStages];
    kit::Mbarrier* barrier = &ring.full[step % kStages];
    const int row = static_cast<int>(at.row), column = static_cast<int>(at.column), k = slice * kTmaSlice;
    kit::mbarrier_arrive_expect(barrier, sizeof(to));
    kit::tma_load<2>(to.a.at, maps.a, barrier, {k, row});
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
        const int box = kBoxes * rank + i;
        kit::tma_load_multicast<2>(to.b[box].at, maps.b, barrier, {column + 64 * box, k}, kBoth);
    }
}
// A warp has left a stage, which both blocks fill. It has only read there: its arrival publishes nothing.
template <class Ring>
__device__ __forceinline__ void leave_shared(const Ring& ring, int stage) {
    const int to = lane_of_warp();
    if (to < kPair) kit::mbarrier_arrive_remote<false>(&ring.empty[stage], static_cast<unsigned>(to));
}

// Blocks that stay: a pair has every so many-th tile of kHigh rows each by kWide columns.
template <int kWide, int kHigh>
struct PairTiles {
    const Sizes& s;
    std::int64_t all;
    int rank = static_cast<int>(kit::cluster_rank()), steps;

    __device__ __forceinline__ explicit PairTiles(const Sizes& sizes)
        : s(sizes),
          all(sizes.across * ((sizes.m + kPair * kHigh - 1) / (kPair * kHigh))),
          steps(kit::warp_uniform(static_cast<int>((sizes.k + kTmaSlice - 1) / kTmaSlice))) {}
    __device__ __forceinline__ std::int64_t tile(int i) const {
        return blockIdx.x / kPair + std::int64_t{i} * (gridDim.x / kPair);
    }
    __device__ __forceinline__ bool has(int i) const { return tile(i) < all; }
    __device__ __forceinline__ Corner corner(int i) const {
        Corner at = tma_corner<kWide, kPair * kHigh>(s, tile(i));
        at.row += rank * kHigh;
        return at;
    }
};

// The producer's part: slices of all tiles, one after another.
template <int kWide, int kStages, class Stage, int kHigh>
__device__ __forceinline__ void bring_tiles(const TmaRing<kWide, kStages, Stage>& ring, const TmaMaps& maps,
                                            const PairTiles<kWide, kHigh>& tiles) {
    for (int i = 0, step = 0; tiles.has(i); ++i) {
        const Corner at = tiles.corner(i);
        for (int slice = 0; slice < tiles.steps; ++slice, ++step) {
            ring.await_empty(step);
            bring_shared(ring, maps, at, tiles.rank, step, slice);
        }
    }
}

// Where a warpgroup's results wait for the copy engine, 64 columns each.
using OutBox = HalfTile<64, 64, Banks::swizzled>;

// A warpgroup's 64 rows of sums to memory, 64 columns at a time through kBoxes boxes in turn. Eight rows of a warp lie in
// different banks, as they are swizzled. `barrier`: a named one for the warpgroup. Who issues stores waits for them.
template <int kWide, int kBoxes>
__device__ __forceinline__ void send_sums(const float (&sums)[kWide / 2], OutBox* boxes,
                                          const kit::TensorMap& out, Corner at, unsigned barrier) {
    const bool sends = threadIdx.x % 128 == 0;
    const int row = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane_of_warp() / 4;
#pragma unroll
    for (int i = 0; i < kWide / 64; ++i) {
        OutBox& box = boxes[i % kBoxes];
        if (sends) kit::bulk_wait_sources<kBoxes - 1>();
        kit::named_barrier_sync(barrier, 128);
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            const float* two = sums + 32 * i + 2 * j;
            __half* to = box.chunk(row + j % 2 * 8, j / 2) + lane_of_warp() % 4 * 2;
            *reinterpret_cast<__half2*>(to) = __floats2half2_rn(two[0], two[1]);
        }
        kit::fence_proxy_async();
        kit::named_barrier_sync(barrier, 128);
        if (sends) {
            kit::tma_store<2>(out, box.at, {static_cast<int>(at.column) + 64 * i, static_cast<int>(at.row)});
            kit::bulk_commit();
        }
    }
}

// As many pairs as the card holds at once, of a kernel that takes the maps, that of the results, and sizes.
template <class Ring, int kWide, int kHigh>
void launch_pairs(const char* name, void (*kernel)(TmaMaps, kit::TensorMap, Sizes), int boxes, const Gemm& op,
                  Context& context) {
    const std::int64_t k = op.a.dim(-1), n = op.b.dim(0), m = op.out.numel() / n;
    const Sizes sizes{m, n, k, divide_up(n, kWide), true};
    const PaddedProduct product(name, op, sizes, context);
    const TmaMaps maps{tma_map(product.a, m, k, kHigh, 2, product.k),
                       tma_map(product.b, k, n, kTmaSlice, 2, product.n)};
    const std::int64_t pairs = std::min(sizes.across * divide_up(m, std::int64_t{kPair} * kHigh),
                                        std::int64_t{context.info().sms} / kPair);
    kit::launch(name, kernel,
                {.grid = dim3(static_cast<unsigned>(pairs) * kPair),
                 .block = kPairThreads,
                 .cluster = kPair,
                 .dynamic_shared = Ring::kBytes + 1024 + boxes * sizeof(OutBox),
                 .dependent = true},
                context.stream(), maps, tma_map(product.out, m, product.n, 64), sizes);
    product.return_to(name, op, sizes, context);
}

inline const char* decline_pairs(const Gemm& op, const DeviceInfo& device) {
    if (const char* why = decline_product(op, DType::fp16, DType::fp16)) return why;
    if (op.a.dim(-1) == 0) return "a copy of nothing has no map";
    return device.arch < 90 || device.arch >= 100 ? "wgmma and its copies are of SM 9.0" : nullptr;
}

// The boxes, behind the ring.
template <class Ring>
__device__ __forceinline__ OutBox* boxes_behind(const Ring& ring, int stages) {
    return reinterpret_cast<OutBox*>(kit::align_shared<1024>(reinterpret_cast<char*>(ring.empty + stages)));
}

}  // namespace weft::inline WEFT_TARGET
