// Attention of few rows of queries, where the time is that of reading keys and values.
#pragma once

#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/elect.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/vector.cuh"
#include "ops/attention/decode_stream.cuh"
#include "ops/attention/tile_loads.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Where a warp is in the ring.
struct DecodeSlot {
    int slot = 0;
    unsigned parity = 0;
};

// The parts of a block's shared memory.
template <DecodeTile kOwn>
struct DecodeShared : TileSlots<kOwn> {
    using Slots = TileSlots<kOwn>;
    using Slots::kTile, Slots::ring, Slots::landed, Slots::empty;
    uint4* queries;
    float* row_factors;
    char* sums;  // that warps park, or that the blocks of the cluster send

    __device__ DecodeShared() {
        ring = kit::align_shared<1024>(kit::dynamic_shared<char>());
        queries = reinterpret_cast<uint4*>(ring + kTile.slots() * kTile.slot_bytes());
        sums = reinterpret_cast<char*>(queries) + kTile.query_bytes();
        row_factors = reinterpret_cast<float*>(sums) - kTile.kRows;
        landed = reinterpret_cast<kit::Mbarrier*>(sums + kTile.sum_bytes());
        empty = landed + kTile.slots();
    }
    __device__ static bool parks_in_ring(const AttentionParams& p) { return !kTile.goes_on() || p.clustered; }
    __device__ static int parked_rows(const AttentionParams& p) {
        return parks_in_ring(p) ? kTile.kRows : kTile.kFewParked;
    }
    __device__ float* parked(const AttentionParams& p, int warp) const {
        return reinterpret_cast<float*>(parks_in_ring(p) ? ring : sums) +
               warp * DecodeTile(kOwn).parked_floats(parked_rows(p));
    }
    __device__ void initialise(const AttentionParams& p) const {
        if (threadIdx.x == 0) {
            for (int slot = 0; slot < kTile.slots(); ++slot) {
                kit::mbarrier_init(&landed[slot], 1);
                kit::mbarrier_init(&empty[slot], DecodeTile::kWarps);
            }
            kit::fence_mbarrier_init();
        }
        __syncthreads();
        if (p.clustered) kit::cluster_arrive();
    }
    // By a warp: its rows of the item in a slot, until it releases it.
    __device__ DecodePieces await(const DecodeSlot& at, int warp) const {
        kit::mbarrier_wait(&landed[at.slot], at.parity);
        return {ring + at.slot * kTile.slot_bytes() + warp * DecodeTile::kWarpKeys * 128};
    }
    __device__ void release(DecodeSlot& at) const {
        __syncwarp();  // no lane still reads it
        if (threadIdx.x % 32 == 0) kit::mbarrier_arrive(&empty[at.slot]);
        at.slot = at.slot + 1 == kTile.slots() ? 0 : at.slot + 1;
        at.parity ^= at.slot == 0 ? 1 : 0;
    }
};

// By the warps that compute. Beside codes queries are fp16, into which bf16 is scaled; a row is one warp's, or half a warp's.
template <class T, class Stored, int kHeadDim, DecodeTile kTile>
__device__ __forceinline__ void load_queries(const DecodeShared<kTile>& shared, const AttentionParams& p,
                                             const AttentionCodes& codes, const AttentionBlock& block,
                                             int first_row) {
    constexpr int kChunks = kHeadDim / 8;
    for (int i = static_cast<int>(threadIdx.x); i < DecodeTile::kRows * kChunks;
         i += 32 * DecodeTile::kWarps) {
        const int row = i / kChunks, chunk = i % kChunks;
        const int count = first_row + row < block.rows ? min(p.head_dim - chunk * 8, 8) : 0;
        const std::int64_t at = count > 0 ? block.row_offset(p, p.q_stride, first_row + row) + chunk * 8 : 0;
        uint4 piece;
        if constexpr (kCodes<Stored>) {
            float factor = 1;
            if (codes.bf16 && !codes.queries) {
                piece = load_query<kit::bf16>(p, codes, at, count);
                factor = scale_query<kChunks>(piece);
            } else {
                piece = load_query<kit::half>(p, codes, at, count);
            }
            if (chunk == 0) shared.row_factors[row] = factor;
        } else {
            piece = load_query<T>(p, codes, at, count);
        }
        store_query<kCodes<Stored>>(reinterpret_cast<uint32_t*>(shared.queries), row, chunk, piece);
    }
}

