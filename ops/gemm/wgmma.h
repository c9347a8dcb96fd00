// gemm on wgmma: the tile, and how a call is cut. Plain C++, for kernels and tests alike.
#pragma once

#include <algorithm>
#include <string>

#include "ops/gemm/policy.h"

namespace weft::gemm {

// What a kernel is compiled for, and what follows from it. A tile's rows are features (columns of out, rows of the
// weights) and its columns tokens (rows of a and of out), of which wgmma takes any multiple of eight: 968 tokens are
// four times 248, where rows come in steps of 128. Or its rows are 128 tokens and its columns rows of weights: a thread
// then has sums of two tokens alone, whose scales it can hold. Gated, groups of eight features are the gate's and up's in
// turn.
struct WgmmaTile {
    int tokens = 0;
    bool gated = false;
    bool scaled = false;     // scales change within the sum, with every stage
    int weight_columns = 0;  // rows of weights that are its columns, where its rows are tokens
    bool across = false;     // weights have n contiguous: in a stage a row is one k of 64 features

    static constexpr int kRows = 128;
    static constexpr int kWarpgroups = 2;                     // that compute, 64 rows each
    static constexpr int kThreads = 128 * (kWarpgroups + 1);  // and one that loads
    static constexpr int kRowBytes = 128;                     // of k in a stage: the widest swizzle
    static constexpr int kMostShared = 227 * 1024;            // of a block

    // A tile that is for calls of no more tokens: it has to have enough of the weights on their way. There is none for
    // pairs with e5m2, which weights and activations seldom are; nor one whose groups have scales. Of int8 the instruction
    // takes columns by sixteens.
    static constexpr int kFewTokens = 16;
    constexpr bool takes(DType a, DType b) const {
        if (a == DType::int8) return !scaled && columns() % 16 == 0;
        return (tokens > kFewTokens && !scaled) || (a != DType::fp8_e5m2 && b != DType::fp8_e5m2);
    }

    constexpr bool by_tokens() const { return weight_columns > 0; }
    // Rows of them, gated those of both.
    constexpr int weights() const { return by_tokens() ? weight_columns : kRows; }
    constexpr int columns() const { return by_tokens() ? weights() : tokens; }
    constexpr int sums() const { return columns() / 2; }  // of a thread
    // Whose products a thread holds beside its sums at first, where they are promoted; then those of the rest. (In the
    // other order ptxas spills those of 248.)
    constexpr int promoted_columns() const { return columns() > 176 ? columns() - 128 : columns(); }
    constexpr int results() const { return gated ? sums() / 2 : sums(); }
    constexpr int features() const { return gated ? weights() / 2 : weights(); }
    constexpr int warpgroup_features() const { return by_tokens() ? features() : features() / kWarpgroups; }
    constexpr int warpgroup_tokens() const { return by_tokens() ? tokens / kWarpgroups : tokens; }
    // Columns that each of the blocks of a cluster loads for both: whole groups of eight, the first no fewer.
    constexpr int loaded_columns(int cluster, int rank) const {
        const int first = cluster == 1 ? columns() : (columns() / 2 + 7) / 8 * 8;
        return rank == 0 ? first : columns() - first;
    }
    constexpr int weight_bytes() const { return weights() * kRowBytes; }
    constexpr int stage_bytes() const { return weight_bytes() + tokens * kRowBytes; }
    // A stage's scales: of its tokens, then of two blocks of weights: b's and up's, or one after the other.
    constexpr int scale_bytes() const { return scaled ? (tokens + 4) * 4 : 0; }
    // A warpgroup's results of 16 bits on their way out, or its residuals on their way in.
    constexpr int staged_bytes() const { return warpgroup_tokens() * warpgroup_features() * 2; }
    // They lie in panels of rows of so many bytes, a row a token, of `element` bytes each.
    constexpr int panel_row_bytes(int element) const { return std::min(warpgroup_features() * element, 128); }
    constexpr int panels(int element) const {
        return warpgroup_features() * element / panel_row_bytes(element);
    }
    // Tokens whose rows of floats the same place holds.
    constexpr int row_tokens() const { return tokens / 2 / 8 * 8; }
    constexpr int stages() const {
        return std::min(tokens <= kFewTokens ? 12 : 8, (kMostShared - kSpare - kWarpgroups * staged_bytes()) /
                                                           (stage_bytes() + scale_bytes() + 2 * 8));
    }
    constexpr int shared_bytes() const {
        return kSpare + stages() * (stage_bytes() + scale_bytes() + 2 * 8) + kWarpgroups * staged_bytes();
    }
    // Whether blocks of a cluster may share it along k. Their sums then meet as floats, [tokens][128 and 4], where the
    // ring was.
    constexpr bool splittable() const { return tokens <= 128 && weights() == kRows; }
    static constexpr int kParkedStride = kRows + 4;
    friend bool operator==(const WgmmaTile&, const WgmmaTile&) = default;

   private:
    // The array may begin at any multiple of 16, its stages at multiples of 1024; and a barrier a warpgroup.
    static constexpr int kSpare = 1024 + 8 * kWarpgroups;
};

// The tiles that kernels are compiled for; of those of a kind, wide ones first.
inline constexpr WgmmaTile kWgmmaTiles[] = {{256, true},
                                            {248, true},
                                            {128, true},
                                            {64, true},
                                            {16, true},
                                            {256, false},
                                            {176, false},
                                            {128, false},
                                            {64, false},
                                            {16, false},
                                            {128, true, true, 256},
                                            {128, true, true, 128},
                                            {64, true, true},
                                            {16, true, true},
                                            {128, false, true, 256},
                                            {128, false, true, 128},
                                            {64, false, true},
                                            {16, false, true}};

struct WgmmaConfig {
    WgmmaTile tile;
    int cluster = 1;        // blocks, of neighbouring rows, that share the panels of their columns: 1 or 2
    int splits = 1;         // blocks that share a tile along k; such clusters have one tile each
    bool promoted = false;  // fp8's products are summed in fp32, not in the tensor cores' short accumulator
};

// Whether the copy engine brings the residual, as rows of 16 bits to where results of 16 bits leave.
bool wgmma_carries(const Gemm& op, const Problem& p);
// Whether it takes results; else a warp stores them.
bool wgmma_copies(const Gemm& op, const Problem& p);
// Tokens, one after another, that share their row of the gate.
std::int64_t gate_run(const Gemm& op);

// Why not wgmma; null where it takes the call.
const char* wgmma_decline(const Gemm& op, const DeviceInfo& device);
WgmmaConfig wgmma_config(const Gemm& op, const DeviceInfo& device);
// In tiles of a whole cluster.
struct WgmmaTiles {
    std::int64_t tokens = 0, features = 0;
    std::int64_t count() const { return tokens * features; }
};
WgmmaTiles wgmma_tiles(const Gemm& op, const WgmmaConfig& config);
// Clusters that run: no more than the device holds at once, each with every so many-th tile.
std::int64_t wgmma_clusters(const Gemm& op, const WgmmaConfig& config, const DeviceInfo& device);
std::string to_string(const WgmmaConfig& config);

}  // namespace weft::gemm
