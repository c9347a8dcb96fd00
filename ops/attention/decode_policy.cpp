// Attention of few rows: which calls it takes, and how they are cut.
#include <fmt/format.h>

#include <algorithm>

#include "ops/attention/decode.h"
#include "ops/attention/wgmma.h"
#include "ops/attention/wide.h"

namespace weft::attention {
namespace {

// On an H200, in microseconds: until a cluster's sums are there, and more for each of its blocks; of a kernel that merges.
constexpr double kClusterUs = 1.2, kClusterBlockUs = 0.11, kMergeUs = 3.3;
// Bytes of keys and values a microsecond: of a block, of one that makes numbers of codes, of the memory.
constexpr double kBlockBytes = 68e3, kCodeBytes = 30e3, kMemoryBytes = 4.4e6;
constexpr double kClusterSms =
    0.75;  // of all multiprocessors, those that larger clusters find free beside each other
constexpr double kNearKeys = 8 << 20;  // bytes, of all rows together, that L2 gives again and again

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

DecodeTile tile_of(const Problem& problem) {
    const int columns = std::max(static_cast<int>(problem.head_dim), 1024 / problem.stored_bits);
    return {*std::ranges::lower_bound(kDecodeHeadDims, columns), problem.stored_bits};
}

double key_bytes(const Problem& problem) {
    return problem.stored_bits / 4.0 * static_cast<double>(problem.heads) *
           static_cast<double>(problem.head_dim) *
           static_cast<double>(problem.block_keys(DecodeTile::kRows, 1));
}

// Microseconds beside those that every cut takes.
double time(const Problem& problem, const DecodeConfig& config, const DeviceInfo& device) {
    const std::int64_t all = std::max<std::int64_t>(blocks(problem, DecodeTile::kRows) * config.splits, 1);
    const std::int64_t at_once = std::min<std::int64_t>(all, device.sms);
    const std::int64_t tiles =
        ceil_div(ceil_div(problem.block_keys(DecodeTile::kRows, DecodeTile::keys()), DecodeTile::keys()),
                 config.splits);
    const double alone = problem.stored_bits == 8 ? kCodeBytes : kBlockBytes;
    const double rate = std::min(alone, kMemoryBytes / static_cast<double>(at_once));
    const double sums = config.clustered  ? kClusterUs + kClusterBlockUs * config.splits
                        : config.merged() ? kMergeUs
                                          : 0;
    return static_cast<double>(ceil_div(all, at_once) * tiles * 2 * config.tile.slot_bytes()) / rate + sums;
}

bool fits_at_once(const Problem& problem, const DecodeConfig& config, const DeviceInfo& device) {
    const auto all = static_cast<double>(blocks(problem, DecodeTile::kRows) * config.splits);
    return all <= (config.clustered && config.splits > 2 ? kClusterSms : 1) * device.sms;
}

}  // namespace

const char* decline_decode(const Attention& op, const DeviceInfo& device) {
    if (const char* why = decline_wide(op, device))
        return why;  // so that flash_wide takes whatever this one takes
    if (op.v.dim(3) != op.q.dim(3) || op.q.dim(3) > kDecodeHeadDims[2])
        return "keys and values of this kernel are alike in width, up to 256 columns";
    if (const char* why = decline_boxes(op, device)) return why;
    const Problem problem(op);
    const auto row_blocks = static_cast<double>(ceil_div(problem.rows, DecodeTile::kRows));
    if (row_blocks > 1 && row_blocks * key_bytes(problem) > kNearKeys)
        return "more than 16 rows of queries share a key head, each 16 of which would read all keys";
    if (decline_wgmma(op, device) != nullptr) return nullptr;
    if (blocks(problem, DecodeTile::kRows) > device.sms)
        return "blocks of rows fill the card, and flash_wgmma is no slower there";
    if ((problem.head_dim > 128 && key_bytes(problem) > kNearKeys / 2) ||
        (op.block_table && key_bytes(problem) > static_cast<double>(device.l2_bytes)))
        return "of many keys in long rows or in pages flash_wgmma has more on their way";
    return nullptr;
}

DecodeConfig choose_decode(const Problem& problem, const DeviceInfo& device) {
    DecodeConfig best{tile_of(problem)};
    double least = time(problem, best, device);
    for (const bool clustered : {true, false}) {
        const int most = clustered ? std::min(device.max_cluster, DecodeTile::kBlocks) : kMaxSplits;
        for (int splits = 2; splits <= most; ++splits) {
            const DecodeConfig config{best.tile, splits, clustered};
            const double expected = time(problem, config, device);
            if (expected < least && fits_at_once(problem, config, device)) best = config, least = expected;
        }
    }
    return best;
}

std::string to_string(const DecodeConfig& c) {
    const std::string shared = c.splits == 1 ? ""
                               : c.clustered ? fmt::format(", {} blocks share the keys", c.splits)
                                             : fmt::format(", {} splits", c.splits);
    return fmt::format("{}x{} rows and keys of {} columns, {} slots{}", DecodeTile::kRows, DecodeTile::keys(),
                       c.tile.head_dim, c.tile.slots(), shared);
}

}  // namespace weft::attention
