// Attention of wide rows: a block's rows in all its warps' registers, divided by columns.
#pragma once

#include "kit/ptx/pdl.cuh"
#include "ops/attention/sequence.cuh"
#include "ops/attention/wide_math.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// The parts of a block's shared memory.
template <class Stored, WideTile kTile>
struct WideShared {
    WideQueries queries;
    Stored* ring;
    uint4* weights;
    float *tops, *maxima, *shrinks;  // of each row: [group of keys], the maximum in use, what sums shrink by

    __device__ explicit WideShared(const AttentionParams& p) {
        const int chunks = WideRing<Stored>::chunks(p.head_dim) * (WideTile::kChunk / 8);
        queries = {kit::dynamic_shared<uint4>(), chunks};
        ring = reinterpret_cast<Stored*>(queries.memory + kTile.rows() * chunks);
        weights = reinterpret_cast<uint4*>(ring + p.slots * kKeys * WideTile::kChunk);
        tops = reinterpret_cast<float*>(weights + kTile.rows() * kKeys / 8);
        maxima = tops + WideTile::kKeyGroups * kTile.rows();
        shrinks = maxima + kTile.rows();
    }
};

template <class T, class Stored, int kRows>
__device__ __forceinline__ void load_queries(const WideQueries& to, const AttentionParams& p,
                                             const AttentionCodes& codes, const AttentionBlock& block,
                                             int first_row) {
    for (int i = static_cast<int>(threadIdx.x); i < kRows * to.pitch; i += WideTile::kThreads) {
        const int row = i / to.pitch, chunk = i % to.pitch;
        const int count = first_row + row < block.rows ? min(p.head_dim - chunk * 8, 8) : 0;
        const std::int64_t at = count > 0 ? block.row_offset(p, p.q_stride, first_row + row) + chunk * 8 : 0;
        const uint4 words = load_query<T>(p, codes, at, count);
        const uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int place = query_word<kCodes<Stored>>(chunk, j);
            reinterpret_cast<uint32_t*>(to.at(row, chunk / 2 * 2 + place / 4))[place % 4] = word[j];
        }
    }
}

// What a warp has: in the first product some rows and 16 keys of a tile, in the second all rows and 16 of every 128 columns.
template <WideTile kTile>
struct WideWarp {
    static constexpr int kScoreTiles = kTile.row_tiles() / WideTile::kRowHalves;
    int warp, first_tile, score_tiles, tiles, key;

    // `rows`: of the block.
    __device__ explicit WideWarp(int rows) : warp(static_cast<int>(threadIdx.x) / 32) {
        tiles =
            rows <= 16 ? 1 : kTile.row_tiles();  // of few rows one alone; else those without rows count along
        first_tile = warp / WideTile::kKeyGroups * kScoreTiles;
        score_tiles = min(kScoreTiles, tiles - first_tile);
        key = warp % WideTile::kKeyGroups * WideTile::kGroupKeys;
    }
    // Row in the block of a score's or a sum's half h.
    __device__ static int row(int tile, int h) {
        return tile * 16 + h * 8 + static_cast<int>(threadIdx.x % 32) / 4;
    }
};

// Scores of keys that a row does not see become -inf.
template <WideTile kTile, int kTiles>
__device__ __forceinline__ void hide_scores(WideScores<kTiles>& s, const WideWarp<kTile>& warp,
                                            const AttentionParams& p, const AttentionBlock& block,
                                            int first_row, int key) {
    const std::uint8_t* mask = block.mask(p);
    const int own = key + warp.key + static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
        const int t = i / 2, h = i % 2;
        if (t >= warp.score_tiles) break;
        const KeyRange seen = block.seen(p, first_row + warp.row(warp.first_tile + t, h));
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const int j = own + n / 2 * 8 + n % 2;
            if (j >= seen.end || j < seen.first || (mask != nullptr && mask[j] == 0))
                s[t][n / 2][2 * h + n % 2] = minus_infinity();
        }
    }
}

// The largest score of each row among a warp's keys, for all warps.
template <WideTile kTile, int kTiles>
__device__ __forceinline__ void find_tops(const WideScores<kTiles>& s, const WideWarp<kTile>& warp,
                                          float* tops) {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
        const int t = i / 2, h = i % 2;
        if (t >= warp.score_tiles) break;
        float most =
            fmaxf(fmaxf(s[t][0][2 * h], s[t][0][2 * h + 1]), fmaxf(s[t][1][2 * h], s[t][1][2 * h + 1]));
        most = fmaxf(most, kit::shuffle_xor(most, 1));
        most = fmaxf(most, kit::shuffle_xor(most, 2));
        if (threadIdx.x % 4 == 0)
            tops[warp.warp % WideTile::kKeyGroups * kTile.rows() + warp.row(warp.first_tile + t, h)] = most;
    }
}

