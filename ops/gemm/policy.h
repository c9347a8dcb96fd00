// How the mma.sync kernel would run a gemm: a pure function of the call and the device, so tests need no GPU.
#pragma once

#include <string>

#include "ops/gemm/problem.h"
#include "weft/context.h"

namespace weft::gemm {

struct MmaConfig {
    enum class Tile { large, small, flat };  // 128x128, 64x64, 16x64
    Tile tile = Tile::large;
    int splits = 1;           // blocks of a cluster that share a tile along k
    bool transposed = false;  // b is staged as it lies, n contiguous, and transposed by ldmatrix
    bool packed = false;      // b is of four bits
    bool operator==(const MmaConfig&) const = default;
};

MmaConfig mma_config(const Gemm& op, const DeviceInfo& device);
std::string to_string(const MmaConfig& config);

// Clusters of so many blocks, one on a multiprocessor, that the device holds at once: large ones leave multiprocessors of their
// groups idle.
int fitting_clusters(int size, const DeviceInfo& device);

// Why tensor cores do not add these products of int8; null where they do, and of other dtypes.
const char* whole_decline(const Gemm& op);
// Why not mma.sync; null where it takes the call.
const char* mma_decline(const Gemm& op, const DeviceInfo& device);

constexpr std::int64_t tile_rows(MmaConfig::Tile tile) {
    return tile == MmaConfig::Tile::large ? 128 : tile == MmaConfig::Tile::small ? 64 : 16;
}
constexpr std::int64_t tile_columns(MmaConfig::Tile tile) {
    return tile == MmaConfig::Tile::large ? 128 : 64;
}
// Of a tile: gated, half of its columns are up's.
inline std::int64_t out_columns(const Gemm& op, MmaConfig::Tile tile) {
    return op.up ? tile_columns(tile) / 2 : tile_columns(tile);
}
// Dynamic shared memory of a block: 3, 4 or 6 stages of 128-byte rows of both operands.
constexpr std::int64_t shared_bytes(MmaConfig::Tile tile) {
    const int stages = tile == MmaConfig::Tile::large ? 3 : tile == MmaConfig::Tile::small ? 4 : 6;
    return stages * (tile_rows(tile) + tile_columns(tile)) * 128;
}
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
// What the operands are when they are multiplied: codes of four bits as numbers of a's dtype, or of bf16.
inline DType multiplied_as(const Gemm& op) {
    return op.a.dtype == DType::fp4_e2m1 ? DType::bf16 : op.a.dtype;
}
// Steps of 128 bytes along k.
inline std::int64_t mma_steps(const Gemm& op) { return ceil_div(bytes(multiplied_as(op), op.b.dim(1)), 128); }

}  // namespace weft::gemm
