// What qk_norm_rope's kernels are told.
#pragma once

#include "kit/rotary.cuh"
#include "ops/qk_norm_rope/qk_norm_rope.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Heads of one tensor: where they lie, by batch, token and head.
struct HeadsAt {
    void* data;  // null: not there
    std::int64_t batch, token, head;
};
struct CacheAt {
    void* data;  // null: not there
    DType dtype;
    std::int64_t page, row, head;
    const float* scale;  // null: 1
    std::int64_t scale_step;
};
struct WeightAt {
    const void* data;  // null: 1
    DType dtype;
    std::int64_t head;
    bool aligned;
};
// A number for each token.
struct IndexAt {
    const void* data;
    bool wide;
    std::int64_t batch, token;
};

inline constexpr int kHeadThreads = 384;
// A thread has registers for as many threads as two such blocks have; units of fp32 take more.
template <class T>
inline constexpr int kHeadBlocks = sizeof(T) == 2 ? 2 : 1;

inline constexpr int kMorePairs = 128;  // frequencies beyond those that a kit::Rotation holds

using NormOver = QkNormRope::Norm;

// How kernel_warps.cuh shares a token.
struct TokenWarps {
    kit::Divisor token;                   // its warps
    unsigned before_k = 0, before_v = 0;  // of these
    unsigned units = 0;                   // of each lane, at most
};

struct QkNormRopeParams {
    HeadsAt in[3], out[3];  // Q, K, V
    CacheAt cache[2];       // K, V
    WeightAt weight[2];     // Q, K
    IndexAt position[3], slots;
    HeadsAt table[2];  // cosines and sines of each head, instead of angles that all heads of a token share
    DType table_dtype;
    bool tables_aligned, tables_held;  // by whole vectors; as kernel_token.cuh holds them
    std::int64_t page_size, cache_rows;
    const float* frequencies;  // null: the launch's
    unsigned tokens, heads_before_k, heads_before_v;
    kit::Divisor sequence, heads, pairs, head_units, page;  // page: of fewer than 2^31 rows
    unsigned lanes_log2, rounds;                            // lanes of a head, and units of each lane
    unsigned block_tokens;                                  // a power of two
    int turn_stride;                                        // pairs, padded to whole units
    NormOver norm;
    float eps, weight_offset, counts[2];  // elements that Q's and K's mean is of
    std::int64_t prefix, start;
    int section2, section3;
    bool alternate;
    Rounding rounding;  // not fused: kernel_steps.cuh
    bool wide_tables, addcmul;
    float factors[2];  // over counts, as PyTorch computes them
    bool keep;         // L2 keeps Q and K after all else (kit::L2Policy)
    bool few;          // blocks: none before has brought the weights to L2
    TokenWarps warps;
    float more[kMorePairs];
};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
