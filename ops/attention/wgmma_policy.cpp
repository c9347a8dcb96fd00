// Attention on wgmma: which calls it takes, and how they are cut.
#include <fmt/format.h>

#include <algorithm>

#include "ops/attention/wgmma.h"

namespace weft::attention {
namespace {

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

// Two blocks for the rows of one where that still is a single wave: each streams half of the keys.
WgmmaConfig choose_wgmma(const Problem& problem, const DeviceInfo& device) {
    WgmmaConfig config{tile_of(problem)};
    config.rows = config.tile.whole_rows(static_cast<int>(problem.group));
    const bool idle = 2 * blocks(problem, config) <= device.sms;
    const std::int64_t keys = problem.block_keys(config.rows, config.tile.keys());
    if (idle && device.max_cluster >= 2 && keys > config.tile.keys()) config.splits = 2;
    return config;
}

std::string to_string(const WgmmaConfig& c) {
    return fmt::format("{}x{} rows and keys of {} columns, {} slots, {} blocks share the keys, {} KiB shared",
                       c.rows, c.tile.keys(), c.tile.head_dim, c.tile.slots(), c.splits,
                       (c.tile.shared_bytes() + 1023) / 1024);
}

}  // namespace weft::attention
