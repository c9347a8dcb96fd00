// Attention on wgmma: one warpgroup brings tiles of keys and values, two compute.
#pragma once

#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/elect.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/ptx/registers.cuh"
#include "kit/turns.cuh"
#include "kit/vector.cuh"
#include "ops/attention/wgmma_merge.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// One thread brings the block's rows of queries, zeros beyond the last token. The blocks of a cluster each bring half of
// the boxes to both: at the start all blocks want theirs at once, from an L2 that is no faster than that.
template <WgmmaTile kTile>
__device__ __forceinline__ void load_queries(const WgmmaShared<kTile>& shared, const AttentionParams& p,
                                             const AttentionBlock& block, const KeyTiles& tiles, int n,
                                             const kit::TensorMap& queries) {
    shared.wait_queries_free(n);
    kit::Mbarrier* landed = &shared.queries_landed[n % kTile.query_buffers()];
    if (!tiles.any()) return kit::mbarrier_arrive(landed);
    kit::mbarrier_arrive_expect(landed, static_cast<unsigned>(kTile.boxes() * p.block_rows * 128));
    const int token = block.first_query + block.row_block * (p.block_rows / p.group);
    for (int box = 0; box < kTile.boxes(); ++box) {
        char* to = shared.queries_of(n) + box * kTile.query_box_bytes();
        const int at[] = {box * kTile.box_columns(), block.kv_head * p.group, token, block.batch};
        if (!p.clustered) {
            kit::tma_load(to, queries, landed, at);
        } else if (box % 2 == block.split) {
            kit::tma_load_multicast(to, queries, landed, at, 0b11);
        }
    }
}

// One warp zeroes the values of keys that do not exist or are masked: what is there might not be finite, and
// a weight of zero would not hide it. Of keys it only releases the slot, so that a slot has the same users whatever is in
// it.
template <WgmmaTile kTile>
__device__ __forceinline__ void clean_values(const WgmmaShared<kTile>& shared, const AttentionParams& p,
                                             const AttentionBlock& block, const KeyTiles& tiles) {
    const std::uint8_t* mask = block.mask(p);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int item = tiles.keys_item(0); item < tiles.end_item(); ++item) {
        const int slot = item % kTile.slots(), key = tiles.key(item / 2 - tiles.before);
        kit::mbarrier_wait(&shared.landed[slot], shared.parity(item));
        for (int row = lane; row < kTile.keys() && item % 2 != 0; row += 32) {
            if (key + row < block.keys && (mask == nullptr || mask[key + row] != 0)) continue;
            for (int i = 0; i < kTile.value_boxes() * 8; ++i) {
                char* line = shared.slot(item) + i / 8 * kTile.box_bytes() + row * 128;
                kit::store(reinterpret_cast<uint4*>(line) + i % 8, uint4{0, 0, 0, 0});
            }
        }
        kit::fence_proxy_async();
        __syncwarp();
        if (lane == 0) {
            if (item % 2 != 0) kit::mbarrier_arrive(&shared.cleaned[item / 2 % kTile.slots()]);
            kit::mbarrier_arrive(&shared.empty[slot]);
        }
    }
}

// Items of which a warpgroup needs nothing pass, in turn, and in the phases of their slots.
template <WgmmaTile kTile>
__device__ __forceinline__ void pass_tiles(const WgmmaShared<kTile>& shared, const kit::Turns& turns,
                                           int item, int end) {
    int left = kit::warp_uniform(kit::anew(end - item));
#pragma unroll 1
    for (item = kit::warp_uniform(kit::anew(item)); left > 0; --left, ++item) {
        const int slot = item % kTile.slots();
        kit::mbarrier_wait(&shared.landed[slot], shared.parity(item));
        if (item % 2 == 0) turns.wait(), turns.give();
        __syncwarp();  // no lane may still wait for it when the loading warp brings the next
        if (threadIdx.x % 32 == 0) kit::mbarrier_arrive(&shared.empty[slot]);
    }
}

