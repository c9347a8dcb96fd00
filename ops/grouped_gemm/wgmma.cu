// grouped_gemm's wgmma kernels: tensor maps and launches.
#include "kit/launch.h"
#include "ops/gemm/wgmma_maps.h"
#include "ops/grouped_gemm/wgmma.h"
#include "ops/grouped_gemm/wgmma_kernel.cuh"
#include "ops/grouped_gemm/wgmma_launch.h"

namespace weft::inline WEFT_TARGET {
namespace {

struct Launch {
    GroupedWgmmaArguments args;
    WgmmaMaps maps;
    gemm::WgmmaConfig config;
    Stream stream;
};

// The matrices of all groups, each described by `layout`.
kit::TensorMap map_of_groups(kit::TensorLayout layout, int64_t groups, DType dtype, int64_t apart) {
    const int axis = layout.axes++;
    layout.size[axis] = static_cast<uint64_t>(groups);
    // A lone matrix is never stepped over.
    layout.stride[axis] = groups > 1 ? static_cast<uint64_t>(bytes(dtype, apart)) : layout.stride[1];
    layout.box[axis] = 1;
    return kit::tensor_map("grouped_gemm", layout);
}

kit::TensorLayout weights_layout(const GroupedGemm& op, const Gemm& first, const gemm::Problem& p,
                                 const WgmmaTile& tile) {
    if (tile.gated) return gated_layout(first, p, WgmmaTile::kRows);
    constexpr int kWidth = WgmmaTile::kRowBytes;
    if (!tile.across) return rows_layout(op.b, p.n, p.k, p.b.row, kWidth, WgmmaTile::kRows);
    const auto of_stage = static_cast<int>(kWidth / bytes(op.b.dtype, 1));
    return rows_layout(op.b, p.k, p.n, op.b.stride[2], kWidth, of_stage);
}

WgmmaMaps maps_of(const GroupedGemm& op, const gemm::WgmmaConfig& config, const GroupStrides& apart) {
    const Gemm first = grouped::product_of(op, 0);
    const gemm::Problem p = gemm::problem(first);
    const WgmmaTile& tile = config.tile;
    const int64_t matrices = op.apart() ? op.groups() : 1;
    WgmmaMaps maps{};
    maps.weights = map_of_groups(weights_layout(op, first, p, tile), op.groups(), op.b.dtype, apart.b);
    if (tile.gated && p.n % 8 != 0)
        maps.ends = map_of_groups(both_layout(first, p, p.n), op.groups(), op.b.dtype, apart.b);
    for (int rank = 0; rank < config.cluster; ++rank)
        maps.tokens[rank] = map_of_groups(rows_layout(op.a, p.m, p.k, p.a_stride, WgmmaTile::kRowBytes,
                                                      tile.loaded_columns(config.cluster, rank)),
                                          matrices, op.a.dtype, apart.a);
    if (!grouped::wgmma_copies(op)) return maps;
    const int width = tile.warpgroup_features() * bits(op.out.dtype) / 8;
    maps.out = map_of_groups(rows_layout(op.out, p.m, p.n, p.out_stride, width, tile.tokens), matrices,
                             op.out.dtype, apart.out);
    return maps;
}

// Makes the launch if its tile is this one, and says whether.
template <class T, WgmmaTile kTile>
bool launch_tile(const Launch& l) {
    if (l.config.tile != kTile) return false;
    if constexpr (grouped::is_compiled(kTile) && (sizeof(T) == 2 || !kTile.across)) {
        static_assert(kTile.shared_bytes() <= WgmmaTile::kMostShared && kTile.stages() >= 3);
        const WgmmaArguments& first = l.args.first;
        kit::launch("grouped_gemm_wgmma",
                    grouped_wgmma<T, kTile.tokens, kTile.gated, kTile.scaled, kTile.across>,
                    {.grid = static_cast<unsigned>(first.clusters * first.cluster),
                     .block = WgmmaTile::kThreads,
                     .cluster = static_cast<unsigned>(first.cluster),
                     .dynamic_shared = static_cast<std::size_t>(kTile.shared_bytes()),
                     .dependent = true},
                    l.stream, l.args, l.maps);
        return true;
    }
    return false;
}

template <class T, bool kScaled>
void launch_widths(const Launch& l) {
    const auto among = [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
        return ((launch_tile<T, WgmmaTile{grouped::kTileTokens[kIndex], false, kScaled}>(l) ||
                 launch_tile<T, WgmmaTile{grouped::kTileTokens[kIndex], true, kScaled}>(l) ||
                 launch_tile<T, WgmmaTile{grouped::kTileTokens[kIndex], false, kScaled, 0, true}>(l)) ||
                ...);
    };
    if (!among(std::make_index_sequence<std::size(grouped::kTileTokens)>{}))
        throw Error(ErrorCode::internal, "grouped_gemm", "", "no kernel has this tile");
}

GroupedWgmmaArguments arguments_of(const GroupedGemm& op, const gemm::WgmmaConfig& config,
                                   const DeviceInfo& device) {
    const Gemm first = grouped::product_of(op, 0);
    const gemm::Problem p = gemm::problem(first);
    const bool scaled = op.a_scale || op.b_scale || op.up_scale, biased = op.bias || op.up_bias;
    GroupedWgmmaArguments args{};
    args.first.epilogue = epilogue_of_first(op, first, p);
    args.first.scales = scales_within(first);
    args.first.features = static_cast<int>(p.n);
    args.first.gate_run = kit::Divisor::of(1);
    args.first.looks_up = scaled || biased;
    args.first.feature_tiles = static_cast<int>(grouped::feature_tiles(op, config));
    args.first.steps = static_cast<int>(gemm::mma_steps(first));
    args.first.clusters = static_cast<int>(grouped::wgmma_clusters(op, config, device));
    args.first.cluster = config.cluster;
    args.first.splits = 1;
    args.first.swapped = op.up && op.up.data < op.b.data;
    args.first.plain = !scaled && !biased;
    args.first.out_copied = grouped::wgmma_copies(op);
    args.rows = group_rows(op);
    args.apart = group_strides(op);
    return args;
}

}  // namespace

void launch_grouped_wgmma(const GroupedGemm& op, Context& context) {
    const gemm::WgmmaConfig config = grouped::wgmma_config(op, context.info());
    const GroupedWgmmaArguments args = arguments_of(op, config, context.info());
    const Launch l{args, maps_of(op, config, args.apart), config, context.stream()};
    if (config.tile.scaled) return launch_widths<kit::e4m3, true>(l);
    kit::with_one_of<kit::bf16, kit::half, kit::e4m3>(
        op.a.dtype, [&](auto* type) { launch_widths<std::remove_pointer_t<decltype(type)>, false>(l); });
}

}  // namespace weft::inline WEFT_TARGET
