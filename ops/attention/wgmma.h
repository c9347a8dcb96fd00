// Attention on wgmma: the tile of a head dim, and how a call is cut. Plain C++, for kernels and tests alike.
#pragma once

#include <string>

#include "ops/attention/policy.h"

namespace weft::attention {

// The head dims that kernels are compiled for: a call takes the next that holds its own, and the copy engine fills the
// columns between them with zeros.
inline constexpr int kWgmmaHeadDims[] = {64, 80, 96, 128, 192, 256};
inline constexpr int kWgmmaOptionHeadDims[] = {64, 128, 256};  // with windows, a cap or sinks

// What follows from the head dim that a kernel is compiled for.
struct WgmmaTile {
    int head_dim = 0;

    static constexpr int kWarpgroups = 2;                     // that compute, 64 rows each
    static constexpr int kThreads = 128 * (kWarpgroups + 1);  // and one that loads
    static constexpr int kColumns = 64;                       // of a box: 128 bytes, the widest swizzle

    constexpr int rows() const { return 64 * kWarpgroups; }
    // Of whole tokens: a box of queries is `group` heads of some tokens.
    constexpr int whole_rows(int group) const { return rows() / group * group; }
    // Scores in 64 registers beside few of output, in 40 or 32 beside many; five slots of them must fit.
    constexpr int keys() const { return head_dim <= 128 ? 128 : head_dim <= 192 ? 80 : 64; }
    constexpr int slots() const { return 5; }  // key or value tiles in flight
    constexpr int boxes() const { return (head_dim + kColumns - 1) / kColumns; }
    constexpr int box_bytes() const { return keys() * 128; }
    constexpr int slot_bytes() const { return boxes() * box_bytes(); }
    constexpr int query_box_bytes() const { return rows() * 128; }
    constexpr int query_bytes() const { return boxes() * query_box_bytes(); }
    // What a warpgroup hands to another block: its sums in one slot after another; maximum and sum of two rows in 16 bytes.
    constexpr int handed_bytes() const { return 64 * head_dim * 4; }
    constexpr int handed_slots() const { return (handed_bytes() + slot_bytes() - 1) / slot_bytes(); }
    static constexpr int kHandedRowBytes = 64 * 8;
    constexpr int barriers() const { return 3 * slots() + 2; }
    // 1024: the array may begin at any multiple of 16, its tiles may not.
    constexpr int shared_bytes() const {
        return 1024 + query_bytes() + slots() * slot_bytes() + kHandedRowBytes + 8 * barriers();
    }
    friend bool operator==(const WgmmaTile&, const WgmmaTile&) = default;
};

struct WgmmaConfig {
    WgmmaTile tile;
    int splits = 1;          // 1 or 2 blocks of a cluster: they have the same rows and divide the key tiles
    int rows = tile.rows();  // of a block that are used
};

const char* decline_wgmma(const Attention& op, const DeviceInfo& device);
WgmmaConfig choose_wgmma(const Problem& problem, const DeviceInfo& device);
std::int64_t blocks(const Problem& problem, const WgmmaConfig& config);
std::string to_string(const WgmmaConfig& config);

}  // namespace weft::attention
