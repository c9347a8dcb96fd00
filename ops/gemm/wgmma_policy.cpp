// gemm on wgmma: which calls it takes, and how they are cut.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/gemm/wgmma.h"

namespace weft::gemm {
namespace {

// Whether the copy engine can read rows of `length` elements.
bool whole_rows(const Tensor& t, std::int64_t rows, std::int64_t length, std::int64_t stride) {
    if (reinterpret_cast<std::uintptr_t>(t.data) % 16 != 0) return false;
    return rows <= 1 || (stride >= length && bytes(t.dtype, stride) % 16 == 0 &&
                         bytes(t.dtype, stride) < std::int64_t{1} << 40);
}

bool whole_weights(const Tensor& t, const Problem& p, const WeightStrides& strides) {
    return is_tn(strides) && whole_rows(t, p.n, p.k, strides.row);
}

// Relative time: waves over the card, times a tile's work. A tile of 128 columns reads a sixth more of shared
// memory for each product and fills and drains twice as often.
double cost(const Gemm& op, const WgmmaConfig& config, const DeviceInfo& device) {
    const std::int64_t tiles = wgmma_tiles(op, config).count();
    const double waves = static_cast<double>(ceil_div(tiles, wgmma_clusters(op, config, device)));
    return waves * (config.tile.columns == 256 ? 256 : 128 / 0.85);
}

}  // namespace

const char* wgmma_decline(const Gemm& op, const DeviceInfo& device) {
    if (device.arch < 90 || device.arch >= 100) return "wgmma is an instruction of SM 9.0 alone";
    if (op.a.dtype == DType::fp32) return "fp32 operands: the tensor cores would round them";
    const Problem p = problem(op);
    if (p.k == 0) return "k is 0, and a tensor map has no empty axis";
    if (p.m <= tile_rows(MmaConfig::Tile::skinny)) return "a tile of 128 rows would be almost empty";
    if (std::max({p.m, p.n, p.k}) > std::numeric_limits<int>::max()) return "an axis is beyond 2^31";
    if (is_fp8(op.a.dtype) && !op.fast_accumulation)
        return "it adds fp8 products in the tensor cores' short accumulator: fast_accumulation alone";
    if (!whole_rows(op.a, p.m, p.k, p.a_stride) || !whole_weights(op.b, p, p.b) ||
        (op.up && !whole_weights(op.up, p, p.up))) {
        return "a, b and up need k contiguous, 16-byte aligned rows, none over another";
    }
    return nullptr;
}

WgmmaTiles wgmma_tiles(const Gemm& op, const WgmmaConfig& config) {
    const Problem p = problem(op);
    const bool gated = static_cast<bool>(op.up);
    return {ceil_div(p.m, WgmmaTile::kRows * config.cluster), ceil_div(p.n, config.tile.out_columns(gated))};
}

std::int64_t wgmma_clusters(const Gemm& op, const WgmmaConfig& config, const DeviceInfo& device) {
    const std::int64_t resident = std::max(1, device.sms / config.cluster);
    return std::min(resident, wgmma_tiles(op, config).count());
}

// The first of the cheapest: wide tiles, and pairs of blocks that share b, before the others.
WgmmaConfig wgmma_config(const Gemm& op, const DeviceInfo& device) {
    WgmmaConfig best;
    double least = std::numeric_limits<double>::infinity();
    for (const int columns : {256, 128}) {
        for (const int cluster : {2, 1}) {
            const WgmmaConfig config{{columns}, cluster};
            if (cluster > device.max_cluster || (cluster == 2 && problem(op).m <= WgmmaTile::kRows)) continue;
            const double time = cost(op, config, device);
            if (time < least) best = config, least = time;
        }
    }
    return best;
}

std::string to_string(const WgmmaConfig& c) {
    return fmt::format("{}x{} tiles, {} stages, {} blocks share b, {} KiB shared", WgmmaTile::kRows,
                       c.tile.columns, WgmmaTile::kStages, c.cluster, (c.tile.shared_bytes() + 1023) / 1024);
}

}  // namespace weft::gemm
