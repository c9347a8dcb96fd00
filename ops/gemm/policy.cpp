// The mma.sync kernel's configuration policy.
#include "ops/gemm/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/gemm/wgmma.h"

namespace weft::gemm {

int fitting_clusters(int size, const DeviceInfo& device) {
    return size <= 2 ? std::max(1, device.sms / size) : device.sms * 10 / (size == 4 ? 11 : 12) / size;
}

namespace {

using Tile = MmaConfig::Tile;

std::int64_t tiles(const Gemm& op, Tile tile) {
    const Problem p = problem(op);
    return ceil_div(p.m, tile_rows(tile)) * ceil_div(p.n, out_columns(op, tile));
}

// What a tile's blocks take, in the time of a step of a lone 64x64 tile, fitted to an H200: `fixed` to begin and to make results
// of sums, `step` for a step while nothing else runs on the multiprocessor, `busy` for one where other blocks keep it busy.
// `blocks`: that one holds, where its shared memory suffices.
struct TileTimes {
    double fixed, step, busy;
    int blocks;
};
constexpr TileTimes times_of(Tile tile) {
    switch (tile) {
        case Tile::large: return {12, 1.63, 1.63, 1};
        case Tile::small: return {8.5, 1, 0.56, 3};
        default: return {6.2, 0.54, 0.3, 3};
    }
}
std::int64_t blocks_held(Tile tile, const DeviceInfo& device) {
    const std::int64_t of_shared = device.shared_per_sm / (shared_bytes(tile) + 1024);
    return std::clamp<std::int64_t>(of_shared, 1, times_of(tile).blocks);
}

// Relative time.
double cost(const Gemm& op, const MmaConfig& config, const DeviceInfo& device) {
    const TileTimes times = times_of(config.tile);
    const std::int64_t blocks = tiles(op, config.tile) * config.splits;
    const auto rounds = static_cast<double>(ceil_div(blocks, device.sms * blocks_held(config.tile, device)));
    const auto on_one = static_cast<double>(ceil_div(blocks, device.sms));
    const auto steps = static_cast<double>(ceil_div(mma_steps(op), config.splits));
    return rounds * times.fixed + steps * std::max(rounds * times.step, on_one * times.busy);
}

// Blocks that share a tile along k have two steps each, and all clusters run at once. (Of the emulator's few multiprocessors
// one cluster always does.)
bool splits_well(const Gemm& op, const MmaConfig& config, const DeviceInfo& device) {
    return config.splits <= device.max_cluster && mma_steps(op) >= 2 * config.splits &&
           tiles(op, config.tile) <=
               std::max(1, fitting_clusters(config.splits, device)) * blocks_held(config.tile, device);
}

bool scales_are(const Gemm& op, DType dtype) { return scales_of_b(op).groups.dtype == dtype; }

}  // namespace

MmaConfig mma_config(const Gemm& op, const DeviceInfo& device) {
    const Problem p = problem(op);
    MmaConfig config;
    config.packed = op.packed();
    config.transposed = bits(op.b.dtype) == 16 && is_nn(p.b) && (!op.up || is_nn(p.up));
    double least = std::numeric_limits<double>::infinity();
    MmaConfig best;
    for (const Tile tile : {Tile::large, Tile::small, Tile::flat}) {
        if (tile == Tile::large && op.scaled_within()) continue;
        // Each tile of tokens unpacks its codes anew.
        if (op.packed() && (tile == Tile::flat) != (p.m <= tile_rows(Tile::flat))) continue;
        for (const int splits : {1, 2, 4, 8}) {
            config.tile = tile, config.splits = splits;
            if (splits > 1 && !splits_well(op, config, device)) break;
            const double time = cost(op, config, device);
            if (time < least) best = config, least = time;
        }
    }
    return best;
}

std::string to_string(const MmaConfig& config) {
    return fmt::format("{}x{}{}{}", tile_rows(config.tile), tile_columns(config.tile),
                       config.packed       ? " packed"
                       : config.transposed ? " nn"
                                           : " tn",
                       config.splits > 1 ? fmt::format(" split {}", config.splits) : "");
}

const char* whole_decline(const Gemm& op) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / (128 * 128);
    return op.a.dtype == DType::int8 && op.b.dim(1) > kMost
               ? "sums of so many products of int8 may be beyond 2^31"
               : nullptr;
}

const char* mma_decline(const Gemm& op, const DeviceInfo& device) {
    if (op.a.dtype == DType::fp32) return "fp32 operands: the tensor cores would round them";
    if (device.arch < 80) return "mma.sync of bf16 needs SM 8.0";
    if (op.packed() && op.a.dtype == DType::fp16) {
        if (scales_are(op, DType::ue8m0)) return "fp16 does not hold every code times a scale of MX";
        if (op.whole_codes() && !scales_are(op, DType::fp16))
            return "fp16 does not hold every scale of bf16 or fp32";
    }
    if (!is_fp8(op.a.dtype)) return whole_decline(op);
    if (device.arch < 89) return "mma.sync of fp8 needs SM 8.9";
    if (op.a.dtype != DType::fp8_e4m3 || op.b.dtype != DType::fp8_e4m3)
        return "of the fp8 pairs it takes e4m3 by e4m3";
    return nullptr;
}

}  // namespace weft::gemm