// A warp over its keys of all tiles, from where it is in the ring.
template <class T, class Stored, int kHeadDim, DecodeTile kTile>
__device__ __forceinline__ void attend(DecodeState<kHeadDim>& state, DecodeSlot& at,
                                       const DecodeShared<kTile>& shared, const AttentionParams& p,
                                       const AttentionCodes& codes, const AttentionBlock& block,
                                       const KeyTiles& tiles, const KeyBounds& bounds, int first_row,
                                       int warp) {
    const int inside = static_cast<int>(threadIdx.x) % 32 / 4, row = first_row + inside;
    const std::uint8_t* mask = block.mask(p);
    const auto key_of = [&](int tile) { return tiles.key(tile) + warp * DecodeTile::kWarpKeys; };
    float factor[2] = {1.0f, 1.0f};
    if constexpr (kCodes<Stored>) {
#pragma unroll
        for (int h = 0; h < 2; ++h)
            factor[h] = codes.scores(block.kv_head) * shared.row_factors[inside + 8 * h];
    }
    DecodeShown shown = {}, ahead = {};
    if (mask != nullptr) ahead.read(mask, key_of(0), bounds.end);
    for (int tile = 0; tile < tiles.count; ++tile) {
        const int key = key_of(tile);
        const bool partly =
            key + DecodeTile::kWarpKeys > bounds.all_end || key < bounds.all_first || mask != nullptr;
        if (mask != nullptr) {
            shown = ahead;
            ahead.read(mask, key_of(tile + 1), bounds.end);
        } else if (partly) {
            shown.read(nullptr, key, bounds.end);
        }
        DecodeScores s;
        multiply_keys<T, Stored, kHeadDim>(s, shared.queries, shared.await(at, warp), codes.e5m2);
        shared.release(at);
        if constexpr (kCodes<Stored>) {
#pragma unroll
            for (int i = 0; i < 8; ++i) s[i / 4][i % 4] *= factor[i % 4 / 2];
        }
        if (p.capped) {
#pragma unroll
            for (int i = 0; i < 8; ++i) s[i / 4][i % 4] = cap_score(s[i / 4][i % 4], p.cap_factor);
        }
        if (partly) hide_scores(s, p, block, shown, row, key);
        uint32_t weights[4];
        weigh<T>(weights, s, state, p.scale_log2);
        const DecodePieces values = shared.await(at, warp);
        partly ? add_values<T, Stored, true>(state, weights, values, shown, codes.e5m2)
               : add_values<T, Stored, false>(state, weights, values, shown, codes.e5m2);
        shared.release(at);
    }
}

// A place for the sums of `rows` rows, and for a maximum and a sum of weights of each.
template <int kHeadDim>
struct DecodeParked {
    static constexpr DecodeTile kTile{kHeadDim};
    float* at;
    int rows;

    __device__ float* sums(int row) const { return at + row * kTile.pitch(); }
    __device__ float* weights(int row) const { return at + rows * kTile.pitch() + 2 * row; }
};