// A warpgroup over all tiles. The scores of a tile are issued together with the values of the one before, and weighed when
// both are there: the warpgroups take turns in issuing, so that one weighs while the others' products run. What it needs
// for the next products it looks for while its own run. Registers are short: what is known of the launch is looked up
// where it is needed.
template <class T, bool kOptions, WgmmaTile kTile>
__device__ __forceinline__ void attend(WgmmaState<kTile>& state, const WgmmaShared<kTile>& shared,
                                       const AttentionParams& p, const AttentionBlock& block,
                                       const KeyTiles& tiles, int n, const kit::Turns& turns, int group_row,
                                       int row, const ScoreScale& scale) {
    const KeyBounds bounds = key_bounds<kOptions>(p, block, row, 64);
    const auto wait = [&](const kit::Mbarrier* ready, int item) {
        kit::mbarrier_wait(const_cast<kit::Mbarrier*>(ready) + item % kTile.slots(), shared.parity(item));
    };
    const auto wait_values = [&](int item) {
        hides_values(p) ? wait(shared.cleaned, item / 2) : wait(shared.landed, item);
    };
    const auto release = [&](int item) {
        if (threadIdx.x % 32 == 0) kit::mbarrier_arrive(&shared.empty[item % kTile.slots()]);
    };
    // Made anew for each tile where there are no registers to keep the descriptors of all steps.
    const auto queries_again = [](int offset) {
        return kTile.short_of_registers() ? kit::warp_uniform(kit::anew(offset)) : offset;
    };
    float s[kTile.keys() / 2];
    TileProducts<kTile> products;
    uint32_t weights[kTile.keys() / kit::kWgmmaDepth<T>][4];
    const auto weigh_tile = [&]<bool kFirst>(std::bool_constant<kFirst>, int key, bool may_hide) {
        const auto multiply = [&](float factor) {
#pragma unroll
            for (float& score : s) score *= factor;
        };
        if (kOfCodes<T> && scale.within != 1) multiply(scale.within);
        if (kOptions && p.score_factors != nullptr) multiply(p.score_factors[block.kv_head]);
        if (kOptions && p.capped) cap_scores(s, p.cap_factor);
        if (may_hide && (key + kTile.keys() > bounds.all_end || (kOptions && key < bounds.all_first) ||
                         p.key_mask != nullptr))
            hide_scores<kOptions>(s, p, block, row, key);
        weigh<T, kFirst>(weights, s, state, scale.log2);
    };

    // Of the block's tiles those that any of these rows sees come first.
    const int step = p.splits * kTile.keys();
    const int queries = static_cast<int>(shared.queries_of(n) - shared.queries) + group_row * 128;
    int item = kit::warp_uniform(tiles.keys_item(0)), key = tiles.first;
    const int own = min(tiles.count, shared_tiles(p, (bounds.end + kTile.keys() - 1 - key) / kTile.keys()));
    const int seen_by_all =
        p.key_mask == nullptr ? shared_tiles(p, (bounds.all_end - key) / kTile.keys()) : 0;
    const int end = kit::warp_uniform(item + 2 * own),
              clear = kit::warp_uniform(item + 2 * min(own, seen_by_all));
    if (item < end) {
        wait(shared.landed, item);
        turns.wait();
        kit::wgmma_fence();
        issue_scores<T, kTile>(s, shared.queries + queries, shared.slot(item));
        turns.give();
        kit::wgmma_wait<0>();
        kit::wgmma_hold(s);
        release(item);
        weigh_tile(std::true_type(), key, true);
        wait_values(item + 1);
        const auto next_tile = [&](bool may_hide) {
            key += step;
            const int values = item + 1, keys = item + 2;
            const int own_queries = queries_again(queries);
            wait(shared.landed, keys);
            turns.wait();
            kit::wgmma_fence();
            issue_scores<T, kTile>(s, shared.queries + own_queries, shared.slot(keys));
            issue_values<T, kTile>(products.of(state), weights, shared.slot(values));
            turns.give();
            wait_values(keys + 1);
            kit::wgmma_wait<1>();
            release(keys);
            kit::wgmma_wait<0>();
            kit::wgmma_hold(s);
            products.take(state);
            release(values);
            weigh_tile(std::false_type(), key, may_hide);
        };
        if constexpr (!kOptions) {  // a loop of its own for tiles that all rows see: it needs fewer registers
            for (; item + 2 < clear; item += 2) next_tile(false);
        }
        for (; item + 2 < end; item += 2) next_tile(true);
    }
    shared.free_queries(n);
    if (item < end) {
        const int values = item + 1;
        kit::wgmma_fence();
        issue_values<T, kTile>(products.of(state), weights, shared.slot(values));
        kit::wgmma_wait<0>();
        products.take(state);
        release(values);
        item += 2;
    }
    pass_tiles(shared, turns, item, tiles.end_item());
}

