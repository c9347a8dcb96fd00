// gemm's wgmma kernels: tensor maps and launches.
#include "kit/launch.h"
#include "kit/tensor_map.h"
#include "ops/gemm/arguments.cuh"
#include "ops/gemm/wgmma_kernel.cuh"
#include "ops/gemm/wgmma_launch.h"

namespace weft::inline WEFT_TARGET {
namespace {

struct Launch {
    WgmmaArguments args;
    kit::TensorMap a, b, up;
    gemm::WgmmaConfig config;
    Stream stream;
};

// Boxes of 128 bytes of k by `box` rows.
kit::TensorMap panel_map(const Tensor& t, std::int64_t rows, std::int64_t k, std::int64_t stride, int box) {
    kit::TensorLayout layout{
        .data = t.data, .element_bytes = bits(t.dtype) / 8, .axes = 2, .swizzle = kit::Swizzle::bytes128};
    const std::int64_t row_bytes = bytes(t.dtype, k);
    layout.size[0] = static_cast<std::uint64_t>(k);
    layout.size[1] = static_cast<std::uint64_t>(rows);
    layout.stride[0] = static_cast<std::uint64_t>(layout.element_bytes);
    // A lone row is never stepped over, whatever its stride.
    layout.stride[1] =
        static_cast<std::uint64_t>(rows > 1 ? bytes(t.dtype, stride) : gemm::ceil_div(row_bytes, 16) * 16);
    layout.box[0] = static_cast<std::uint32_t>(WgmmaTile::kRowBytes / layout.element_bytes);
    layout.box[1] = static_cast<std::uint32_t>(box);
    return kit::tensor_map("gemm", layout);
}

template <class A, class B, WgmmaTile kTile>
void launch_tile(const Launch& l) {
    kit::launch("gemm_wgmma", gemm_wgmma<A, B, kTile.columns, kTile.stages>,
                {.grid = static_cast<unsigned>(l.args.clusters * l.args.cluster),
                 .block = WgmmaTile::kThreads,
                 .cluster = static_cast<unsigned>(l.args.cluster),
                 .dynamic_shared = static_cast<std::size_t>(kTile.shared_bytes()),
                 .dependent = true},
                l.stream, l.args, l.a, l.b, l.up);
}

template <class A, class B>
void launch_pair(const Launch& l) {
    switch (l.config.tile.columns) {
        case 256: return launch_tile<A, B, gemm::wgmma_tile(256)>(l);
        case 192: return launch_tile<A, B, gemm::wgmma_tile(192)>(l);
        default: return launch_tile<A, B, gemm::wgmma_tile(128)>(l);
    }
}

// b's dtype is a's, or both are fp8.
template <class A>
void launch_fp8(DType b, const Launch& l) {
    b == DType::fp8_e4m3 ? launch_pair<A, kit::e4m3>(l) : launch_pair<A, kit::e5m2>(l);
}

}  // namespace

void launch_gemm_wgmma(const Gemm& op, Context& context) {
    const gemm::Problem p = gemm::problem(op);
    Launch l{};
    l.config = gemm::wgmma_config(op, context.info());
    l.stream = context.stream();
    const gemm::WgmmaTiles tiles = gemm::wgmma_tiles(op, l.config);
    l.args.epilogue = epilogue_of(op, p);
    l.args.m = static_cast<int>(p.m);
    l.args.n = static_cast<int>(p.n);
    l.args.row_tiles = static_cast<int>(tiles.rows);
    l.args.column_tiles = static_cast<int>(tiles.columns);
    l.args.steps = static_cast<int>(gemm::mma_steps(op));
    l.args.clusters = static_cast<int>(gemm::wgmma_clusters(op, l.config, context.info()));
    l.args.cluster = l.config.cluster;
    l.args.lag = l.config.lag;
    l.args.chunks = kit::rows_aligned(op.out, 128 / bits(op.out.dtype));
    l.a = panel_map(op.a, p.m, p.k, p.a_stride, WgmmaTile::kRows);
    const int box = l.config.tile.box_rows(l.config.cluster);
    l.b = panel_map(op.b, p.n, p.k, p.b.row, box);
    l.up = op.up ? panel_map(op.up, p.n, p.k, p.up.row, box) : l.b;
    switch (op.a.dtype) {
        case DType::bf16: return launch_pair<kit::bf16, kit::bf16>(l);
        case DType::fp16: return launch_pair<kit::half, kit::half>(l);
        case DType::fp8_e4m3: return launch_fp8<kit::e4m3>(op.b.dtype, l);
        default: return launch_fp8<kit::e5m2>(op.b.dtype, l);
    }
}

}  // namespace weft::inline WEFT_TARGET