// A warp's sums of its rows from `first` on, where all warps find them.
template <class Stored, int kHeadDim>
__device__ __forceinline__ void park(const DecodeParked<kHeadDim>& to, const DecodeState<kHeadDim>& state,
                                     int first) {
    const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        if (8 * h < first || 8 * h >= first + to.rows) continue;
        const int row = lane / 4 + 8 * h - first;
        float l = state.l[h];
        l += kit::shuffle_xor(l, 1);
        l += kit::shuffle_xor(l, 2);
        if (t == 0) kit::store(reinterpret_cast<float2*>(to.weights(row)), float2{state.m[h], l});
        constexpr int kColumns = 16 / static_cast<int>(sizeof(Stored));  // of a piece
        float* sums = to.sums(row) + 2 * kColumns * t;
#pragma unroll
        for (int i = 0; i < state.kSums; i += 4) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                kit::store(reinterpret_cast<float4*>(sums + i / kColumns * 8 * kColumns + kColumns * e +
                                                     i % kColumns),
                           float4{state.out[i][2 * h + e], state.out[i + 1][2 * h + e],
                                  state.out[i + 2][2 * h + e], state.out[i + 3][2 * h + e]});
            }
        }
    }
}

// Four columns of a row, and the maximum and the sum of weights that they are relative to.
struct DecodeFour {
    float4 value;
    float2 weights;
};

// What `count` of them come to, in their order. weights(i), value(i): of the i-th.
template <class Weights, class Value>
__device__ __forceinline__ DecodeFour sum_parts(int count, float scale_log2, Weights weights, Value value) {
    DecodeFour sum = {{}, {minus_infinity(), 0}};
#pragma unroll 4
    for (int i = 0; i < count; ++i) sum.weights.x = fmaxf(sum.weights.x, weights(i).x);
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
        const float2 own = weights(i);
        const float4 four = value(i);
        const float shrink = maximum_shift(own.x, sum.weights.x, scale_log2);
        sum.weights.y += own.y * shrink;
        sum.value.x += four.x * shrink, sum.value.y += four.y * shrink;
        sum.value.z += four.z * shrink, sum.value.w += four.w * shrink;
    }
    return sum;
}

// Stores four columns of a row: of out, or of a split's result in fp32, for the merge.
template <class T, class Stored>
__device__ __forceinline__ void store_four(const AttentionParams& p, const AttentionCodes& codes,
                                           const AttentionBlock& block, int row, int column,
                                           const DecodeFour& four) {
    const float l = four.weights.y, inverse = l == 0.0f ? 0.0f : codes.values(block.kv_head) / l,
                lse2 = four.weights.x * p.scale_log2 + log2f(l);
    const float value[4] = {four.value.x * inverse, four.value.y * inverse, four.value.z * inverse,
                            four.value.w * inverse};
    if (p.partial != nullptr) {
        const std::int64_t at = block.partial_row(p) + row;
        if (column == 0) p.partial_lse[at] = lse2;
        kit::store(reinterpret_cast<float4*>(p.partial + at * p.v_dim + column),
                   float4{value[0], value[1], value[2], value[3]});
        return;
    }
    if (p.lse != nullptr && column == 0)
        p.lse[block.row_offset(p, p.lse_stride, row)] = lse2 * 0.693147180559945309f;
    const auto store_as = [&]<class Out>(Out* out) {
        kit::store_vector(out + block.row_offset(p, p.out_stride, row) + column, kit::from_floats<Out>(value),
                          4, p.vector_out);
    };
    kCodes<Stored>&& codes.bf16 ? store_as(static_cast<kit::bf16*>(p.out)) : store_as(static_cast<T*>(p.out));
}

// Sums that the blocks of a cluster send each other: of every `splits`-th four columns, which are one block's to store.
template <int kHeadDim>
struct DecodeSent {
    char* memory;
    int splits, share;  // blocks; fours of each

    __device__ DecodeSent(const AttentionParams& p, char* memory, int rows)
        : memory(memory), splits(p.splits), share((rows * p.v_dim / 4 + p.splits - 1) / p.splits) {}
    // Those from block `from`.
    __device__ float4* values(int from) const { return reinterpret_cast<float4*>(memory) + from * share; }
    __device__ float2* weights(int from) const {
        return reinterpret_cast<float2*>(values(splits)) + from * share;
    }
};

