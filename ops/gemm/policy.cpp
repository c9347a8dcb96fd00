// The mma.sync kernel's configuration policy.
#include "ops/gemm/policy.h"

#include <fmt/format.h>

#include <limits>

#include "ops/gemm/wgmma.h"

namespace weft::gemm {
namespace {

using Tile = MmaConfig::Tile;

std::int64_t tiles(const Gemm& op, Tile tile) {
    const Problem p = problem(op);
    return ceil_div(p.m, tile_rows(tile)) * ceil_div(p.n, out_columns(op, tile));
}

// Relative time: waves over the multiprocessors times a tile's work. A 64x64 tile reads twice the shared
// memory for each product of a 128x128 one, which makes it about 0.7 as fast a product.
double cost(const Gemm& op, Tile tile, const DeviceInfo& device) {
    const double area = static_cast<double>(tile_rows(tile) * tile_columns(tile));
    const double waves = static_cast<double>(ceil_div(tiles(op, tile), device.sms));
    return waves * area / (tile == Tile::large ? 1.0 : 0.7);
}

// Tiles that leave multiprocessors idle are cut along k, each part at least four steps long.
int splits(std::int64_t tiles, std::int64_t steps, const DeviceInfo& device) {
    int splits = 1;
    while (splits * 2 <= std::min(8, device.max_cluster) && tiles * splits * 2 <= 2 * device.sms &&
           steps >= 4 * splits * 2) {
        splits *= 2;
    }
    return splits;
}

bool scales_are(const Gemm& op, DType dtype) { return scales_of_b(op).groups.dtype == dtype; }

}  // namespace

MmaConfig mma_config(const Gemm& op, const DeviceInfo& device) {
    const Problem p = problem(op);
    MmaConfig config;
    config.packed = op.packed();
    config.transposed = bits(op.b.dtype) == 16 && is_nn(p.b) && (!op.up || is_nn(p.up));
    if (p.m <= tile_rows(Tile::flat)) {
        config.tile = Tile::flat;
    } else if (p.m <= tile_rows(Tile::small) || op.scaled_within() ||
               cost(op, Tile::small, device) < cost(op, Tile::large, device)) {
        config.tile = Tile::small;
    }
    config.splits = splits(tiles(op, config.tile), mma_steps(op), device);
    return config;
}

std::string to_string(const MmaConfig& config) {
    return fmt::format("{}x{}{}{}", tile_rows(config.tile), tile_columns(config.tile),
                       config.packed       ? " packed"
                       : config.transposed ? " nn"
                                           : " tn",
                       config.splits > 1 ? fmt::format(" split {}", config.splits) : "");
}

const char* whole_decline(const Gemm& op) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / (128 * 128);
    return op.a.dtype == DType::int8 && op.b.dim(1) > kMost
               ? "sums of so many products of int8 may be beyond 2^31"
               : nullptr;
}

const char* mma_decline(const Gemm& op, const DeviceInfo& device) {
    if (op.a.dtype == DType::fp32) return "fp32 operands: the tensor cores would round them";
    if (device.arch < 80) return "mma.sync of bf16 needs SM 8.0";
    if (op.packed() && op.a.dtype == DType::fp16) {
        if (scales_are(op, DType::ue8m0)) return "fp16 does not hold every code times a scale of MX";
        if (op.whole_codes() && !scales_are(op, DType::fp16))
            return "fp16 does not hold every scale of bf16 or fp32";
    }
    if (!is_fp8(op.a.dtype)) return whole_decline(op);
    if (device.arch < 89) return "mma.sync of fp8 needs SM 8.9";
    if (op.a.dtype != DType::fp8_e4m3 || op.b.dtype != DType::fp8_e4m3)
        return "of the fp8 pairs it takes e4m3 by e4m3";
    return nullptr;
}

}  // namespace weft::gemm
