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
// It writes 16 bytes at a time, beyond the row's end if that is within.
bool whole_ends(const Tensor& t, const Problem& p, std::int64_t stride) {
    return whole_rows(t, p.m, p.n, stride) && bytes(t.dtype, p.n) % 16 == 0;
}
bool whole_weights(const Tensor& t, const Problem& p, const WeightStrides& strides) {
    return is_tn(strides) && whole_rows(t, p.n, p.k, strides.row);
}

// One tensor map describes both matrices: up's rows lie everywhere as far from b's.
bool side_by_side(const Gemm& op, const Problem& p) {
    const auto apart = static_cast<const char*>(op.up.data) - static_cast<const char*>(op.b.data);
    return std::abs(apart) < std::int64_t{1} << 40 && bytes(op.b.dtype, p.b.row) * 8 < std::int64_t{1} << 40;
}

// Relative time: waves over the card, times a tile's work. A narrower tile brings more bytes into shared memory
// for each product, and fills and drains more often; the factors are an H200's.
double cost(const Gemm& op, const WgmmaConfig& config, const DeviceInfo& device) {
    const std::int64_t tiles = wgmma_tiles(op, config).count();
    const double waves = static_cast<double>(ceil_div(tiles, wgmma_clusters(op, config, device)));
    const int tokens = config.tile.tokens;
    return waves * tokens / (tokens > 176 ? 1.0 : tokens > 128 ? 0.91 : tokens > 64 ? 0.83 : 0.6);
}

}  // namespace

const char* wgmma_decline(const Gemm& op, const DeviceInfo& device) {
    if (device.arch < 90 || device.arch >= 100) return "wgmma is an instruction of SM 9.0 alone";
    if (op.a.dtype == DType::fp32) return "fp32 operands: the tensor cores would round them";
    const Problem p = problem(op);
    if (p.k == 0) return "k is 0, and a tensor map has no empty axis";
    if (p.m <= tile_rows(MmaConfig::Tile::skinny)) return "few tokens: mma_sync cuts them along k";
    if (std::max({p.m, p.n, p.k}) > std::numeric_limits<int>::max()) return "an axis is beyond 2^31";
    if (!whole_rows(op.a, p.m, p.k, p.a_stride) || !whole_weights(op.b, p, p.b) ||
        (op.up && !whole_weights(op.up, p, p.up))) {
        return "a, b and up need k contiguous, 16-byte aligned rows, none over another";
    }
    if (op.up && p.up.row != p.b.row) return "b and up have different strides";
    if (op.up && !side_by_side(op, p)) return "b and up are too far apart for one tensor map";
    if (op.out.dtype == DType::fp32) return "results leave in 16 or 8 bits";
    if (op.residual && (bits(op.residual.dtype) != 16 || bits(op.out.dtype) != 16))
        return "a residual passes where results do: of 16 bits, both";
    if (!whole_ends(op.out, p, p.out_stride) ||
        (op.residual && !whole_ends(op.residual, p, p.residual_stride))) {
        return "out and the residual need whole 16 bytes a row, none over another";
    }
    return nullptr;
}

WgmmaTiles wgmma_tiles(const Gemm& op, const WgmmaConfig& config) {
    const Problem p = problem(op);
    return {ceil_div(p.m, config.tile.tokens), ceil_div(p.n, config.tile.features() * config.cluster)};
}

std::int64_t wgmma_clusters(const Gemm& op, const WgmmaConfig& config, const DeviceInfo& device) {
    return std::min<std::int64_t>(std::max(1, device.sms / config.cluster), wgmma_tiles(op, config).count());
}

// The first of the cheapest: wide tiles, and pairs of blocks, before the others.
WgmmaConfig wgmma_config(const Gemm& op, const DeviceInfo& device) {
    // e4m3 by e4m3 alone has kernels that leave its sums to the tensor cores.
    const bool short_sums =
        op.fast_accumulation && op.a.dtype == DType::fp8_e4m3 && op.b.dtype == DType::fp8_e4m3;
    WgmmaConfig best;
    double least = std::numeric_limits<double>::infinity();
    for (const WgmmaTile& tile : kWgmmaTiles) {
        if (tile.gated != static_cast<bool>(op.up)) continue;
        for (const int cluster : {2, 1}) {
            // Both blocks of a pair have features.
            if (cluster > device.max_cluster || (cluster > 1 && problem(op).n <= tile.features())) continue;
            const WgmmaConfig config{tile, cluster, is_fp8(op.a.dtype) && !short_sums};
            const double time = cost(op, config, device);
            if (time < least) best = config, least = time;
        }
    }
    return best;
}

std::string to_string(const WgmmaConfig& c) {
    return fmt::format("{}x{} tiles, {} stages, {}, {}{} KiB shared", WgmmaTile::kRows, c.tile.tokens,
                       c.tile.stages(), c.cluster == 2 ? "pairs of blocks" : "single blocks",
                       c.promoted ? "sums in fp32, " : "", (c.tile.shared_bytes() + 1023) / 1024);
}

}  // namespace weft::gemm
