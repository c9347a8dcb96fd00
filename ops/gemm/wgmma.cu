// gemm's wgmma kernels: tensor maps and launches.
#include "kit/launch.h"
#include "ops/gemm/arguments.cuh"
#include "ops/gemm/wgmma_kernel.cuh"
#include "ops/gemm/wgmma_launch.h"
#include "ops/gemm/wgmma_maps.h"

namespace weft::inline WEFT_TARGET {
namespace {

struct Launch {
    WgmmaArguments args;
    WgmmaMaps maps;
    gemm::WgmmaConfig config;
    Stream stream;
};

WgmmaMaps maps_of(const Gemm& op, const gemm::Problem& p, const gemm::WgmmaConfig& config,
                  const gemm::WgmmaTiles& tiles) {
    const auto map = [](const kit::TensorLayout& layout) { return kit::tensor_map("gemm", layout); };
    const WgmmaTile& tile = config.tile;
    const auto panel = [&](const Tensor& t, std::int64_t rows, std::int64_t stride, int box) {
        return map(rows_layout(t, rows, p.k, stride, WgmmaTile::kRowBytes, box));
    };
    const auto results = [&](const Tensor& t, std::int64_t stride) {
        const int width = tile.panel_row_bytes(bits(t.dtype) / 8);
        return map(rows_layout(t, p.m, p.n, stride, width, tile.warpgroup_tokens()));
    };
    WgmmaMaps maps{};
    const int weights = tile.by_tokens() ? tile.loaded_columns(config.cluster, 0) : tile.weights();
    kit::TensorLayout of_weights = tile.gated
                                       ? gated_layout(op, p, weights)
                                       : rows_layout(op.b, p.n, p.k, p.b.row, WgmmaTile::kRowBytes, weights);
    of_weights.fetch = kit::fetch_for(tiles.tokens);
    maps.weights = map(of_weights);
    if (tile.gated && p.n % 8 != 0) maps.ends = map(both_layout(op, p, p.n));
    for (int rank = 0; rank < config.cluster; ++rank) {
        maps.tokens[rank] = panel(op.a, p.m, p.a_stride,
                                  tile.by_tokens() ? tile.tokens : tile.loaded_columns(config.cluster, rank));
    }
    if (gemm::wgmma_carries(op, p)) maps.residual = results(op.residual, p.residual_stride);
    if (gemm::wgmma_copies(op, p)) maps.out = results(op.out, p.out_stride);
    return maps;
}

// Makes the launch if its tile is this one, and says whether.
template <class A, class B, bool kPromoted, WgmmaTile kTile>
bool launch_tile(const Launch& l) {
    if (l.config.tile != kTile) return false;
    if constexpr (kTile.takes(kit::kDTypeOf<A>, kit::kDTypeOf<B>) && (kPromoted || !kTile.scaled)) {
        static_assert(kTile.shared_bytes() <= WgmmaTile::kMostShared && kTile.stages() >= 3);
        static_assert(!kTile.splittable() ||
                      kTile.tokens * WgmmaTile::kParkedStride * 4 <= kTile.stages() * kTile.stage_bytes());
        kit::launch(
            "gemm_wgmma",
            gemm_wgmma<A, B, kPromoted, kTile.tokens, kTile.gated, kTile.scaled, kTile.weight_columns>,
            {.grid = static_cast<unsigned>(l.args.clusters * l.args.cluster * l.args.splits),
             .block = WgmmaTile::kThreads,
             .cluster = static_cast<unsigned>(l.args.cluster * l.args.splits),
             .dynamic_shared = static_cast<std::size_t>(kTile.shared_bytes()),
             .dependent = true},
            l.stream, l.args, l.maps);
        return true;
    }
    return false;
}

template <class A, class B, bool kPromoted>
void launch_pair(const Launch& l) {
    const auto among = [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
        return (launch_tile<A, B, kPromoted, gemm::kWgmmaTiles[kIndex]>(l) || ...);
    };
    if (!among(std::make_index_sequence<std::size(gemm::kWgmmaTiles)>{}))
        throw Error(ErrorCode::internal, "gemm", "", "no kernel has this tile");
}

}  // namespace

void launch_gemm_wgmma(const Gemm& op, Context& context) {
    const gemm::Problem p = gemm::problem(op);
    const gemm::WgmmaConfig config = gemm::wgmma_config(op, context.info());
    const gemm::WgmmaTiles tiles = gemm::wgmma_tiles(op, config);
    const Launch l{
        .args = {.epilogue = epilogue_of(op, p),
                 .scales = scales_within(op),
                 .tokens = static_cast<int>(p.m),
                 .features = static_cast<int>(p.n),
                 .gate_run = kit::Divisor::of(op.gate ? gemm::gate_run(op) : 1),
                 .looks_up = op.b_channel_scale || op.up_channel_scale || op.bias || op.up_bias || op.gate,
                 .carried = gemm::wgmma_carries(op, p),
                 .adds_rows = op.residual && !gemm::wgmma_carries(op, p),
                 .token_tiles = static_cast<int>(tiles.tokens),
                 .feature_tiles = static_cast<int>(tiles.features),
                 .steps = static_cast<int>(gemm::mma_steps(op)),
                 .clusters = static_cast<int>(gemm::wgmma_clusters(op, config, context.info())),
                 .cluster = config.cluster,
                 .splits = config.splits,
                 .swapped = op.up && op.up.data < op.b.data,
                 .plain = !op.a_scale && !op.b_scale && !op.up_scale && !op.b_channel_scale &&
                          !op.up_channel_scale && !op.bias && !op.up_bias,
                 .out_bytes = bits(op.out.dtype) / 8,
                 .out_copied = gemm::wgmma_copies(op, p)},
        .maps = maps_of(op, p, config, tiles),
        .config = config,
        .stream = context.stream(),
    };
    kit::with_one_of<kit::bf16, kit::half, kit::e4m3, kit::e5m2, std::int8_t>(op.a.dtype, [&](auto* type) {
        using A = std::remove_pointer_t<decltype(type)>;
        if constexpr (sizeof(A) == 2 || std::is_same_v<A, std::int8_t>) {
            launch_pair<A, A, false>(l);
        } else if (!config.promoted) {
            launch_pair<kit::e4m3, kit::e4m3, false>(l);
        } else {
            kit::with_one_of<kit::e4m3, kit::e5m2>(op.b.dtype, [&](auto* other) {
                launch_pair<A, std::remove_pointer_t<decltype(other)>, true>(l);
            });
        }
    });
}

}  // namespace weft::inline WEFT_TARGET
