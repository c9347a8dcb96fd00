// gemm of few tokens: which calls it takes, and how they are cut.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/gemm/skinny.h"
#include "ops/gemm/wgmma.h"

namespace weft::gemm {
namespace {

bool whole_rows(const Tensor& t, std::int64_t rows, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 &&
           (rows <= 1 || bytes(t.dtype, stride) % 16 == 0);
}

int chunk_bytes(const Gemm& op, int token_tiles) {
    return op.packed() ? SkinnyConfig::packed_chunk_bytes() : SkinnyConfig::chunk_bytes(token_tiles);
}
std::int64_t chunks(const Gemm& op, int token_tiles) {
    return ceil_div(bytes(op.b.dtype, op.b.dim(1)), chunk_bytes(op, token_tiles));
}

// Whether the scales of 32 neighbours along k are one load.
bool whole_scales(const ScalesAlong& scales, const Tensor& codes, const WeightStrides& strides) {
    const GroupScales& groups = scales.groups;
    if (!plain_codes(codes.dim(0), codes.dim(1), strides.row, scales)) return false;
    if (scales.columns() >= 32) return true;
    return reinterpret_cast<std::uintptr_t>(groups.data) % 2 == 0 &&
           (groups.swizzled ||
            (groups.group_stride == 1 && (codes.dim(0) <= 1 || groups.row_stride % 2 == 0)));
}

// Of weights of four bits; null where it takes them.
const char* packed_decline(const Gemm& op, const Problem& p) {
    if (!op.packed()) return nullptr;
    if (op.a.dtype == op.b.dtype) return "its tokens are numbers, not codes of four bits";
    if (!whole_scales(scales_of_b(op), op.b, p.b) || (op.up && !whole_scales(scales_of_up(op), op.up, p.up)))
        return "scales of neighbouring groups do not lie together";
    return nullptr;
}

// Microseconds of an H200 beside those that every cut takes: the memory's, or those of the busiest multiprocessor, whose
// blocks have so many bytes on their way. Multiprocessors without a block leave memory idle, further blocks and clusters
// begin and end later.
double cost(const Gemm& op, const SkinnyConfig& config, const DeviceInfo& device) {
    constexpr double kLatency = 1.1, kIdle = 0.6, kBlocks = 0.8, kCluster = 0.2, kPart = 0.05;
    // Bytes a microsecond and multiprocessor; of codes, as many as become numbers, 5 instructions each.
    constexpr double kMemory = 33e3, kMost = 60e3, kCodes = 22e3;
    const Problem p = problem(op);
    const double row = static_cast<double>(bytes(op.b.dtype, p.k));
    const std::int64_t blocks = ceil_div(p.n, skinny_features(op, config)) * config.splits;
    const auto most = static_cast<double>(ceil_div(blocks, device.sms));  // blocks of a multiprocessor
    const double block_bytes = row / config.splits * config.row_warps * SkinnyConfig::kWarpRows;
    const double on_their_way = std::min<double>(most, SkinnyConfig::kBlocks) * SkinnyConfig::kWarps *
                                SkinnyConfig::kWarpRows * chunk_bytes(op, config.token_tiles);
    const double busiest =
        most * block_bytes / std::min(op.packed() ? kCodes : kMost, on_their_way / kLatency);
    const double memory =
        static_cast<double>(blocks) * block_bytes / ((op.packed() ? kCodes : kMemory) * device.sms);
    const double idle = 1 - static_cast<double>(blocks) / (most * device.sms);
    return std::max(busiest, memory) + memory * idle * kIdle + (most > 1 ? kBlocks : 0) +
           (config.splits > 1 ? (kCluster + kPart * config.splits) * most : 0);
}

// Whether wgmma, which reads fp8 as it is and wants no registers for what is on its way, is the better one.
bool better_on_wgmma(const Gemm& op, const DeviceInfo& device) {
    constexpr std::int64_t kFew = std::int64_t{8} << 20;  // bytes of weights
    if (wgmma_decline(op, device) != nullptr) return false;
    const Problem p = problem(op);
    return is_fp8(op.a.dtype) || (p.m > 8 && bytes(op.b.dtype, p.n * p.k) * (op.up ? 2 : 1) > kFew);
}

}  // namespace

const char* skinny_decline(const Gemm& op, const DeviceInfo& device) {
    if (const char* why = mma_decline(op, device)) return why;
    const Problem p = problem(op);
    if (p.m > SkinnyConfig::kMostTokens) return "more than 16 tokens";
    if (p.k == 0) return "k is 0: nothing is streamed";
    if (op.scaled_within()) return "its parts of k do not end where scales of groups change";
    const std::int64_t most = std::numeric_limits<int>::max();
    if (p.n > most || bytes(op.b.dtype, p.k) > most - SkinnyConfig::chunk_bytes(1)) {
        return "n, or k in bytes, is beyond 2^31";
    }
    if (!is_tn(p.b) || (op.up && !is_tn(p.up))) return "weights need k contiguous";
    if (!whole_rows(op.a, p.m, p.a_stride) || !whole_rows(op.b, p.n, p.b.row) ||
        (op.up && !whole_rows(op.up, p.n, p.up.row)) || bytes(op.b.dtype, p.k) % 16 != 0) {
        return "rows are no whole, aligned 16 bytes";
    }
    if (const char* why = packed_decline(op, p)) return why;
    if (better_on_wgmma(op, device))
        return "wgmma takes it, and is faster for fp8, and from nine tokens on for many weights";
    return nullptr;
}

SkinnyConfig skinny_config(const Gemm& op, const DeviceInfo& device) {
    const int token_tiles = problem(op).m <= 8 ? 1 : 2;
    SkinnyConfig best{.token_tiles = token_tiles, .row_warps = SkinnyConfig::kWarps};  // k in one part
    double least = cost(op, best, device);
    for (const int splits : {1, 2, 4, 8}) {
        for (const int row_warps : {1, 2, 4, 8}) {
            const SkinnyConfig config{token_tiles, row_warps, splits};
            if (splits > std::max(1, device.max_cluster) || config.k_parts() > chunks(op, token_tiles))
                continue;
            const double time = cost(op, config, device);
            if (time < least) best = config, least = time;
        }
    }
    return best;
}

std::string to_string(const SkinnyConfig& c) {
    const std::string parts = c.k_parts() == 1 ? "all of k"
                              : c.splits == 1
                                  ? fmt::format("k in {} parts", c.k_parts())
                                  : fmt::format("k in {} parts of {} blocks", c.k_parts(), c.splits);
    return fmt::format("{} tokens, {} rows a block, {}", c.token_tiles * 8,
                       c.row_warps * SkinnyConfig::kWarpRows, parts);
}

}  // namespace weft::gemm
