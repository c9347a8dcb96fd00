// Attention of few rows of queries over many keys: what a block takes, and how a call is cut. Plain C++, for kernels and
// tests alike.
#pragma once

#include <algorithm>
#include <string>

#include "ops/attention/policy.h"

namespace weft::attention {

// The head dims that kernels are compiled for: a call takes the next that holds its own, and the copy engine fills the
// columns between them with zeros.
inline constexpr int kDecodeHeadDims[] = {64, 128, 256};  // of codes of fp8 from 128 on: a box of theirs

// What follows from the head dim that a kernel is compiled for.
struct DecodeTile {
    int head_dim = 0;
    int stored_bits = 16;  // of keys and values

    static constexpr int kWarps = 8;  // that compute; one more brings keys and values
    static constexpr int kThreads = 32 * (kWarps + 1);
    static constexpr int kRows = 16;      // of queries: those of an instruction
    static constexpr int kWarpKeys = 16;  // of a tile
    static constexpr int kBlocks = 8;     // of a cluster, at most: of larger ones few run at once

    static constexpr int keys() { return kWarps * kWarpKeys; }  // of a tile
    constexpr int box_columns() const { return 1024 / stored_bits; }
    constexpr int boxes() const { return head_dim / box_columns(); }
    constexpr int value_boxes() const { return boxes(); }
    static constexpr bool transposed_values() { return false; }
    static constexpr int box_bytes() { return keys() * 128; }
    constexpr int slot_bytes() const { return boxes() * box_bytes(); }
    constexpr int slot_offset(int slot) const { return slot * slot_bytes(); }
    // Queries, and a factor of each row.
    constexpr int query_bytes() const { return kRows * (head_dim * 2 + 4); }

    // What a warp knows of some rows, in floats: their sums, a maximum and a sum of weights of each. Warps park theirs to add
    // them up: a block that goes on with other rows beside the ring, of eight rows at a time, another one where the ring was.
    static constexpr int kFewParked = 8;
    constexpr int pitch() const { return head_dim + 4; }
    constexpr int parked_floats(int rows) const { return rows * (pitch() + 2); }
    // What the blocks of a cluster send each other: four sums, a maximum and a sum of weights.
    static constexpr int kSentBytes = 24;
    constexpr int sent_bytes() const { return (kRows * head_dim / 4 + kBlocks) * kSentBytes; }
    // Whether blocks go on with other rows: of 16 bits that gains nothing, and long rows leave no registers for it.
    constexpr bool goes_on() const { return stored_bits == 8 && head_dim <= 128; }
    // A block has the one or the other.
    constexpr int sum_bytes() const {
        return std::max(goes_on() ? kWarps * parked_floats(kFewParked) * 4 : 0, sent_bytes());
    }
    // 1024: the array may begin at any multiple of 16, its tiles may not.
    static constexpr int kShared = 227 * 1024, kSpare = 1024;
    // Key or value tiles in flight: as many as there is room for; more than twelve gain nothing.
    constexpr int slots() const {
        return std::min(12, (kShared - kSpare - query_bytes() - sum_bytes()) / (slot_bytes() + 16));
    }
    constexpr int shared_bytes() const {
        return kSpare + slots() * slot_bytes() + query_bytes() + sum_bytes() + 16 * slots();
    }
    friend bool operator==(const DecodeTile&, const DecodeTile&) = default;
};

struct DecodeConfig {
    DecodeTile tile;
    int splits = 1;  // blocks that have the same rows and divide the key tiles:
    bool clustered =
        false;  // those of a cluster, which merge their sums themselves, or any, whose results are merged

    bool merged() const { return splits > 1 && !clustered; }
};

const char* decline_decode(const Attention& op, const DeviceInfo& device);
DecodeConfig choose_decode(const Problem& problem, const DeviceInfo& device);
std::string to_string(const DecodeConfig& config);

}  // namespace weft::attention
