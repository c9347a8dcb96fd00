// Attention: the tile of a head dim, and which of them a call gets. Plain C++, for kernels and tests alike.
#pragma once

#include <numeric>
#include <string>

#include "ops/attention/attention.h"
#include "weft/device_info.h"

namespace weft::attention {

inline constexpr int kKeys = 64;         // of a tile
inline constexpr int kBoxColumns = 64;   // that the copy engine brings at once: 128 bytes, the widest swizzle
inline constexpr int kSwizzledRows = 8;  // after so many rows the places of chunks in a box repeat
inline constexpr int kMaxWarps = 8;      // of a block: all 65536 registers at 255 a thread
inline constexpr int kMaxSplits = 32;    // one a lane of the merging warp

// Of a tile of so many keys those that a box brings: of keys in pages a tile's boxes are of one size, and each lies in one page.
inline int box_keys(const Attention& op, int tile_keys) {
    return op.block_table ? static_cast<int>(std::gcd(op.k.dim(1), std::int64_t{tile_keys})) : tile_keys;
}

// What follows from the head dim that a kernel is compiled for.
struct Tile {
    int head_dim = 0;  // padded

    constexpr int row_tiles() const {
        return head_dim <= 128 ? 2 : 1;
    }  // of 16 rows a warp: 128 registers of output
    constexpr int warp_rows() const { return 16 * row_tiles(); }
    constexpr int slots() const { return head_dim <= 128 ? 5 : 3; }  // key or value tiles in flight, a group
    constexpr int chunks() const { return head_dim / 8; }            // of 16 bytes a row
    // Eight rows at one chunk must fall into eight different bank groups: by exclusive or where a row is a
    // multiple of 128 bytes, else by a pad of one chunk, which makes the pitch odd in chunks.
    constexpr bool swizzled() const { return head_dim % 64 == 0; }
    constexpr int pitch() const { return swizzled() ? head_dim : head_dim + 8; }  // elements
    friend bool operator==(const Tile&, const Tile&) = default;
    constexpr int offset(int row, int chunk) const {
        return row * pitch() + (swizzled() ? chunk ^ (row & 7) : chunk) * 8;
    }
    // `from` moved by an even number of chunks and by whole 16 rows. A lane's first offset is computed once;
    // what changes from step to step is a constant, so an ldmatrix costs at most one integer instruction
    // more.
    constexpr int moved(int from, int chunks, int rows) const {
        return (swizzled() ? (from ^ chunks % 8 * 8) + chunks / 8 * 64 : from + chunks * 8) + rows * pitch();
    }
    constexpr int slot() const { return kKeys * pitch(); }  // elements of a tile
    constexpr int merge_floats() const {
        return row_tiles() * (head_dim / 2 + 4);
    }  // of a thread: outputs, m, l
};

// How a call is cut. A block has `groups` groups of `row_warps` warps: every group works on the same
// row_warps * warp_rows query rows, and on keys of its own; `splits` blocks share the keys of those rows.
struct Config {
    Tile tile;
    int row_warps = 1, groups = 1, splits = 1, slots = tile.slots();

    int rows() const { return row_warps * tile.warp_rows(); }
    int threads() const { return 32 * row_warps * groups; }
    int shared_bytes() const { return 2 * (rows() * tile.pitch() + groups * slots * tile.slot()); }
    friend bool operator==(const Config&, const Config&) = default;
};

// The rows that share keys: the query heads of a key head, for every token.
struct Problem {
    std::int64_t heads = 0, rows = 0, keys = 0, head_dim = 0;  // heads: key heads of all batches
    std::int64_t v_dim = 0;                                    // columns of values
    int stored_bits = 16;                                      // of keys and values
    std::int64_t group = 1;                                    // query heads of a key head
    Window window;
    bool options = false;  // has_options
    bool ragged = false;   // keys in pages, or packed sequences: kernels of their own
    // Of packed sequences, of which the heads above are all; rows and keys are then those of one of usual length.
    std::int64_t sequences = 0, all_rows = 0;
    bool narrow_values() const { return v_dim > 0 && v_dim < head_dim; }
    Problem() = default;
    explicit Problem(const Attention& op);
    // Keys in the tiles that a block of so many rows goes through, at most.
    std::int64_t block_keys(std::int64_t rows, std::int64_t tile) const;
    friend bool operator==(const Problem&, const Problem&) = default;
};

// Whether a call needs kernels with options: more than causality and masks of keys.
bool has_options(const Attention& op);
// What no kernel on tensor cores takes; what flash_mma does not.
const char* decline_tensor_cores(const Attention& op, const DeviceInfo& device);
const char* decline(const Attention& op, const DeviceInfo& device);
// What the copy engine cannot bring of a call that `decline` takes: keys and values in boxes, from 16-byte chunks.
const char* decline_boxes(const Attention& op, const DeviceInfo& device);
Config choose(const Problem& problem, const DeviceInfo& device);
// Blocks of so many rows, over the same keys each.
std::int64_t blocks(const Problem& problem, int rows);
std::int64_t blocks(const Problem& problem, const Config& config);
// Microseconds that `choose` expects of a configuration: for ranking, not for print.
double estimate(const Problem& problem, const Config& config, const DeviceInfo& device);
std::string to_string(const Config& config);

}  // namespace weft::attention