// By one thread a row: whether its maximum has outgrown the one in use, which then follows.
template <WideTile kTile>
__device__ __forceinline__ bool follow_maximum(const float* tops, float& maximum, float& shrink, int row,
                                               float scale_log2) {
    float most = tops[row];
#pragma unroll
    for (int group = 1; group < WideTile::kKeyGroups; ++group)
        most = fmaxf(most, tops[group * kTile.rows() + row]);
    const float m = maximum;
    const bool outgrown = most > m && !((most - m) * scale_log2 <= kAttentionSlack);
    shrink = outgrown ? maximum_shift(m, most, scale_log2) : 1.0f;
    if (outgrown) maximum = most;
    return outgrown;
}

// Weights p = exp2(scale (s - m)) where all warps find them, and their sum in l. The difference comes first: of large
// scores, as codes of e5m2 have, that of two products would be off by more than fp16 holds.
template <class T, WideTile kTile, int kTiles>
__device__ __forceinline__ void weigh(const WideScores<kTiles>& s, float (&l)[kTiles][2],
                                      const WideWarp<kTile>& warp, uint4* weights, const float* maxima,
                                      float scale_log2) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
        const int t = i / 2, h = i % 2, row = warp.row(warp.first_tile + t, h);
        if (t >= warp.score_tiles) break;
        const float m = maxima[row], base = m == minus_infinity() ? 0.0f : m;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const float low = kit::exp2_approximate((s[t][n][2 * h] - base) * scale_log2);
            const float high = kit::exp2_approximate((s[t][n][2 * h + 1] - base) * scale_log2);
            l[t][h] += low + high;
            uint4* to = weights + row * (kKeys / 8) + ((warp.key / 8 + n) ^ (row & 7));
            reinterpret_cast<uint32_t*>(to)[lane % 4] = pack_pair<T>(low, high);
        }
    }
}

// Maxima and sums of weights before the first tile: of nothing, or of the sinks. Call it before a barrier.
template <WideTile kTile, int kTiles>
__device__ __forceinline__ void begin_rows(float (&l)[kTiles][2], float* maxima, const WideWarp<kTile>& warp,
                                           const AttentionParams& p, const AttentionBlock& block,
                                           int first_row) {
    const bool sinks = p.sinks != nullptr && block.split == 0;
    if (const int row = static_cast<int>(threadIdx.x); row < kTile.rows())
        maxima[row] = sinks ? sink_of(p, block, first_row + row).m : minus_infinity();
    if (!sinks || warp.key > 0 || threadIdx.x % 4 != 0) return;
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i)
        l[i / 2][i % 2] = sink_of(p, block, first_row + warp.row(warp.first_tile + i / 2, i % 2)).l;
}

template <WideTile kTile>
using WideSums = float[kTile.chunks()][kTile.row_tiles()][2][4];  // of 16 columns in each chunk of 128

template <WideTile kTile>
__device__ __forceinline__ void shrink_sums(WideSums<kTile>& out, const WideWarp<kTile>& warp,
                                            const float* shrinks) {
#pragma unroll
    for (int i = 0; i < 2 * kTile.row_tiles(); ++i) {
        const int t = i / 2, h = i % 2;
        if (t >= warp.tiles) break;
        const float shrink = shrinks[warp.row(t, h)];
#pragma unroll
        for (auto& chunk : out) {
#pragma unroll
            for (auto& c : chunk[t]) c[2 * h] *= shrink, c[2 * h + 1] *= shrink;
        }
    }
}

// Four columns of a row, of which some may be beyond the last: of out, or of a split's result.
template <class T>
__device__ __forceinline__ void store_four(const AttentionParams& p, const AttentionBlock& block, int row,
                                           int column, const float (&four)[4]) {
    const int count = min(p.v_dim - column, 4);
    if (count <= 0) return;
    const auto store = [&](auto* to, bool aligned) {
        using Element = std::remove_pointer_t<decltype(to)>;
        kit::store_vector(to + column, kit::from_floats<Element>(four), count, aligned);
    };
    p.splits > 1 ? store(p.partial + (block.partial_row(p) + row) * p.v_dim, p.v_dim % 4 == 0)
                 : store(static_cast<T*>(p.out) + block.row_offset(p, p.out_stride, row), p.vector_out);
}

