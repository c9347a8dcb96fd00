// Attention: choosing a configuration by a model of what a multiprocessor can do.
#include "ops/attention/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace weft::attention {
namespace {

// Per multiprocessor and cycle, on Hopper; only their ratios matter for the choice.
constexpr double kFlops = 2500;       // mma.sync
constexpr double kSharedBytes = 128;  // ldmatrix
constexpr double kL2Bytes = 24;       // tiles coming in
constexpr double kStepLatency = 700;  // softmax and barriers of a tile, cycles that no other warp shares
constexpr double kAlone = 1.4;        // how much longer products take where no other warp hides the loads
constexpr double kStart = 1500;       // cycles before the first tile arrives
constexpr double kGroupMerge = 500;   // cycles to take over one group's result
constexpr double kSplitMerge = 4500;  // cycles of a second kernel
constexpr double kCyclesPerUs = 1700;
constexpr int kHeadDims[] = {64, 80, 128, 256};  // compiled

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Tile tile_of(std::int64_t head_dim) {
    for (const int compiled : kHeadDims) {
        if (head_dim <= compiled) return {compiled};
    }
    return {kHeadDims[3]};
}

bool whole_chunks(const Tensor& t) {
    const int elements = 128 / bits(t.dtype);
    if (reinterpret_cast<std::uintptr_t>(t.data) % 16 != 0 || t.dim(3) % elements != 0) return false;
    for (int axis = 0; axis < 3; ++axis) {
        if (t.dim(axis) > 1 && (t.stride[axis] <= 0 || t.stride[axis] % elements != 0)) return false;
    }
    return true;
}

}  // namespace

Problem::Problem(const Attention& op)
    : head_dim(op.q.dim(3)),
      v_dim(op.v.dim(3)),
      stored_bits(bits(op.k.dtype)),
      group(op.k.dim(2) == 0 ? 0 : op.q.dim(2) / op.k.dim(2)),
      window(op),
      options(has_options(op)),
      ragged(op.block_table || op.cu_seqlens_q) {
    const Extent extent(op);
    heads = extent.sequences * op.k.dim(2), rows = extent.queries * group, keys = extent.keys;
    if (!op.cu_seqlens_q) return;
    const std::int64_t shares = std::max<std::int64_t>(extent.sequences, 1);
    sequences = extent.sequences, all_rows = rows;
    rows = ceil_div(extent.queries, shares) * group;
    if (op.cu_seqlens_k) keys = ceil_div(keys, shares);
}

std::int64_t Problem::block_keys(std::int64_t block_rows, std::int64_t tile) const {
    if (window.left == Window::kUnlimited) return keys;
    const std::int64_t heads_a_token = std::max<std::int64_t>(group, 1), all = ceil_div(rows, heads_a_token);
    const std::int64_t tokens = ceil_div(std::min(block_rows, rows) - 1, heads_a_token) + 1;
    const std::int64_t from_first =
        std::min(tokens + window.right, all);                    // the last key is the last query's position
    return std::min(keys, window.left + from_first + tile - 1);  // it may begin at a tile's last key
}

bool has_options(const Attention& op) {
    const Window window(op);
    return window.left != Window::kUnlimited || (window.right != 0 && window.right != Window::kUnlimited) ||
           op.softcap > 0 || op.key_limits || op.sinks;
}

const char* decline_tensor_cores(const Attention& op, const DeviceInfo& device) {
    const Problem problem(op);
    const Extent extent(op);
    if (op.q.dtype == DType::fp32) return "these kernels' tensor cores take bf16, fp16 and fp8";
    if (device.arch < 80) return "needs cp.async and bf16 mma.sync (SM 8.0)";
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 2;
    if (extent.queries > kMost || extent.queries * problem.group > kMost || extent.keys > kMost)
        return "more than 2^30 query rows or keys a head";
    if (op.block_table && op.k.dim(0) > kMost) return "more than 2^30 pages";
    for (const Tensor* scale : {&op.q_scale, &op.k_scale, &op.v_scale}) {
        if (*scale && scale->dim(0) > 1 && std::abs(scale->stride[0]) > kMost / scale->dim(0))
            return "scales of heads further than 2^30 elements apart";
    }
    return nullptr;
}

const char* decline(const Attention& op, const DeviceInfo& device) {
    if (const char* why = decline_tensor_cores(op, device)) return why;
    if (!kHalf.contains(op.k.dtype)) return "keys and values of this kernel are bf16 or fp16";
    if (op.v.dim(3) != op.q.dim(3) || op.q.dim(3) > kHeadDims[3])
        return "keys and values of this kernel are alike in width, up to 256 columns";
    const Problem problem(op);
    if (blocks(problem, {.tile = tile_of(problem.head_dim), .splits = kMaxSplits}) >
        std::numeric_limits<std::int32_t>::max()) {
        return "too many tiles of query rows for one grid";
    }
    return nullptr;
}

