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

// What a step along k costs a block beside others, in the time of one token's products: a narrower tile brings more
// bytes into shared memory for each product, and fills and drains more often; the factors are an H200's. Where scales change
// with every step, a tile whose columns are tokens loads one of each for each thread.
double step_cost(const WgmmaTile& tile) {
    if (tile.by_tokens()) return tile.weights() > 128 ? 256 : 150;
    const int tokens = tile.tokens;
    if (tile.scaled && tokens > 16) return 115;
    return tokens / (tokens > 176 ? 1.0 : tokens > 128 ? 0.91 : tokens > 64 ? 0.83 : tokens > 16 ? 0.6 : 0.2);
}
// What it costs to let the parts of sums meet, and to make results of them: so many times four a thread.
double meeting_cost(const WgmmaConfig& config) {
    const double fours =
        static_cast<double>(config.tile.tokens * config.tile.features()) / (4 * 256 * config.splits);
    return config.splits > 1 ? 1050 + 215 * fours : 0;
}

// Relative time: waves over the card, times a tile's steps.
double cost(const Gemm& op, const WgmmaConfig& config, const DeviceInfo& device) {
    const std::int64_t tiles = wgmma_tiles(op, config).count();
    if (tiles == 0) return 0;
    const double waves = static_cast<double>(ceil_div(tiles, wgmma_clusters(op, config, device)));
    const double steps = static_cast<double>(ceil_div(mma_steps(op), config.splits));
    return waves * steps * step_cost(config.tile) + meeting_cost(config);
}

// A cluster that shares tiles along k has one of them, all its blocks have steps, and all clusters run at once.
bool splits_well(const Gemm& op, const WgmmaConfig& config, const DeviceInfo& device) {
    return config.tile.splittable() && config.splits <= device.max_cluster &&
           config.splits <= mma_steps(op) &&
           wgmma_tiles(op, config).count() <= fitting_clusters(config.splits, device);
}

}  // namespace

const char* wgmma_decline(const Gemm& op, const DeviceInfo& device) {
    if (device.arch < 90 || device.arch >= 100) return "wgmma is an instruction of SM 9.0 alone";
    if (op.a.dtype == DType::fp32) return "fp32 operands: the tensor cores would round them";
    if (op.packed())
        return "its operands are read by the copy engine, and no instruction multiplies codes of four bits";
    const Problem p = problem(op);
    if (p.k == 0) return "k is 0, and a tensor map has no empty axis";
    if (const char* why = whole_decline(op)) return why;
    if (std::max({p.m, p.n, p.k}) > std::numeric_limits<int>::max()) return "an axis is beyond 2^31";
    if (!whole_rows(op.a, p.m, p.k, p.a_stride) || !whole_weights(op.b, p, p.b) ||
        (op.up && !whole_weights(op.up, p, p.up))) {
        return "a, b and up need k contiguous, 16-byte aligned rows, none over another";
    }
    if (op.up && p.up.row != p.b.row) return "b and up have different strides";
    if (op.up && !side_by_side(op, p)) return "b and up are too far apart for one tensor map";
    if (op.scaled_within() && (op.a.dtype != DType::fp8_e4m3 || op.b.dtype != DType::fp8_e4m3))
        return "of the fp8 pairs whose groups have scales it takes e4m3 by e4m3";
    if (op.out.dtype == DType::fp32) return "results leave in 16 or 8 bits";
    return nullptr;
}

bool wgmma_copies(const Gemm& op, const Problem& p) { return whole_ends(op.out, p, p.out_stride); }

bool wgmma_carries(const Gemm& op, const Problem& p) {
    return op.residual && p.residual_stride > 0 && bits(op.residual.dtype) == 16 &&
           bits(op.out.dtype) == 16 && whole_ends(op.residual, p, p.residual_stride);
}

std::int64_t gate_run(const Gemm& op) {
    const RowMap map = rows_beside(op.gate, op.out);
    if (map.axes == 0) return 1;  // of a lone token
    return map.stride[map.axes - 1] == 0 ? map.size[map.axes - 1] : 1;
}

WgmmaTiles wgmma_tiles(const Gemm& op, const WgmmaConfig& config) {
    const Problem p = problem(op);
    const int rows = config.tile.by_tokens() ? config.cluster : 1;  // tiles of tokens that a cluster has
    return {ceil_div(p.m, config.tile.tokens * rows),
            ceil_div(p.n, config.tile.features() * (config.cluster / rows))};
}

std::int64_t wgmma_clusters(const Gemm& op, const WgmmaConfig& config, const DeviceInfo& device) {
    const std::int64_t tiles = wgmma_tiles(op, config).count();
    return config.splits > 1 ? tiles
                             : std::min<std::int64_t>(fitting_clusters(config.cluster, device), tiles);
}

// The first of the cheapest: wide tiles, and pairs of blocks, before the others.
WgmmaConfig wgmma_config(const Gemm& op, const DeviceInfo& device) {
    // e4m3 by e4m3 alone has kernels that leave its sums to the tensor cores; not where these are scaled.
    const bool short_sums = op.fast_accumulation && !op.scaled_within() && op.a.dtype == DType::fp8_e4m3 &&
                            op.b.dtype == DType::fp8_e4m3;
    WgmmaConfig best;
    double least = std::numeric_limits<double>::infinity();
    const auto consider = [&](const WgmmaConfig& config) {
        const double time = cost(op, config, device);
        if (time < least) best = config, least = time;
    };
    for (const WgmmaTile& tile : kWgmmaTiles) {
        if (tile.gated != static_cast<bool>(op.up) || tile.scaled != op.scaled_within() ||
            !tile.takes(op.a.dtype, op.b.dtype))
            continue;
        if (tile.tokens <= WgmmaTile::kFewTokens && problem(op).m > tile.tokens) continue;
        for (const int cluster : {2, 1}) {
            // Both blocks of a pair have rows.
            const bool two = tile.by_tokens() ? problem(op).m > tile.tokens : problem(op).n > tile.features();
            if (cluster > device.max_cluster || (cluster > 1 && !two)) continue;
            const WgmmaConfig config{tile, cluster, 1, is_fp8(op.a.dtype) && !short_sums};
            consider(config);
        }
        for (const int splits : {2, 4, 8}) {
            const WgmmaConfig config{tile, 1, splits, is_fp8(op.a.dtype) && !short_sums};
            if (splits_well(op, config, device)) consider(config);
        }
    }
    return best;
}

std::string to_string(const WgmmaConfig& c) {
    return fmt::format("{}x{} tiles, {} stages, {}, {}{} KiB shared", c.tile.weights(), c.tile.tokens,
                       c.tile.stages(),
                       c.splits > 1     ? fmt::format("k in {} parts", c.splits)
                       : c.cluster == 2 ? "pairs of blocks"
                                        : "single blocks",
                       c.tile.scaled ? "groups scaled, "
                       : c.promoted  ? "sums in fp32, "
                                     : "",
                       (c.tile.shared_bytes() + 1023) / 1024);
}

}  // namespace weft::gemm
