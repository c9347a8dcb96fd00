// gemm on wgmma: the tile, and how a call is cut. Plain C++, for kernels and tests alike.
#pragma once

#include <string>

#include "ops/gemm/policy.h"

namespace weft::gemm {

// What a kernel is compiled for, and what follows from it: columns of sums, and stages of the ring. Gated,
// half of the columns are the gate's and half are up's, of the same columns of out.
struct WgmmaTile {
    int columns = 0, stages = 0;

    static constexpr int kRows = 128;
    static constexpr int kWarpgroups = 2;                     // that compute, 64 rows each
    static constexpr int kThreads = 128 * (kWarpgroups + 1);  // and one that loads
    static constexpr int kRowBytes = 128;                     // of k in a stage: the widest swizzle
    static constexpr int kPieceBytes = 16 * kRowBytes;        // 16 rows of a warp's results, on their way out
    static constexpr int kMostShared = 227 * 1024;            // of a block

    constexpr int out_columns(bool gated) const { return gated ? columns / 2 : columns; }
    // A stage of b comes as boxes: one from each block that shares it, and gated, from both matrices.
    static constexpr int boxes(int cluster) { return cluster > 2 ? cluster : 2; }
    constexpr int box_rows(int cluster) const { return columns / boxes(cluster); }
    constexpr int a_bytes() const { return kRows * kRowBytes; }
    constexpr int stage_bytes() const { return a_bytes() + columns * kRowBytes; }
    // Where each warp's results pass through: two pieces that take turns where they fit beside the ring.
    constexpr int pieces() const { return shared_bytes(2) <= kMostShared ? 2 : 1; }
    constexpr int out_bytes(int pieces) const { return kWarpgroups * 4 * pieces * kPieceBytes; }
    constexpr int shared_bytes() const { return shared_bytes(pieces()); }
    // 1024: the array may begin at any multiple of 16, its stages may not.
    constexpr int shared_bytes(int pieces) const {
        return 1024 + stages * (stage_bytes() + 2 * 8) + out_bytes(pieces);
    }
    friend bool operator==(const WgmmaTile&, const WgmmaTile&) = default;
};

// The tile of 256, 192 or 128 columns. Shared memory would hold six stages of the last.
constexpr WgmmaTile wgmma_tile(int columns) { return {columns, columns == 192 ? 5 : 4}; }

struct WgmmaConfig {
    WgmmaTile tile;
    int cluster = 1;  // blocks, one row of tiles below the other, that share their panels of b: 1, 2 or 4
    // By how many stages the second warpgroup lags behind the first, so that the results of one are finished
    // under the products of the other. But a stage is free only when both have left it: where a stage is
    // multiplied in c cycles, (stages - 1.5 - lag) c are left for a load to arrive.
    int lag = 1;
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