const char* decline_boxes(const Attention& op, const DeviceInfo& device) {
    if (device.arch < 90) return "the copy engine is of SM 9.0 and newer";
    if (Extent(op).keys == 0) return "there are no keys, and a tensor map has no empty axis";
    if (!whole_chunks(op.q) || !whole_chunks(op.k) || !whole_chunks(op.v))
        return "rows of q, k and v must be whole chunks of 16 bytes, aligned so, with positive strides";
    if (op.block_table && op.k.dim(1) % kSwizzledRows != 0)
        return "pages must hold whole eight keys, which a box brings";
    if (op.k.numel() == 0) return "there are no pages, and a tensor map has no empty axis";
    return nullptr;
}

std::int64_t blocks(const Problem& problem, int rows) {
    if (problem.sequences > 0)
        return problem.heads / problem.sequences * (problem.all_rows / rows + problem.sequences);
    return problem.heads * ceil_div(problem.rows, rows);
}

std::int64_t blocks(const Problem& problem, const Config& config) {
    return blocks(problem, config.rows()) * config.splits;
}

double estimate(const Problem& problem, const Config& config, const DeviceInfo& device) {
    const Tile tile = config.tile;
    const int warps = config.row_warps * config.groups;
    const std::int64_t total = blocks(problem, config);
    const auto fit =
        std::min<std::int64_t>(device.shared_per_sm / (config.shared_bytes() + 1024), kMaxWarps / warps);
    const std::int64_t resident =
        std::clamp<std::int64_t>(ceil_div(total, device.sms), 1, std::max<std::int64_t>(1, fit));
    const auto waves = static_cast<double>(ceil_div(total, device.sms * resident));
    const std::int64_t tiles = ceil_div(problem.block_keys(config.rows(), kKeys), kKeys);
    const auto steps = static_cast<double>(ceil_div(tiles, config.groups * config.splits));

    const double flops = 4.0 * kKeys * tile.warp_rows() * tile.head_dim;  // of a warp's step
    const double shared = 2.0 * tile.head_dim * (tile.warp_rows() + 2 * kKeys);
    const double busy = std::max(flops / kFlops, shared / kSharedBytes);
    const double alone = kAlone * 4 * flops / kFlops + kStepLatency;  // one warp has one of four tensor cores
    const double incoming = 4.0 * kKeys * tile.head_dim / kL2Bytes;
    const double step = std::max({alone, busy * warps * static_cast<double>(resident),
                                  incoming * config.groups * static_cast<double>(resident)});
    double cycles = waves * (steps * step + kStart + (config.groups - 1) * kGroupMerge);
    if (config.splits > 1) {  // written and read as fp32
        const auto floats =
            static_cast<double>(problem.heads * problem.rows * problem.head_dim * config.splits);
        cycles += kSplitMerge + 8 * floats / (kL2Bytes * device.sms);
    }
    return cycles / kCyclesPerUs;
}

Config choose(const Problem& problem, const DeviceInfo& device) {
    Config best{.tile = tile_of(problem.head_dim)};
    const Tile tile = best.tile;
    if (best.shared_bytes() > device.shared_per_block)
        best.slots = 2;  // one tile on its way beside the one in use
    double best_time = std::numeric_limits<double>::infinity();
    for (const int row_warps : {4, 2, 1}) {
        if (row_warps > 1 && (row_warps / 2) * tile.warp_rows() >= problem.rows) continue;
        const std::int64_t keys = problem.block_keys(row_warps * tile.warp_rows(), kKeys);
        const std::int64_t tiles = std::max<std::int64_t>(1, ceil_div(keys, kKeys));
        for (int groups = 1; groups * row_warps <= kMaxWarps && groups <= tiles; groups *= 2) {
            Config config{tile, row_warps, groups, 1, best.slots};
            if (config.shared_bytes() > device.shared_per_block ||
                (groups > 1 && config.slots < tile.slots()))
                break;
            const std::int64_t fill = ceil_div(2 * device.sms, blocks(problem, config) + 1);
            const std::int64_t most = std::min<std::int64_t>({tiles / groups, fill, kMaxSplits});
            for (; config.splits <= std::max<std::int64_t>(1, most); ++config.splits) {
                const double time = estimate(problem, config, device);
                if (time < best_time) best = config, best_time = time;
            }
        }
    }
    return best;
}

std::string to_string(const Config& c) {
    return fmt::format(
        "{}x{} rows and keys of {} columns, {} warps in {} groups, {} splits, {} slots, {} KiB shared",
        c.rows(), kKeys, c.tile.head_dim, c.row_warps * c.groups, c.groups, c.splits, c.slots,
        (c.shared_bytes() + 1023) / 1024);
}

}  // namespace weft::attention