// All columns of a block's rows, 128 at a time through shared memory, where queries and keys were: whole lines are stored
// then. `inverses`: what each row is multiplied by.
template <class T, class Stored, WideTile kTile>
__device__ __forceinline__ void store_sums(const WideSums<kTile>& out, const WideWarp<kTile>& warp,
                                           float* memory, const AttentionParams& p,
                                           const AttentionBlock& block, const float* inverses,
                                           int first_row) {
    const int place = static_cast<int>(threadIdx.x % 4);
#pragma unroll
    for (int chunk = 0; chunk < kTile.chunks(); ++chunk) {
        if (chunk * WideTile::kChunk >= p.v_dim) break;
#pragma unroll
        for (int i = 0; i < 2 * kTile.row_tiles(); ++i) {
            const int t = i / 2, h = i % 2, row = warp.row(t, h);
            float* to = memory + row * WideTile::kChunk + warp.warp * 16;
#pragma unroll
            for (int n = 0; n < 2; ++n) {  // accumulate_item says where columns are
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    to[kCodes<Stored> ? place * 4 + e * 2 + n : n * 8 + place * 2 + e] =
                        out[chunk][t][n][2 * h + e];
            }
        }
        __syncthreads();
        constexpr int kFours = WideTile::kChunk / 4;
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x); i < kTile.rows() * kFours; i += WideTile::kThreads) {
            const int row = i / kFours, column = i % kFours * 4;
            if (first_row + row >= block.rows) break;
            float four[4];
            kit::to_floats(kit::load_aligned<4>(memory + row * WideTile::kChunk + column), four);
#pragma unroll
            for (float& value : four) value *= inverses[row];
            store_four<T>(p, block, first_row + row, chunk * WideTile::kChunk + column, four);
        }
        __syncthreads();
    }
}

// The sums of weights of each row, over its lanes and warps; where they go with the maxima, and what out is multiplied by.
template <WideTile kTile, int kTiles>
__device__ __forceinline__ void finish_rows(float (&l)[kTiles][2], const WideWarp<kTile>& warp, float* tops,
                                            const float* maxima, float* inverses, const AttentionParams& p,
                                            const AttentionBlock& block, float values_factor, int first_row) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
        const int t = i / 2, h = i % 2;
        if (t >= warp.score_tiles) break;
        float sum = l[t][h];
        sum += kit::shuffle_xor(sum, 1);
        sum += kit::shuffle_xor(sum, 2);
        if (lane % 4 == 0)
            tops[warp.warp % WideTile::kKeyGroups * kTile.rows() + warp.row(warp.first_tile + t, h)] = sum;
    }
    __syncthreads();
    const int inside = static_cast<int>(threadIdx.x), row = first_row + inside;
    if (inside < warp.tiles * 16) {
        float sum = 0;
#pragma unroll
        for (int group = 0; group < WideTile::kKeyGroups; ++group) sum += tops[group * kTile.rows() + inside];
        inverses[inside] = sum == 0.0f ? 0.0f : values_factor / sum;
        const float lse2 = maxima[inside] * p.scale_log2 + log2f(sum);
        if (row < block.rows && p.splits > 1) {
            p.partial_lse[block.partial_row(p) + row] = lse2;
        } else if (row < block.rows && p.lse != nullptr) {
            p.lse[block.row_offset(p, p.lse_stride, row)] = lse2 * 0.693147180559945309f;
        }
    }
    __syncthreads();
}