// The finished rows of a warp, which values' factor multiplies. A lane has two columns of every eight; neighbours exchange half of them, so that each has
// four in a row, and the four lanes of a row store 32 bytes at once.
template <class T, WgmmaTile kTile>
__device__ __forceinline__ void store_rows(const WgmmaState<kTile>& state, const AttentionParams& p,
                                           const AttentionBlock& block, int group, float factor,
                                           float scale_log2, float shift) {
    const int lane = static_cast<int>(threadIdx.x) % 32, odd = lane % 2;
    const int block_row = block.row_block * p.block_rows, end = min(p.block_rows, block.rows - block_row);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int row = group * 64 + wgmma_row(h);
        const bool stored = row < end;
        const float l = state.l[h], inverse = l == 0.0f ? 0.0f : factor / l;
        if (p.lse != nullptr && lane % 4 == 0 && stored) {
            p.lse[block.row_offset(p, p.lse_stride, block_row + row)] =
                (state.m[h] * scale_log2 + log2f(l) - shift) * 0.693147180559945309f;
        }
        const int first = 8 * odd + lane % 4 / 2 * 4, end_column = stored ? p.v_dim - first : 0;
        T* to = static_cast<T*>(p.out) + block.row_offset(p, p.out_stride, block_row + row) + first;
        const auto store_columns = [&](bool aligned) {
#pragma unroll
            for (int column = 0; column < kTile.v_dim(); column += 16) {
                const float* out = state.out + column / 2 + 2 * h;
                const uint32_t low = pack_pair<T>(out[0] * inverse, out[1] * inverse),
                               high = pack_pair<T>(out[4] * inverse, out[5] * inverse);
                const uint32_t other = kit::shuffle_xor(odd ? low : high, 1);
                const uint2 four = odd ? uint2{other, high} : uint2{low, other};
                if (column < end_column)
                    kit::store_vector(to + column, kit::as_vector<T, 4>({{four}}), 4, aligned);
            }
        };
        p.vector_out ? store_columns(true) : store_columns(false);
    }
}

// The same rows in fp32, for the merge.
template <WgmmaTile kTile>
__device__ __forceinline__ void store_partial(const WgmmaState<kTile>& state, const AttentionParams& p,
                                              const AttentionBlock& block, int group, float factor,
                                              float scale_log2, float shift) {
    const int lane = static_cast<int>(threadIdx.x) % 32, block_row = block.row_block * p.block_rows;
    const std::int64_t base = block.partial_row(p);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int inside = group * 64 + wgmma_row(h), row = block_row + inside;
        if (inside >= p.block_rows || row >= block.rows) continue;
        const float l = state.l[h], inverse = l == 0.0f ? 0.0f : factor / l;
        if (lane % 4 == 0) p.partial_lse[base + row] = state.m[h] * scale_log2 + log2f(l) - shift;
        float* to = p.partial + (base + row) * p.v_dim;
#pragma unroll
        for (int i = 2 * h; i < kTile.v_dim() / 2; i += 4) {
            const int column = wgmma_column(i);  // of two, which a head dim of whole chunks has both
            if (column < p.v_dim)
                *reinterpret_cast<float2*>(to + column) = {state.out[i] * inverse,
                                                           state.out[i + 1] * inverse};
        }
    }
}

// A warpgroup on the n-th block of rows, from its queries to the rows that are stored or handed to others.
template <class T, bool kOptions, bool kRagged, WgmmaTile kTile>
__device__ __forceinline__ void compute_rows(const WgmmaShared<kTile>& shared, const AttentionParams& p,
                                             const AttentionBlock& block, const KeyTiles& tiles, int n,
                                             const kit::Turns& turns, int group) {
    WgmmaState<kTile> state;
    clear(state);
    const int row = block.row_block * p.block_rows + group * 64;  // the warpgroup's first
    if (kOptions && p.sinks != nullptr && block.split == 0) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            begin_at_sink(state.m[h], state.l[h], p, block, row + wgmma_row(h));
        }
    }
    shared.wait_queries(n);
    const ScoreScale scale = score_scale<T>(p, block);
    attend<T, kOptions>(state, shared, p, block, tiles, n, turns, group * 64, row, scale);
