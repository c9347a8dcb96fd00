// What the rungs for Hopper share: slices of 64 along k that the copy engine (TMA) brings, a ring of them whose barriers
// count bytes, and the store of what wgmma sums. Needs SM 9.0a.
#pragma once

#include "kit/ptx/tma.cuh"
#include "ladder/hgemm/staged.cuh"

namespace weft::inline WEFT_TARGET {

inline constexpr int kTmaRows = 128, kTmaSlice = 64;

// Swizzled as the copy engine does it, which is HalfTile's way too. B comes in boxes of 64 columns, as wide as a swizzle.
template <int kWide, int kHigh = kTmaRows>
struct TmaStage {
    HalfTile<kHigh, kTmaSlice, Banks::swizzled> a;
    HalfTile<kTmaSlice, 64, Banks::swizzled> b[kWide / 64];
};

struct TmaMaps {
    kit::TensorMap a, b;
};

template <int kWide, int kStages, class Stage = TmaStage<kWide>>
struct TmaRing {
    Stage* stages;
    kit::Mbarrier *full, *empty;  // one a stage: its bytes are there; who reads it has left it

    static constexpr std::size_t kBytes = 1024 + kStages * (sizeof(Stage) + 2 * sizeof(kit::Mbarrier));

    __device__ __forceinline__ explicit TmaRing(unsigned readers) {
        stages = reinterpret_cast<Stage*>(kit::align_shared<1024>(kit::dynamic_shared<char>()));
        full = reinterpret_cast<kit::Mbarrier*>(stages + kStages);
        empty = full + kStages;
        if (threadIdx.x == 0) {
            for (int i = 0; i < kStages; ++i) {
                kit::mbarrier_init(&full[i], 1);
                kit::mbarrier_init(&empty[i], readers);
            }
            kit::fence_mbarrier_init();
        }
        __syncthreads();
    }
    // One thread: beyond the edges the engine writes zeros, and counts them as bytes. The stage of `step` gets the slice
    // of k of that number, or another's.
    __device__ __forceinline__ void bring(const TmaMaps& maps, Corner at, int step) const {
        bring(maps, at, step, step);
    }
    __device__ __forceinline__ void bring(const TmaMaps& maps, Corner at, int step, int slice) const {
        Stage& to = stages[step % kStages];
        kit::Mbarrier* barrier = &full[step % kStages];
        const int row = static_cast<int>(at.row), column = static_cast<int>(at.column), k = slice * kTmaSlice;
        kit::mbarrier_arrive_expect(barrier, sizeof(to));
        kit::tma_load<2>(to.a.at, maps.a, barrier, {k, row});
#pragma unroll
        for (int i = 0; i < kWide / 64; ++i)
            kit::tma_load<2>(to.b[i].at, maps.b, barrier, {column + 64 * i, k});
    }
    // Who brings waits for this where there are readers' barriers: they have left what the stage had before.
    __device__ __forceinline__ void await_empty(int step) const {
        if (step >= kStages) kit::mbarrier_wait(&empty[step % kStages], (step / kStages - 1) & 1);
    }
    __device__ __forceinline__ Stage& await(int step) const {
        kit::mbarrier_wait(&full[step % kStages], step / kStages & 1);
        return stages[step % kStages];
    }
};

// As by_groups, for tiles of kHigh by kWide: where the tile of this number begins.
template <int kWide, int kHigh = kTmaRows>
__device__ __forceinline__ Corner tma_corner(const Sizes& s, std::int64_t tile) {
    constexpr std::int64_t kTogether = 8;
    const std::int64_t down = (s.m + kHigh - 1) / kHigh, group = tile / (kTogether * s.across);
    const std::int64_t within = tile % (kTogether * s.across), first = group * kTogether;
    const std::int64_t height = min(kTogether, down - first);
    return {(first + within % height) * kHigh, within / height * kWide};
}

inline const char* decline_tma_device(const Gemm& op, const DeviceInfo& device) {
    if (device.arch < 90 || device.arch >= 100) return "wgmma and its copies are of SM 9.0";
    const bool starts = starts_aligned(op.a, 16) && starts_aligned(op.b, 16) && starts_aligned(op.out, 4);
    return starts ? nullptr : "the copy engine takes tensors that start at a multiple of 16 bytes";
}

inline const char* decline_tma(const Gemm& op, const DeviceInfo& device) {
    if (const char* why = decline_product(op, DType::fp16, DType::fp16)) return why;
    const std::int64_t k = op.a.dim(-1), n = op.b.dim(0);
    if (k == 0 || k % 8 != 0 || n % 8 != 0) return "the copy engine takes rows of whole 16 bytes";
    return decline_tma_device(op, device);
}

// Boxes as wide as a swizzle. `pitch`: elements from row to row, where they are more than its length.
inline kit::TensorMap tma_map(const void* data, std::int64_t rows, std::int64_t length, int box_rows,
                              unsigned bytes = 2, std::int64_t pitch = 0) {
    kit::TensorLayout layout{.data = const_cast<void*>(data),
                             .element_bytes = static_cast<int>(bytes),
                             .axes = 2,
                             .swizzle = kit::Swizzle::bytes128};
    layout.size[0] = static_cast<std::uint64_t>(length), layout.size[1] = static_cast<std::uint64_t>(rows);
    layout.stride[0] = bytes, layout.stride[1] = bytes * static_cast<std::uint64_t>(std::max(pitch, length));
    layout.box[0] = 128 / bytes, layout.box[1] = static_cast<std::uint32_t>(box_rows);
    return kit::tensor_map("gemm", layout);
}

struct TmaProduct {
    Sizes sizes;
    TmaMaps maps;
    TmaProduct(const Gemm& op, int wide) {
        const std::int64_t k = op.a.dim(-1), n = op.b.dim(0), m = op.out.numel() / n;
        sizes = {m, n, k, divide_up(n, wide), true};
        maps = {tma_map(op.a.data, m, k, kTmaRows), tma_map(op.b.data, k, n, kTmaSlice)};
    }
};

// A block for each tile, in clusters of neighbours.
template <int kWide, int kStages>
void launch_tma(const char* name, void (*kernel)(TmaMaps, __half*, Sizes), int threads, const Gemm& op,
                Context& context, unsigned cluster = 1) {
    const TmaProduct product(op, kWide);
    const std::int64_t clusters =
        product.sizes.across * divide_up(product.sizes.m, std::int64_t{cluster} * kTmaRows);
    kit::launch(name, kernel,
                {.grid = dim3(static_cast<unsigned>(clusters) * cluster),
                 .block = dim3(static_cast<unsigned>(threads)),
                 .cluster = cluster,
                 .dynamic_shared = TmaRing<kWide, kStages>::kBytes},
                context.stream(), product.maps, op.out.as<__half>(), product.sizes);
}

}  // namespace weft::inline WEFT_TARGET
