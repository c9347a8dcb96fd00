// gemm of few tokens: how a call is cut. Plain C++, for the kernel and tests alike.
#pragma once

#include <string>

#include "ops/gemm/policy.h"

namespace weft::gemm {

// A warp has 32 rows of weights: 32 features, or gated the gate's and up's of 16. Of a block's eight warps
// `row_warps` have rows of their own; the others, and `splits` blocks of a cluster, share those rows along k.
struct SkinnyConfig {
    int token_tiles = 1;  // of eight tokens: 1 or 2
    int row_warps = 1;
    int splits = 1;

    static constexpr int kWarps = 8, kWarpRows = 32;
    static constexpr int kBlocks = 2;  // that a multiprocessor holds at once
    static constexpr int kMostTokens = 16;

    // Of a row: what a warp asks for before it waits, as much as registers hold.
    static constexpr int chunk_bytes(int token_tiles) { return token_tiles == 1 ? 256 : 128; }
    // The same of codes, which are 512 bytes of a token.
    static constexpr int packed_chunk_bytes() { return 128; }
    constexpr int sharers() const { return kWarps / row_warps; }  // warps of a block with the same rows
    constexpr int k_parts() const { return sharers() * splits; }
    // Sums are parked by token; four more floats keep the tokens of a fragment off each other's banks.
    constexpr int parked_stride() const { return row_warps * kWarpRows + 4; }
    constexpr int parked_floats() const { return sharers() * token_tiles * 8 * parked_stride(); }
    bool operator==(const SkinnyConfig&) const = default;
};

// Features of a block.
inline int skinny_features(const Gemm& op, const SkinnyConfig& config) {
    return config.row_warps * SkinnyConfig::kWarpRows / (op.up ? 2 : 1);
}

// Why not this kernel; null where it takes the call.
const char* skinny_decline(const Gemm& op, const DeviceInfo& device);
SkinnyConfig skinny_config(const Gemm& op, const DeviceInfo& device);
std::string to_string(const SkinnyConfig& config);

}  // namespace weft::gemm
