// gemm on wgmma: the tile, and how a call is cut. Plain C++, for kernels and tests alike.
#pragma once

#include <string>

#include "ops/gemm/policy.h"

namespace weft::gemm {

// What follows from the width that a kernel is compiled for: 256 or 128 columns of sums. Gated, half of them
// are the gate's and half are up's, of the same columns of out.
struct WgmmaTile {
    int columns = 0;

    static constexpr int kRows = 128;
    static constexpr int kWarpgroups = 2;                     // that compute, 64 rows each
    static constexpr int kThreads = 128 * (kWarpgroups + 1);  // and one that loads
    static constexpr int kRowBytes = 128;                     // of k in a stage: the widest swizzle
    static constexpr int kStages = 4;
    // What a warp's results pass through on their way out: two pieces of 16 rows.
    static constexpr int kPieceBytes = 16 * kRowBytes;
    static constexpr int kOutBytes = kWarpgroups * 4 * 2 * kPieceBytes;

    constexpr int half() const { return columns / 2; }  // columns that come as one box
    constexpr int out_columns(bool gated) const { return gated ? half() : columns; }
    constexpr int a_bytes() const { return kRows * kRowBytes; }
    constexpr int half_bytes() const { return half() * kRowBytes; }
    constexpr int stage_bytes() const { return a_bytes() + 2 * half_bytes(); }
    // 1024: the array may begin at any multiple of 16, its stages may not.
    constexpr int shared_bytes() const {
        return 1024 + kStages * stage_bytes() + kOutBytes + 2 * 8 * kStages;
    }
    friend bool operator==(const WgmmaTile&, const WgmmaTile&) = default;
};

struct WgmmaConfig {
    WgmmaTile tile;
    int cluster = 1;  // blocks, one row of tiles below the other, that share their panels of b
};

// Why not wgmma; null where it takes the call.
const char* wgmma_decline(const Gemm& op, const DeviceInfo& device);
WgmmaConfig wgmma_config(const Gemm& op, const DeviceInfo& device);
// Rows of tiles and columns of tiles, in tiles of a whole cluster.
struct WgmmaTiles {
    std::int64_t rows = 0, columns = 0;
    std::int64_t count() const { return rows * columns; }
};
WgmmaTiles wgmma_tiles(const Gemm& op, const WgmmaConfig& config);
// Clusters that run: no more than the device holds at once, each with every so many-th tile.
std::int64_t wgmma_clusters(const Gemm& op, const WgmmaConfig& config, const DeviceInfo& device);
std::string to_string(const WgmmaConfig& config);

}  // namespace weft::gemm