// What:    out = softmax(scale q kᵀ) v, a tile of 64 keys at a time, outputs rescaled as the maximum grows
// Mapping: a block has up to 64 rows (32 of more than 512 columns). Of a tile's scores each of eight warps has 16 keys of
//          half the rows; weights go through shared memory, and of the output a warp has 16 of every 128 columns, of all
//          rows, in registers. Keys and values come in items of 128 columns, codes of fp8 as they are stored
// Traffic: k and v once a block of rows, from L2; bound by the latencies of a tile, which no other block hides
// Needs:   v_dim <= kColumns, p.slots of 2, 3, 5 or 8, dynamic shared memory as WideConfig says, kThreads threads
template <class T, class Stored, int kColumns>
__global__ void __launch_bounds__(WideTile::kThreads, 1)
    attention_wide(const AttentionParams p, const AttentionCodes codes) {
    constexpr WideTile kTile{kColumns, 8 * static_cast<int>(sizeof(Stored))};
    constexpr int kTiles = WideWarp<kTile>::kScoreTiles;
    const WideShared<Stored, kTile> shared(p);
    AttentionBlock block(p, blockIdx.x);
    read_sequence(block, p);
    const int first_row = block.row_block * kTile.rows();
    if (first_row >= block.rows) return;  // of packed sequences there is a place more than one has rows for
    const WideWarp<kTile> warp(block.rows - first_row);

    const KeyBounds bounds = key_bounds<true>(p, block, first_row, kTile.rows());
    const TileRange all = tiles_in(bounds, kKeys);
    const int tiles = max(0, (all.count - block.split + p.splits - 1) / p.splits);
    WideRing<Stored> ring(p, block, shared.ring, all.first + block.split, tiles);
    load_queries<T, Stored, kTile.rows()>(shared.queries, p, codes, block, first_row);
    WideSums<kTile> out = {};
    float l[kTiles][2] = {};
    begin_rows(l, shared.maxima, warp, p, block, first_row);
    const float factor = codes.scores(block.kv_head);
    for (int tile = 0; tile < tiles; ++tile) {
        WideScores<kTiles> s = {};
#pragma unroll 1
        for (int c = 0; c < WideRing<Stored>::chunks(p.head_dim); ++c) {
            const Stored* item = ring.next();
            const auto multiply = [&]<int kActive>(std::integral_constant<int, kActive>) {
                multiply_item<T, Stored, kActive>(s, shared.queries, item, warp.first_tile, warp.key,
                                                  c * WideTile::kChunk / 8, codes.e5m2);
            };
            if (warp.score_tiles == kTiles) {
                multiply(std::integral_constant<int, kTiles>());
            } else if (warp.score_tiles > 0) {
                multiply(std::integral_constant<int, 1>());
            }
        }
        const int key = ring.first_key(tile);
#pragma unroll
        for (auto& score : s) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                score[i / 4][i % 4] *= factor;
                if (p.capped) score[i / 4][i % 4] = cap_score(score[i / 4][i % 4], p.cap_factor);
            }
        }
        if (key + kKeys > bounds.all_end || key < bounds.all_first || p.key_mask != nullptr)
            hide_scores<kTile>(s, warp, p, block, first_row, key);
        find_tops<kTile>(s, warp, shared.tops);
        __syncthreads();
        const int row = static_cast<int>(threadIdx.x);
        const bool outgrown =
            row < warp.tiles * 16 &&
            follow_maximum<kTile>(shared.tops, shared.maxima[row], shared.shrinks[row], row, p.scale_log2);
        if (__syncthreads_or(outgrown)) {
            shrink_sums<kTile>(out, warp, shared.shrinks);
#pragma unroll
            for (int i = 0; i < 2 * kTiles; ++i) {
                if (i / 2 < warp.score_tiles)
                    l[i / 2][i % 2] *= shared.shrinks[warp.row(warp.first_tile + i / 2, i % 2)];
            }
        }
        weigh<T>(s, l, warp, shared.weights, shared.maxima, p.scale_log2);
#pragma unroll 1
        for (int c = 0; c < WideRing<Stored>::chunks(p.v_dim); ++c) {
            const Stored* item = ring.next();  // and the weights of all warps are there
            if (c * WideTile::kChunk + warp.warp * 16 >= p.v_dim) continue;
#pragma unroll
            for (int own = 0; own < kTile.chunks(); ++own) {  // registers have no index
                if (own != c) continue;
                warp.tiles == 1 ? accumulate_item<T, Stored, 1>(out[own], shared.weights, item,
                                                                warp.warp * 16, codes.e5m2)
                                : accumulate_item<T, Stored, kTile.row_tiles()>(
                                      out[own], shared.weights, item, warp.warp * 16, codes.e5m2);
            }
        }
    }
    if (p.splits > 1) kit::dependents_launch();  // the merge may take its place; it waits for the end
    __syncthreads();
    finish_rows<kTile>(l, warp, shared.tops, shared.maxima, shared.shrinks, p, block,
                       codes.values(block.kv_head), first_row);
    static_assert(
        kTile.rows() * WideTile::kChunk * 4 <= kTile.rows() * WideTile::kChunk * 2 + 2 * kTile.slot_bytes(),
        "fp32 of 128 columns fit where queries and a ring of two were");
    store_sums<T, Stored, kTile>(out, warp, reinterpret_cast<float*>(shared.queries.memory), p, block,
                                 shared.shrinks, first_row);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