// By the warps that compute: what their parked sums, of the rows from `begin` on, come to. A block alone stores it; those of a
// cluster send it to each other.
template <class T, class Stored, int kHeadDim, DecodeTile kTile>
__device__ __forceinline__ void sum_warps(const AttentionParams& p, const AttentionCodes& codes,
                                          const AttentionBlock& block, const DecodeShared<kTile>& shared,
                                          const DecodeSent<kHeadDim>& sent, int first_row, int rows,
                                          int begin) {
    const int parked_rows = shared.parked_rows(p), fours = p.v_dim / 4;
    const int end = min(rows, begin + parked_rows) * fours;
    for (int i = begin * fours + static_cast<int>(threadIdx.x); i < end; i += 32 * kTile.kWarps) {
        const int row = i / fours, column = i % fours * 4;
        const auto parked = [&](int of) { return DecodeParked<kHeadDim>{shared.parked(p, of), parked_rows}; };
        const DecodeFour four = sum_parts(
            kTile.kWarps, p.scale_log2,
            [&](int of) {
                return kit::load(reinterpret_cast<const float2*>(parked(of).weights(row - begin)));
            },
            [&](int of) {
                return kit::load(reinterpret_cast<const float4*>(parked(of).sums(row - begin) + column));
            });
        if (!p.clustered) {
            store_four<T, Stored>(p, codes, block, first_row + row, column, four);
            continue;
        }
        const auto to = static_cast<unsigned>(i % p.splits);
        kit::store(kit::cluster_map(sent.values(block.split), to) + i / p.splits, four.value);
        kit::store(kit::cluster_map(sent.weights(block.split), to) + i / p.splits, four.weights);
    }
}

// Of a cluster's sums those that this block stores.
template <class T, class Stored, int kHeadDim>
__device__ __forceinline__ void sum_blocks(const AttentionParams& p, const AttentionCodes& codes,
                                           const AttentionBlock& block, const DecodeSent<kHeadDim>& sent,
                                           int first_row, int rows) {
    const int fours = p.v_dim / 4;
    for (int i = static_cast<int>(threadIdx.x) * p.splits + block.split; i < rows * fours;
         i += DecodeTile::kThreads * p.splits) {
        const DecodeFour four = sum_parts(
            p.splits, p.scale_log2, [&](int from) { return kit::load(sent.weights(from) + i / p.splits); },
            [&](int from) { return kit::load(sent.values(from) + i / p.splits); });
        store_four<T, Stored>(p, codes, block, first_row + i / fours, i % fours * 4, four);
    }
}

// What a block of the grid works on, one after the other: up to 16 rows of queries, and the tiles of their keys.
struct DecodeRows {
    AttentionBlock block;
    KeyBounds bounds;
    KeyTiles tiles;
    int first, count;  // rows
};
// body(rows), for those of this block of the grid, of which `block` has the first.
template <DecodeTile kTile, class Body>
__device__ __forceinline__ void for_each_rows(const AttentionParams& p, AttentionBlock block, Body&& body) {
    int before = 0;  // tiles
    for (;;) {
        read_sequence(block, p);
        const int first = block.row_block * DecodeTile::kRows,
                  count = min(block.rows - first, DecodeTile::kRows);
        if (count > 0) {  // of packed sequences there is a place more than its sequence has rows for
            const KeyBounds bounds = key_bounds<true>(p, block, first, DecodeTile::kRows);
            const KeyTiles tiles = tiles_of(p, block, bounds, DecodeTile::keys(), before);
            body(DecodeRows{block, bounds, tiles, first, count});
            before += tiles.count;
        }
        const unsigned next = block.index + gridDim.x;
        if (!kTile.goes_on() || next >= p.blocks) return;
        block = AttentionBlock(p, next);
    }
}

