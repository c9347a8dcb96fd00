// grouped_gemm on wgmma: which calls it takes, and how they are cut. Plain C++, for kernels and tests alike.
#pragma once

#include <string>

#include "ops/gemm/wgmma.h"
#include "ops/grouped_gemm/policy.h"

namespace weft::grouped {

// The widths of tiles that kernels are compiled for, in tokens; each gated or not, with scales within the sum or not.
inline constexpr int kTileTokens[] = {256, 192, 128, 64};
// Of these are compiled, gated or not: where scales change within the sum those of no more than 128 tokens, for a thread has
// the products of a stage in one part. And three with weights of n contiguous, which are neither gated nor scaled.
constexpr bool is_compiled(const gemm::WgmmaTile& tile) {
    return tile.across ? tile.tokens != 192 : !tile.scaled || tile.tokens <= 128;
}

// Why not wgmma; null where it takes the call.
const char* wgmma_decline(const GroupedGemm& op, const DeviceInfo& device);
// Whether the copy engine takes whole tiles of results; else a warp stores them.
bool wgmma_copies(const GroupedGemm& op);
// No tile of it is shared along k.
gemm::WgmmaConfig wgmma_config(const GroupedGemm& op, const DeviceInfo& device);
std::string to_string(const gemm::WgmmaConfig& config);
// Tiles of features, each of a whole cluster.
std::int64_t feature_tiles(const GroupedGemm& op, const gemm::WgmmaConfig& config);
// Clusters that run: no more than the device holds at once, or than there may be tiles.
std::int64_t wgmma_clusters(const GroupedGemm& op, const gemm::WgmmaConfig& config, const DeviceInfo& device);

}  // namespace weft::grouped
