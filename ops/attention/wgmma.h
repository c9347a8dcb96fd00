// Attention on wgmma: the tile of a head dim, and how a call is cut. Plain C++, for kernels and tests alike.
#pragma once

#include <string>

#include "ops/attention/policy.h"

namespace weft::attention {

// The head dims that kernels are compiled for: a call takes the next that holds its own, and the copy engine fills the
// columns between them with zeros.
inline constexpr int kWgmmaHeadDims[] = {64, 80, 96, 128, 192, 256};
// Those of which three warpgroups compute, too; at 96 they gain nothing, and of codes at 128 have too few registers.
constexpr bool three_compute(int head_dim, bool codes) {
    return head_dim <= 80 || (head_dim == 128 && !codes);
}
inline constexpr int kWgmmaOptionHeadDims[] = {64, 128, 256};      // with windows, a cap or sinks
inline constexpr int kWgmmaRaggedHeadDims[] = {64, 80, 128, 256};  // of pages and packed sequences
// Keys of up to so many columns whose values have up to so many (DeepSeek's), with none of these.
inline constexpr int kWgmmaKeyDim = 192, kWgmmaValueDim = 128;
// Where queries, keys and values are codes of fp8, which are multiplied as such.
inline constexpr int kWgmmaCodeHeadDims[] = {64, 128};

// What follows from the head dim that a kernel is compiled for.
struct WgmmaTile {
    int head_dim = 0;
    int warpgroups = 2;  // that compute, 64 rows each
    int value_dim = 0;   // where values are narrower than keys
    bool codes = false;  // of fp8; values come transposed, as the instruction wants its operands: see fp8.cuh

    constexpr int v_dim() const { return value_dim > 0 ? value_dim : head_dim; }

    // That the copy engine brings at once: 128 bytes.
    constexpr int box_columns() const { return codes ? 2 * kBoxColumns : kBoxColumns; }

    constexpr int threads() const { return 128 * (warpgroups + 1); }  // one warpgroup loads
    // Registers of a thread: at the launch, and as the loading warpgroup leaves them to the others.
    constexpr int launch_registers() const { return 512 / (warpgroups + 1) / 8 * 8; }
    static constexpr int loader_registers() { return 24; }
    constexpr int registers() const {
        return (launch_registers() * (warpgroups + 1) - loader_registers()) / warpgroups / 8 * 8;
    }
    constexpr bool short_of_registers() const { return head_dim > 128; }
    constexpr int rows() const { return 64 * warpgroups; }
    // Of whole tokens: a box of queries is `group` heads of some tokens.
    constexpr int whole_rows(int group) const { return rows() / group * group; }
    // Scores in 64 registers beside few of output, in 48, 40 or 32 beside more; five slots of them must fit.
    constexpr int keys() const {
        if (codes) return warpgroups > 2 ? 96 : 128;
        if (warpgroups > 2) return head_dim <= 64 ? 128 : head_dim <= 80 ? 96 : 80;
        if (value_dim > 0) return 128;
        return head_dim <= 128 ? 128 : head_dim <= 192 ? 80 : 64;
    }
    constexpr int slots() const { return value_dim > 0 ? 4 : 5; }  // key or value tiles in flight
    constexpr int boxes() const { return (head_dim + box_columns() - 1) / box_columns(); }
    constexpr int value_boxes() const { return (v_dim() + box_columns() - 1) / box_columns(); }
    constexpr int box_bytes() const { return keys() * 128; }
    // Transposed values: a column's 128 keys from the tile's first on, of which those beyond its last count for nothing.
    constexpr bool transposed_values() const { return codes; }
    constexpr int transposed_bytes() const { return v_dim() * 128; }
    constexpr int slot_bytes() const {
        const int of_keys = boxes() * box_bytes();
        return transposed_values() && transposed_bytes() > of_keys ? transposed_bytes() : of_keys;
    }
    // Values that are narrower than keys have slots of their own, every other one.
    constexpr int slot_offset(int slot) const {
        return value_dim == 0 ? slot * slot_bytes()
                              : slot / 2 * (boxes() + value_boxes()) * box_bytes() + slot % 2 * slot_bytes();
    }
    constexpr int ring_bytes() const { return slot_offset(slots()); }
    constexpr int query_box_bytes() const { return rows() * 128; }
    constexpr int query_bytes() const { return boxes() * query_box_bytes(); }
    // Two where they fit: the next rows' queries arrive while the last are multiplied and stored.
    constexpr int query_buffers() const { return head_dim <= 128 ? 2 : 1; }
    // What a warpgroup hands to another block: its sums in one slot after another; maximum and sum of two rows in 16 bytes.
    constexpr int handed_bytes() const { return 64 * v_dim() * 4; }
    constexpr int handed_slots() const { return (handed_bytes() + slot_bytes() - 1) / slot_bytes(); }
    static constexpr int kHandedRowBytes = 64 * 8;
    constexpr int barriers() const { return 3 * slots() + 2 * query_buffers() + 1; }
    // 1024: the array may begin at any multiple of 16, its tiles may not.
    constexpr int shared_bytes() const {
        return 1024 + query_buffers() * query_bytes() + ring_bytes() + kHandedRowBytes + 8 * barriers();
    }
    friend bool operator==(const WgmmaTile&, const WgmmaTile&) = default;
};

struct WgmmaConfig {
    WgmmaTile tile;  // of three warpgroups where that is quicker: see wgmma_policy.cpp
    int splits = 1;  // blocks that have the same rows and divide the key tiles:
    bool clustered =
        false;  // two of a cluster, which merge their sums themselves, or any, whose results are merged
    int rows = tile.rows();  // of a block that are used

    bool merged() const { return splits > 1 && !clustered; }
};

// What neither of the kernels takes whose tiles these are, in 16 bits and in codes.
const char* decline_tiles(const Attention& op, const DeviceInfo& device);
const char* decline_wgmma(const Attention& op, const DeviceInfo& device);
WgmmaConfig choose_wgmma(const Problem& problem, const DeviceInfo& device);
std::int64_t blocks(const Problem& problem, const WgmmaConfig& config);
// So many key heads, at least one, whose keys and values fill no more than the L2 cache, and of which there are as many such
// one way round as the other (for_each_block).
int near_heads(const Problem& problem, const DeviceInfo& device);
// So many blocks are dealt at a time (for_each_block): those of near heads where they go round, else all.
std::int64_t dealt_blocks(const Problem& problem, const WgmmaConfig& config, const DeviceInfo& device);
std::string to_string(const WgmmaConfig& config);

}  // namespace weft::attention