// By the warps that compute, `at` in the ring: rows from their queries to the sums that are stored, or sent to the cluster.
template <class T, class Stored, int kHeadDim, DecodeTile kTile>
__device__ __forceinline__ void compute_rows(const DecodeShared<kTile>& shared, const AttentionParams& p,
                                             const AttentionCodes& codes, const DecodeRows& rows,
                                             DecodeSlot& at, const DecodeSent<kHeadDim>& sent, int warp) {
    const AttentionBlock& block = rows.block;
    const auto meet = [] { kit::named_barrier_sync(1, 32 * kTile.kWarps); };
    load_queries<T, Stored, kHeadDim>(shared, p, codes, block, rows.first);
    DecodeState<kHeadDim> state = {{}, {minus_infinity(), minus_infinity()}, {}};
    if (p.sinks != nullptr && block.split == 0 && warp == 0) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int row = rows.first + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * h;
            begin_at_sink(state.m[h], state.l[h], p, block, min(row, block.rows - 1));
        }
    }
    meet();  // the queries are there
    attend<T, Stored>(state, at, shared, p, codes, block, rows.tiles, rows.bounds, rows.first, warp);
    if (shared.parks_in_ring(p)) meet();  // nobody reads the ring any more
    const int parked_rows = shared.parked_rows(p);
#pragma unroll 1
    for (int first = 0; first < rows.count; first += parked_rows) {
        if (first > 0) meet();  // nobody reads the first rows' sums any more
        park<Stored>(DecodeParked<kHeadDim>{shared.parked(p, warp), parked_rows}, state, first);
        meet();  // all are parked
        sum_warps<T, Stored>(p, codes, block, shared, sent, rows.first, rows.count, first);
    }
}

// What:    out = softmax(scale q kᵀ) v for up to 16 rows of queries a block, and then for the next
// Mapping: one warp keeps a ring of tiles full, of the next rows as soon as those of the last are brought; of each tile eight
//          have 16 keys each. Their sums meet in shared memory, then those of the `splits` blocks of a cluster, which have one
//          block of rows and each store a part of it; or each block stores its own, for a merge. Sums are added in a fixed order
//          (deterministic)
// Traffic: k and v once for 16 rows; bound by the memory
// Needs:   head_dim <= kHeadDim and a multiple of 8, 16-byte aligned rows of q, k and v, boxes of 128 bytes of columns by the keys of
//          a tile (of pages p.page_keys) in the maps, SM 9.0; T is fp16 where keys and values are codes
template <class T, class Stored, int kHeadDim>
__global__ void __launch_bounds__(DecodeTile::kThreads, 1)
    attention_decode(const AttentionParams p, const AttentionCodes codes,
                     const __grid_constant__ kit::TensorMap keys,
                     const __grid_constant__ kit::TensorMap values) {
    constexpr DecodeTile kTile{kHeadDim, 8 * static_cast<int>(sizeof(Stored))};
    const DecodeShared<kTile> shared;
    if (threadIdx.x == 0) {
        kit::tma_prefetch(keys);
        kit::tma_prefetch(values);
    }
    shared.initialise(p);
    const AttentionBlock block(p, blockIdx.x);
    kit::dependency_wait();
    kit::dependents_launch();
    if (p.clustered) kit::cluster_wait();  // all blocks have begun
    const int warp = kit::warp_uniform(static_cast<int>(threadIdx.x) / 32);
    DecodeSlot at;
    for_each_rows<kTile>(p, block, [&](const DecodeRows& rows) {
        const DecodeSent<kHeadDim> sent(p, shared.sums, rows.count);
        if (warp < kTile.kWarps) {
            compute_rows<T, Stored, kHeadDim>(shared, p, codes, rows, at, sent, warp);
        } else if (p.block_table != nullptr) {
            load_pages(shared, p, rows.block, rows.tiles, keys, values);
        } else if (kit::elect_one()) {
            load_tiles(shared, rows.block, rows.tiles, keys, values);
        }
        __syncwarp();
        if (!p.clustered) return;
        kit::cluster_sync();
        sum_blocks<T, Stored>(p, codes, rows.block, sent, rows.first, rows.count);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
