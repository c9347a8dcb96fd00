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

// Relative time: waves over the card, times a tile's work. A narrower tile brings more bytes into shared memory
// for each product, and fills and drains more often; the factors are an H200's.
double cost(const Gemm& op, const WgmmaConfig& config, const DeviceInfo& device) {
    const std::int64_t tiles = wgmma_tiles(op, config).count();
    const double waves = static_cast<double>(ceil_div(tiles, wgmma_clusters(op, config, device)));
    const int columns = config.tile.columns;
    return waves * columns / (columns == 256 ? 1.0 : columns == 192 ? 0.91 : 0.83);
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

// The multiprocessors of a cluster are neighbours in one of the groups that a card is made of: pairs find all
// of them, fours do not (30 fit on the 132 of an H200).
std::int64_t wgmma_clusters(const Gemm& op, const WgmmaConfig& config, const DeviceInfo& device) {
    const int together = config.cluster <= 2 ? device.sms : device.sms / 16 * 15;
    const std::int64_t resident = std::max(1, together / config.cluster);
    return std::min(resident, wgmma_tiles(op, config).count());
}

// The first of the cheapest: wide tiles, and many blocks that share b, before the others.
WgmmaConfig wgmma_config(const Gemm& op, const DeviceInfo& device) {
    WgmmaConfig best;
    double least = std::numeric_limits<double>::infinity();
    for (const int columns : {256, 192, 128}) {
        for (const int cluster : {4, 2, 1}) {
            const WgmmaConfig config{wgmma_tile(columns), cluster};
            // Half of a cluster's blocks have rows, at least.
            const bool fits = cluster == 1 || problem(op).m > WgmmaTile::kRows * cluster / 2;
            if (cluster > device.max_cluster || !fits) continue;
            const double time = cost(op, config, device);
            if (time < least) best = config, least = time;
        }
    }
    return best;
}

std::string to_string(const WgmmaConfig& c) {
    return fmt::format("{}x{} tiles, {} stages, {} blocks share b, {} KiB shared", WgmmaTile::kRows,
                       c.tile.columns, c.tile.stages, c.cluster, (c.tile.shared_bytes() + 1023) / 1024);
}

}  // namespace weft::gemm
