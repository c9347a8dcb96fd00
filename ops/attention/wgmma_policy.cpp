// Attention on wgmma: which calls it takes, and how they are cut.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/attention/wgmma.h"
#include "ops/attention/wide.h"

namespace weft::attention {
namespace {

// Microseconds, on an H200.
constexpr double kTileUs = 1.5;           // of a tile of keys, whatever the head dim
constexpr double kClusterUs = 1.3;        // until the other block's sums are there
constexpr double kMergeUs = 4.5;          // of a second kernel, and of the wait for the last block before it
constexpr double kPartialBytesAUs = 3e6;  // written and read

// Of the time that three warpgroups would take for their rows if they were no better than two: they keep the tensor cores
// busy while one stores its rows and another weighs.
constexpr double three_warpgroups(int head_dim) { return head_dim <= 64 ? 0.78 : 0.87; }

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

WgmmaTile tile_of(const Problem& problem) {
    if (problem.narrow_values()) return {kWgmmaKeyDim, 2, kWgmmaValueDim};
    const bool codes = problem.stored_bits == 8;
    const auto next = [&](const auto& compiled) -> WgmmaTile {
        return {.head_dim = *std::ranges::lower_bound(compiled, static_cast<int>(problem.head_dim)),
                .codes = codes};
    };
    if (codes) return next(kWgmmaCodeHeadDims);
    if (problem.ragged) return next(kWgmmaRaggedHeadDims);
    return problem.options ? next(kWgmmaOptionHeadDims) : next(kWgmmaHeadDims);
}

}  // namespace

const char* decline_tiles(const Attention& op, const DeviceInfo& device) {
    const Problem problem(op);
    if (device.arch < 90 || device.arch >= 100) return "wgmma is an instruction of SM 9.0 alone";
    if (const char* why = decline_boxes(op, device)) return why;
    if (problem.group < 1 || problem.group > WgmmaTile{}.rows())
        return "one to 128 query heads a key head are packed into rows";
    if (op.key_limits) return "key_limits are no part of this kernel";
    return nullptr;
}

const char* decline_wgmma(const Attention& op, const DeviceInfo& device) {
    const Problem problem(op);
    // So that flash_mma or flash_wide takes whatever this one takes.
    if (const char* why = problem.narrow_values() ? decline_wide(op, device) : decline(op, device))
        return why;
    if (const char* why = decline_tiles(op, device)) return why;
    if (problem.narrow_values()) {
        if (!kHalf.contains(op.k.dtype)) return "keys and values of this kernel are bf16 or fp16";
        if (problem.head_dim > kWgmmaKeyDim || problem.v_dim > kWgmmaValueDim)
            return "keys have up to 192 columns beside values of up to 128";
        if (problem.ragged || problem.options)
            return "values narrower than keys have no windows, cap or sinks, pages or packed sequences in "
                   "this kernel";
    }
    if (problem.ragged && problem.options)
        return "pages and packed sequences have no windows, cap or sinks in this kernel";
    return nullptr;
}

std::int64_t blocks(const Problem& problem, const WgmmaConfig& config) {
    return attention::blocks(problem, config.rows) * config.splits;
}

int near_heads(const Problem& problem, const DeviceInfo& device) {
    const std::int64_t bytes = problem.stored_bits / 4 * problem.keys * problem.head_dim,
                       all = std::max<std::int64_t>(problem.heads, 1);
    const std::int64_t most =
        std::clamp<std::int64_t>(device.l2_bytes / std::max<std::int64_t>(bytes, 1), 1, all);
    const std::int64_t times = ceil_div(all, most);
    return static_cast<int>(ceil_div(all, times > 1 ? ceil_div(times, 2) * 2 : 1));
}

std::int64_t dealt_blocks(const Problem& problem, const WgmmaConfig& config, const DeviceInfo& device) {
    const std::int64_t all = blocks(problem, config);
    if (problem.window.right != 0 || problem.ragged) return all;
    const std::int64_t near = all / std::max<std::int64_t>(problem.heads, 1) * near_heads(problem, device);
    return near < device.sms ? all : near;
}

// Where rows alone leave multiprocessors idle, several blocks share the keys of the same rows: two of a cluster, or more
// whose results a second kernel merges.
WgmmaConfig choose_wgmma(const Problem& problem, const DeviceInfo& device) {
    WgmmaConfig config{tile_of(problem)};
    config.rows = config.tile.whole_rows(static_cast<int>(problem.group));
    const std::int64_t one = blocks(problem, config), idle = device.sms / std::max<std::int64_t>(one, 1);
    const std::int64_t tiles =
        ceil_div(problem.block_keys(config.rows, config.tile.keys()), config.tile.keys());
    const auto time = [&](std::int64_t splits, double fixed, double a_split) {
        return static_cast<double>(ceil_div(tiles, splits)) * kTileUs + fixed +
               static_cast<double>(splits) * a_split;
    };
    double best = time(1, 0, 0);
    if (idle >= 2 && tiles >= 2 && device.max_cluster >= 2 && problem.sequences == 0) {
        best = time(2, kClusterUs, 0);
        config.splits = 2, config.clustered = true;
    }
    const double written =
        static_cast<double>(problem.heads * problem.rows * problem.head_dim) * 8 / kPartialBytesAUs;
    for (std::int64_t splits = 2; splits <= std::min({idle, tiles, std::int64_t{kMaxSplits}}); ++splits) {
        const double expected = time(splits, kMergeUs, written);
        if (expected >= best) continue;
        best = expected;
        config.splits = static_cast<int>(splits), config.clustered = false;
    }
    if (config.splits > 1 || !three_compute(config.tile.head_dim, config.tile.codes) || problem.options ||
        problem.ragged)
        return config;
    WgmmaConfig of_three{config.tile};
    of_three.tile.warpgroups = 3;
    of_three.rows = of_three.tile.whole_rows(static_cast<int>(problem.group));
    // Causal rows are dealt evenly, and see half of the keys, of their own tokens more than half.
    const bool causal = problem.window.right == 0;
    const auto steps = [&](const WgmmaConfig& c) {
        const double all = static_cast<double>(blocks(problem, c)) / device.sms;
        const double rounds = causal ? std::max(all, 1.0) : std::ceil(all);
        const double seen =
            static_cast<double>(problem.keys) + (causal ? c.rows / static_cast<double>(problem.group) : 0);
        return rounds * c.tile.warpgroups * seen;
    };
    return three_warpgroups(config.tile.head_dim) * steps(of_three) < steps(config) ? of_three : config;
}

std::string to_string(const WgmmaConfig& c) {
    return fmt::format(
        "{}x{} rows and keys of {} columns, {} slots, {}, {} KiB shared", c.rows, c.tile.keys(),
        c.tile.head_dim, c.tile.slots(),
        c.merged() ? fmt::format("{} splits", c.splits) : fmt::format("{} blocks share the keys", c.splits),
        (c.tile.shared_bytes() + 1023) / 1024);
}

}  // namespace weft::attention
