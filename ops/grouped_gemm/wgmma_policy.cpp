// grouped_gemm on wgmma: which calls it takes, and how they are cut.
#include <fmt/format.h>

#include <limits>

#include "ops/grouped_gemm/wgmma.h"

namespace weft::grouped {
namespace {

constexpr std::int64_t kMostStride = std::int64_t{1} << 40;  // in bytes, of a tensor map

// A step that the copy engine can take from one row, or matrix, to the next.
bool is_step(const Tensor& t, int axis) {
    if (t.dim(axis) <= 1) return true;
    const std::int64_t step = bytes(t.dtype, t.stride[axis]);
    return step > 0 && step % 16 == 0 && step < kMostStride;
}
// Whether the copy engine can read the rows of a tensor of matrices, or of one.
bool whole_rows(const Tensor& t) {
    if (reinterpret_cast<std::uintptr_t>(t.data) % 16 != 0) return false;
    const int rows = t.rank - 2, last = t.rank - 1;
    if (t.dim(last) > 1 && t.stride[last] != 1) return false;
    if (t.dim(rows) > 1 && t.stride[rows] < t.dim(last)) return false;
    return is_step(t, rows) && (rows == 0 || is_step(t, 0));
}

// Whether it can read weights [groups, n, k] of which n is contiguous: each k is a row then. wgmma has them of 16 bits alone,
// and no kernel has those of b and of up in turn.
bool whole_columns(const GroupedGemm& op) {
    const Tensor& b = op.b;
    if (op.up || is_fp8(b.dtype) || reinterpret_cast<std::uintptr_t>(b.data) % 16 != 0) return false;
    return b.stride[1] == 1 && b.stride[2] >= b.dim(1) && is_step(b, 2) && is_step(b, 0);
}

// One tensor map describes both matrices: up's rows lie everywhere as far from b's.
bool side_by_side(const GroupedGemm& op) {
    const auto apart = static_cast<const char*>(op.up.data) - static_cast<const char*>(op.b.data);
    const auto alike = [&](int axis) {
        return op.b.dim(axis) <= 1 || op.b.stride[axis] == op.up.stride[axis];
    };
    return alike(0) && alike(1) && apart != 0 && std::abs(apart) < kMostStride &&
           bytes(op.b.dtype, op.b.stride[1]) * 8 < kMostStride;
}

// Relative time: waves over the card times a tile's work. What a step costs beside its tokens' products, in the time of one
// token's, is what is brought for it whatever the tile's width.
double cost(const GroupedGemm& op, const gemm::WgmmaConfig& config, const DeviceInfo& device) {
    constexpr int kStepCost = 40;
    const std::int64_t tiles =
        op.groups() * gemm::ceil_div(expected_rows(op), config.tile.tokens) * feature_tiles(op, config);
    const double waves = static_cast<double>(gemm::ceil_div(tiles, device.sms / config.cluster));
    return waves * (config.tile.tokens + kStepCost);
}

}  // namespace

const char* wgmma_decline(const GroupedGemm& op, const DeviceInfo& device) {
    if (device.arch < 90 || device.arch >= 100) return "wgmma is an instruction of SM 9.0 alone";
    if (op.k() == 0) return "k is 0, and a tensor map has no empty axis";
    if (op.groups() == 0) return "there are no groups, and a tensor map has no empty axis";
    const std::int64_t most = most_row_tiles(op, 64) * gemm::ceil_div(op.n(), 64);
    if (std::max({op.rows(), op.n(), op.k(), op.groups(), most}) >= kMostTiles)
        return "an axis, or the number of tiles, is beyond 2^30";
    if (!whole_rows(op.a) || !(whole_rows(op.b) || whole_columns(op)) || (op.up && !whole_rows(op.up)))
        return "a, b and up need k contiguous, 16-byte aligned rows, none over another (b of 16 bits without "
               "up: or n)";
    if (op.up && !side_by_side(op)) return "b and up have different strides, or are too far apart";
    return nullptr;
}

// It writes 16 bytes at a time.
bool wgmma_copies(const GroupedGemm& op) {
    return whole_rows(op.out) && bytes(op.out.dtype, op.n()) % 16 == 0;
}

std::int64_t feature_tiles(const GroupedGemm& op, const gemm::WgmmaConfig& config) {
    return gemm::ceil_div(op.n(), config.tile.features() * config.cluster);
}

std::int64_t wgmma_clusters(const GroupedGemm& op, const gemm::WgmmaConfig& config,
                            const DeviceInfo& device) {
    const std::int64_t most = most_row_tiles(op, config.tile.tokens) * feature_tiles(op, config);
    return std::min<std::int64_t>(std::max(1, device.sms / config.cluster), most);
}

// The first of the cheapest: wide tiles, and pairs of blocks, before the others.
gemm::WgmmaConfig wgmma_config(const GroupedGemm& op, const DeviceInfo& device) {
    gemm::WgmmaConfig best;
    double least = std::numeric_limits<double>::infinity();
    for (const int tokens : kTileTokens) {
        const gemm::WgmmaTile tile{tokens, static_cast<bool>(op.up), product_of(op, 0).scaled_within(), 0,
                                   !whole_rows(op.b)};
        if (!is_compiled(tile)) continue;
        for (const int cluster : {2, 1}) {
            // Both blocks of a pair have features.
            if (cluster > device.max_cluster || (cluster > 1 && op.n() <= tile.features())) continue;
            const gemm::WgmmaConfig config{tile, cluster, 1, is_fp8(op.a.dtype)};
            const double time = cost(op, config, device);
            if (time < least) best = config, least = time;
        }
    }
    return best;
}

std::string to_string(const gemm::WgmmaConfig& c) {
    return fmt::format("{}x{} tiles, {} stages, {}, {}{}{} KiB shared", gemm::WgmmaTile::kRows, c.tile.tokens,
                       c.tile.stages(), c.cluster == 2 ? "pairs of blocks" : "single blocks",
                       c.tile.across ? "n contiguous, " : "",
                       c.tile.scaled ? "groups scaled, "
                       : c.promoted  ? "sums in fp32, "
                                     : "",
                       (c.tile.shared_bytes() + 1023) / 1024);
}

}  // namespace weft::grouped
