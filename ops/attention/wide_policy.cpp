// Attention of wide rows: which calls it takes, and how they are cut.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/attention/wide.h"

namespace weft::attention {
namespace {

constexpr int kSlots[] = {8, 5, 3, 2};  // of the ring: as many as fit
// In the time of a tile of keys: until a block's first is there, and of a kernel that merges.
constexpr double kStart = 2, kMerge = 3;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The ring of a tile, if it fits.
bool give_slots(WideConfig& config, const DeviceInfo& device) {
    for (const int slots : kSlots) {
        config.slots = slots;
        if (config.shared_bytes() <= device.shared_per_block) return true;
    }
    return false;
}

// The tile that holds the most rows of those that leave room for a ring.
WideConfig tile_of(const Problem& problem, const DeviceInfo& device) {
    WideConfig config{.tile = {.columns = 512, .stored_bits = problem.stored_bits},
                      .head_dim = problem.head_dim};
    if (problem.v_dim <= 512 && give_slots(config, device) && config.slots > 2) return config;
    config.tile.columns = 1024;
    give_slots(config, device);
    return config;
}

}  // namespace

const char* decline_wide(const Attention& op, const DeviceInfo& device) {
    if (const char* why = decline_tensor_cores(op, device)) return why;
    const Problem problem(op);
    const WideConfig config = tile_of(problem, device);
    if (config.shared_bytes() > device.shared_per_block)
        return "queries of so many columns do not fit into shared memory beside a ring of keys";
    if (blocks(problem, config.tile.rows()) * kMaxSplits > std::numeric_limits<std::int32_t>::max())
        return "too many tiles of query rows for one grid";
    return nullptr;
}

WideConfig choose_wide(const Problem& problem, const DeviceInfo& device) {
    WideConfig best = tile_of(problem, device);
    const std::int64_t one = blocks(problem, best.tile.rows());
    const std::int64_t tiles = ceil_div(problem.block_keys(best.tile.rows(), kKeys), kKeys);
    const auto time = [&](std::int64_t splits) {
        const auto waves = static_cast<double>(ceil_div(one * splits, device.sms));
        return waves * (static_cast<double>(ceil_div(tiles, splits)) + kStart) + (splits > 1 ? kMerge : 0);
    };
    const std::int64_t most = std::min<std::int64_t>(tiles, kMaxSplits);
    for (std::int64_t splits = 2; splits <= most; ++splits) {
        if (time(splits) < time(best.splits)) best.splits = static_cast<int>(splits);
    }
    return best;
}

std::string to_string(const WideConfig& c) {
    return fmt::format(
        "{}x{} rows and keys, items of {} columns of {} bits, {} slots, {} splits, {} KiB shared",
        c.tile.rows(), kKeys, WideTile::kChunk, c.tile.stored_bits, c.slots, c.splits,
        (c.shared_bytes() + 1023) / 1024);
}

}  // namespace weft::attention
