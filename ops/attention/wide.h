// Attention whose rows no other kernel holds: heads of up to 1024 columns, values of another width than keys, fp8. Plain
// C++, for kernels and tests alike.
#pragma once

#include <string>

#include "ops/attention/policy.h"

namespace weft::attention {

// What a block of rows holds: their whole output is in registers, divided among the warps.
struct WideTile {
    int columns = 512;     // of values, at most: compiled
    int stored_bits = 16;  // of keys and values

    static constexpr int kWarps = 8, kThreads = 32 * kWarps;
    static constexpr int kChunk = 128;    // columns of keys or values that an item of the ring brings
    static constexpr int kKeyGroups = 4;  // warps beside each other over a tile's keys, in the first product
    static constexpr int kGroupKeys = kKeys / kKeyGroups;
    static constexpr int kRowHalves = kWarps / kKeyGroups;

    constexpr int row_tiles() const { return columns <= 512 ? 4 : 2; }  // of 16 rows: 128 registers of output
    constexpr int rows() const { return 16 * row_tiles(); }
    constexpr int chunks() const { return columns / kChunk; }
    constexpr int row_bytes() const { return kChunk * stored_bits / 8; }  // of an item
    constexpr int slot_bytes() const { return kKeys * row_bytes(); }
    friend bool operator==(const WideTile&, const WideTile&) = default;
};

struct WideConfig {
    WideTile tile;
    std::int64_t head_dim = 0;
    int slots = 2, splits = 1;

    constexpr int query_chunks() const {
        return static_cast<int>((head_dim + WideTile::kChunk - 1) / WideTile::kChunk);
    }
    constexpr int query_bytes() const { return tile.rows() * query_chunks() * WideTile::kChunk * 2; }
    constexpr int weight_bytes() const { return tile.rows() * kKeys * 2; }
    // Of each row: a maximum a group of keys, the maximum in use, what sums shrink by.
    constexpr int row_floats() const { return tile.rows() * (WideTile::kKeyGroups + 2); }
    constexpr int shared_bytes() const {
        return query_bytes() + slots * tile.slot_bytes() + weight_bytes() + 4 * row_floats();
    }
};

const char* decline_wide(const Attention& op, const DeviceInfo& device);
WideConfig choose_wide(const Problem& problem, const DeviceInfo& device);
std::string to_string(const WideConfig& config);

}  // namespace weft::attention
