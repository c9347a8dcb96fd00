// How the kernels would run a grouped_gemm: pure functions of the call and the device, so tests need no GPU.
#pragma once

#include <string>

#include "ops/gemm/policy.h"
#include "ops/grouped_gemm/groups.h"

namespace weft::grouped {

// About how many rows a group has: the caller's word, or what the shape says.
std::int64_t expected_rows(const GroupedGemm& op);
// Numbers of tiles and of their rows and features stay below this, so that sums of two are numbers of 32 bits.
inline constexpr std::int64_t kMostTiles = std::int64_t{1} << 30;
// No more tiles of so many rows, one below the other, than all groups have together.
std::int64_t most_row_tiles(const GroupedGemm& op, std::int64_t height);

// Why not mma.sync; null where it takes the call.
const char* mma_decline(const GroupedGemm& op, const DeviceInfo& device);
// One part along k.
gemm::MmaConfig mma_config(const GroupedGemm& op, const DeviceInfo& device);
std::string to_string(const gemm::MmaConfig& config);

}  // namespace weft::grouped
