// grouped_gemm: the mma.sync kernel's configuration policy.
#include "ops/grouped_gemm/policy.h"

#include <fmt/format.h>

namespace weft::grouped {
namespace {

using Tile = gemm::MmaConfig::Tile;

// Relative time: waves over the multiprocessors times a tile's work, as gemm's policy counts them.
double cost(const GroupedGemm& op, Tile tile, const DeviceInfo& device) {
    const std::int64_t columns = gemm::out_columns(product_of(op, 0), tile);
    const std::int64_t tiles = op.groups() * gemm::ceil_div(expected_rows(op), gemm::tile_rows(tile)) *
                               gemm::ceil_div(op.n(), columns);
    const double area = static_cast<double>(gemm::tile_rows(tile) * gemm::tile_columns(tile));
    const double waves = static_cast<double>(gemm::ceil_div(tiles, device.sms));
    return waves * area / (tile == Tile::large ? 1.0 : 0.7);
}

}  // namespace

std::int64_t expected_rows(const GroupedGemm& op) {
    if (op.expected_rows > 0) return std::min(op.expected_rows, op.rows());
    return op.apart() ? op.rows() : gemm::ceil_div(op.rows(), std::max<std::int64_t>(1, op.groups()));
}

std::int64_t most_row_tiles(const GroupedGemm& op, std::int64_t height) {
    if (op.apart()) return op.groups() * gemm::ceil_div(op.rows(), height);
    return op.rows() / height + std::min(op.groups(), op.rows());
}

const char* mma_decline(const GroupedGemm& op, const DeviceInfo& device) {
    if (device.arch < 80) return "mma.sync of bf16 needs SM 8.0";
    if (is_fp8(op.a.dtype) && device.arch < 89) return "mma.sync of fp8 needs SM 8.9";
    if (!op.numbers() && op.rows() > INT32_MAX) return "more rows than numbers of 32 bits count";
    if (most_row_tiles(op, tile_rows(Tile::flat)) * gemm::ceil_div(op.n(), 32) >= kMostTiles)
        return "more tiles than numbers of 32 bits count";
    return nullptr;
}

gemm::MmaConfig mma_config(const GroupedGemm& op, const DeviceInfo& device) {
    const Gemm first = product_of(op, 0);
    const gemm::Problem p = gemm::problem(first);
    gemm::MmaConfig config;
    config.transposed = bits(op.b.dtype) == 16 && is_nn(p.b) && (!op.up || is_nn(p.up));
    if (expected_rows(op) <= tile_rows(Tile::flat)) {
        config.tile = Tile::flat;
    } else if (expected_rows(op) <= tile_rows(Tile::small) || first.scaled_within() ||
               cost(op, Tile::small, device) < cost(op, Tile::large, device)) {
        config.tile = Tile::small;
    }
    return config;
}

std::string to_string(const gemm::MmaConfig& config) {
    return fmt::format("{}x{} {}", tile_rows(config.tile), tile_columns(config.tile),
                       config.transposed ? "nn" : "tn");
}

}  // namespace weft::grouped
