// Attention on wgmma: which calls it takes, and how they are cut.
#include <fmt/format.h>

#include <algorithm>

#include "ops/attention/wgmma.h"

namespace weft::attention {
namespace {

// Microseconds, on an H200.
constexpr double kTileUs = 1.5;  // of a warpgroup for a tile of keys, whatever the head dim
constexpr double kPairUs = 1.3;  // until the other block's sums are there
constexpr double kGatherUs =
    1.2;  // until those of all blocks of a cluster are there, and where they are read:
constexpr double kGatheredBytesAUs = 6e4;
constexpr double kMergeUs = 4.5;          // of a second kernel, and of the wait for the last block before it
constexpr double kPartialBytesAUs = 3e6;  // written and read

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

WgmmaTile tile_of(const Problem& problem) {
    const auto next = [&](const auto& compiled) {
        return WgmmaTile{*std::ranges::lower_bound(compiled, static_cast<int>(problem.head_dim))};
    };
    return problem.options ? next(kWgmmaOptionHeadDims) : next(kWgmmaHeadDims);
}

bool whole_chunks(const Tensor& t) {
    if (reinterpret_cast<std::uintptr_t>(t.data) % 16 != 0) return false;
    for (int axis = 0; axis < 3; ++axis) {
        if (t.dim(axis) > 1 && (t.stride[axis] <= 0 || t.stride[axis] % 8 != 0)) return false;
    }
    return true;
}

}  // namespace

const char* decline_wgmma(const Attention& op, const DeviceInfo& device) {
    if (const char* why = decline(op, device)) return why;  // so that flash_mma takes whatever this one takes
    const Problem problem(op);
    if (device.arch < 90 || device.arch >= 100) return "wgmma is an instruction of SM 9.0 alone";
    if (problem.head_dim % 8 != 0) return "rows of q, k and v must be whole chunks of 16 bytes";
    if (problem.group < 1 || problem.group > WgmmaTile{}.rows())
        return "one to 128 query heads a key head are packed into rows";
    if (op.key_limits) return "key_limits are no part of this kernel";
    if (problem.keys == 0) return "there are no keys, and a tensor map has no empty axis";
    if (!whole_chunks(op.q) || !whole_chunks(op.k) || !whole_chunks(op.v))
        return "q, k and v must be 16-byte aligned, with positive strides of whole 16 bytes";
    return nullptr;
}

std::int64_t blocks(const Problem& problem, const WgmmaConfig& config) {
    return problem.heads * ceil_div(problem.rows, config.rows) * config.splits;
}

int near_heads(const Problem& problem, const DeviceInfo& device) {
    const std::int64_t bytes = 4 * problem.keys * problem.head_dim;
    return static_cast<int>(std::clamp<std::int64_t>(device.l2_bytes / 2 / std::max<std::int64_t>(bytes, 1),
                                                     1, std::max<std::int64_t>(problem.heads, 1)));
}

namespace {

// A cluster stays in one of a card's groups of multiprocessors, of which Hopper's have 16 or 18.
std::int64_t clusters_at_once(std::int64_t blocks, const DeviceInfo& device) {
    return blocks == 1 ? device.sms : device.sms / 18 * (16 / blocks);
}

// What is the same for all ways to cut a call.
struct Cut {
    const Problem& problem;
    const DeviceInfo& device;
    WgmmaTile tile;
    std::int64_t blocks, tiles;  // without splits, and of a block then

    bool possible(const WgmmaConfig& c) const {
        const std::int64_t most =
            c.meeting == Meeting::merged ? kMaxSplits : std::min(device.max_cluster, 16);
        const bool fits = c.meeting == Meeting::gathered ? blocks <= clusters_at_once(c.splits, device)
                                                         : blocks * c.splits <= device.sms;
        // Warpgroups that share rows hold four of the ring's slots: a second tile each would wait for its first.
        const bool shared = c.sharers == 1 || c.splits * c.sharers >= tiles;
        return (c.splits - 1) * c.sharers < tiles && c.splits <= most && fits && shared;
    }
    double time(const WgmmaConfig& c) const {
        return static_cast<double>(ceil_div(tiles, c.splits * c.sharers)) * kTileUs + meeting(c);
    }
    double meeting(const WgmmaConfig& c) const {
        const auto elements = static_cast<double>(problem.heads * problem.rows * problem.head_dim);
        switch (c.meeting) {
            case Meeting::none: return 0;
            case Meeting::pair: return kPairUs;
            case Meeting::gathered:
                return kGatherUs + elements * 4 / static_cast<double>(problem.heads) / kGatheredBytesAUs;
            default: return kMergeUs + elements * 8 / kPartialBytesAUs * c.splits;
        }
    }
};

}  // namespace

// Where rows alone leave multiprocessors idle, several blocks share the keys of the same rows, and where a warpgroup has
// room for all rows of a head, the warpgroups of a block do as well.
WgmmaConfig choose_wgmma(const Problem& problem, const DeviceInfo& device) {
    WgmmaConfig best{tile_of(problem)};
    best.rows = best.tile.whole_rows(static_cast<int>(problem.group));
    const std::int64_t tiles = ceil_div(problem.block_keys(best.rows, best.tile.keys()), best.tile.keys());
    const Cut cut{problem, device, best.tile, blocks(problem, best), tiles};
    double least = cut.time(best);
    const auto consider = [&](Meeting meeting, int splits, int sharers) {
        WgmmaConfig config = best;
        config.meeting = meeting, config.splits = splits, config.sharers = sharers;
        if (!cut.possible(config) || cut.time(config) >= least) return;
        best = config, least = cut.time(config);
    };
    consider(Meeting::pair, 2, 1);
    const int sharers = problem.rows <= 64 ? best.tile.warpgroups : 1;
    for (int splits = 1; splits <= 16 && problem.rows <= best.rows; ++splits) {
        consider(Meeting::gathered, splits, 1);
        if (sharers > 1) consider(Meeting::gathered, splits, sharers);
    }
    for (int splits = 2; splits <= kMaxSplits; ++splits) consider(Meeting::merged, splits, 1);
    if (best.meeting == Meeting::none && best.tile.head_dim == 64 && !problem.options &&
        problem.rows > best.rows) {
        best.tile.warpgroups = 3;
        best.rows = best.tile.whole_rows(static_cast<int>(problem.group));
    }
    return best;
}

std::string to_string(const WgmmaConfig& c) {
    return fmt::format("{}x{} rows and keys of {} columns, {} slots, {}, {} KiB shared", c.rows,
                       c.tile.keys(), c.tile.head_dim, c.tile.slots(),
                       c.meeting == Meeting::merged
                           ? fmt::format("{} splits", c.splits)
                           : fmt::format("{} {} share the keys", c.splits * c.sharers,
                                         c.sharers > 1 ? "warpgroups" : "blocks"),
                       (c.tile.shared_bytes() + 1023) / 1024);
}

}  // namespace weft::attention