#pragma unroll
    for (float& l : state.l) {
        l += kit::shuffle_xor(l, 1);
        l += kit::shuffle_xor(l, 2);
    }
    // What a block has read of its sequence it keeps.
    const auto here = [&] { return kRagged ? block : block.again(p); };
    constexpr bool kFactors = kOptions || kOfCodes<T>;
    const float factor = kFactors && p.value_factors != nullptr ? p.value_factors[block.kv_head] : 1.0f;
    if (p.clustered && group != block.split) {
        hand_over(state, shared, tiles, block.split);
    } else if (p.splits > 1 && !p.clustered) {
        store_partial(state, p, here(), group, factor, scale.log2, kWeightShift<T>);
    } else {
        if (p.clustered) take_over(state, shared, tiles, scale.log2);
        const auto store = [&](auto of) {
            store_rows<std::remove_pointer_t<decltype(of)>>(state, p, here(), group, factor, scale.log2,
                                                            kWeightShift<T>);
        };
        if constexpr (kOfCodes<T>) {
            kit::with_one_of<kit::bf16, kit::half>(p.out_dtype, store);
        } else {
            store(static_cast<T*>(nullptr));
        }
    }
}

// What:    out = softmax(scale q kᵀ) v, a tile of keys at a time, outputs rescaled as the maximum grows
// Mapping: a block works on up to 128 or 192 rows, of whole tokens, and then on the next: warpgroups 1 and up own 64
//          each, with their whole output in registers; of warpgroup 0 one thread (of pages a warp) keeps a ring of tiles full,
//          one brings queries as soon as there is room for them, and one warp cleans values. The `splits` blocks of a
//          cluster have the same rows, once, and divide the tiles
// Traffic: q once, k and v once a cluster, from L2; bound by wgmma
// Needs:   head_dim <= kTile.head_dim and v_dim <= kTile.v_dim(), multiples of 8, 16-byte aligned rows, boxes of p.block_rows (queries) and of
//          WgmmaTile (keys and values; of pages p.page_keys) in the maps, SM 9.0a; kOptions as attention_flash, kRagged
//          where keys are in pages or sequences packed, which no cluster shares
template <class T, int kHeadDim, int kWarpgroups, bool kOptions, bool kRagged, int kValueDim = 0>
__global__ void __launch_bounds__(kWgmmaThreads<kWarpgroups>, 1)
    attention_wgmma(const AttentionParams p, const __grid_constant__ kit::TensorMap queries,
                    const __grid_constant__ kit::TensorMap keys,
                    const __grid_constant__ kit::TensorMap values) {
    constexpr WgmmaTile kTile{kHeadDim, kWarpgroups, kValueDim, kOfCodes<T>};
    const WgmmaShared<kTile> shared;
    if (threadIdx.x == 0) {
        kit::tma_prefetch(queries);
        kit::tma_prefetch(keys);
        kit::tma_prefetch(values);
    }
    shared.initialise(p);
    kit::dependency_wait();
    kit::dependents_launch();
    if (p.clustered) kit::cluster_wait();
    const int warp = kit::warp_uniform(static_cast<int>(threadIdx.x) / 32);
    if (warp < 4) {
        kit::registers_release<kTile.loader_registers()>();
        if (warp <= 1 || (warp == 2 && hides_values(p))) {
            for_each_block<kTile, kOptions, kRagged>(
                p, [&](const AttentionBlock& block, const KeyTiles& tiles, int n) {
                    if (warp == 2) return clean_values(shared, p, block, tiles);
                    const bool one = kit::elect_one();
                    if (warp == 1) {
                        if (one) load_queries(shared, p, block, tiles, n, queries);
                        return;
                    }
                    if (kRagged && p.block_table != nullptr) {
                        load_pages(shared, p, block, tiles, keys, values);
                    } else if (one) {
                        load_tiles(shared, block, tiles, keys, values);
                    }
                    if (one && p.clustered) expect_sums(shared, tiles, block.split);
                });
        }
    } else {
        kit::registers_acquire<kTile.registers()>();
        const int group = warp / 4 - 1;
        // First is who has to hand over at the end, if anyone has.
        const kit::Turns turns(group, kTile.warpgroups,
                               1 - (p.clustered ? AttentionBlock(p, blockIdx.x).split : 0));
        turns.begin();
        for_each_block<kTile, kOptions, kRagged>(
            p, [&](const AttentionBlock& block, const KeyTiles& tiles, int n) {
                compute_rows<T, kOptions, kRagged>(shared, p, block, tiles, n, turns, group);
            });
        turns.end();
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
