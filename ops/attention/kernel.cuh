// Attention: the flash kernel, and the merge of its splits.
#pragma once

#include "kit/ptx/approximate.cuh"
#include "kit/ptx/pdl.cuh"
#include "ops/attention/sequence.cuh"
#include "ops/attention/tile_ring.cuh"
#include "ops/attention/warp_math.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// The sum of each row over its four lanes.
template <int kHeadDim>
__device__ __forceinline__ void complete_sums(AttentionState<kHeadDim>& state) {
#pragma unroll
    for (auto& rows : state.l) {
#pragma unroll
        for (float& l : rows) {
            l += kit::shuffle_xor(l, 1);
            l += kit::shuffle_xor(l, 2);
        }
    }
}

// Group 0 takes over what the other groups found for the same rows; their rings of tiles carry it.
template <int kHeadDim>
__device__ __forceinline__ void merge_groups(AttentionState<kHeadDim>& state, const AttentionParams& p,
                                             char* rings) {
    using State = AttentionState<kHeadDim>;
    constexpr int kOut = State::kRowTiles * kHeadDim / 2;
    const int threads = 32 * p.row_warps, group = static_cast<int>(threadIdx.x) / threads;
    const int thread = static_cast<int>(threadIdx.x) % threads;
    const auto carried = [&](int from) {
        return reinterpret_cast<float*>(rings +
                                        static_cast<std::size_t>(from) * p.slots * State::kTile.slot() * 2) +
               thread;
    };
    float* out = &state.out[0][0][0];
    float *m = &state.m[0][0], *l = &state.l[0][0];
    kit::cp_async_wait<0>();
    __syncthreads();
    if (group > 0) {
        float* to = carried(group);
#pragma unroll
        for (int i = 0; i < kOut; ++i) to[i * threads] = out[i];
#pragma unroll
        for (int i = 0; i < 2 * State::kRowTiles; ++i) {
            to[(kOut + 2 * i) * threads] = m[i];
            to[(kOut + 2 * i + 1) * threads] = l[i];
        }
    }
    __syncthreads();
    for (int other = 1; other < p.groups && group == 0; ++other) {
        const float* from = carried(other);
        float keep[2 * State::kRowTiles], take[2 * State::kRowTiles];
#pragma unroll
        for (int i = 0; i < 2 * State::kRowTiles; ++i) {
            const float other_m = from[(kOut + 2 * i) * threads], top = fmaxf(m[i], other_m);
            keep[i] = maximum_shift(m[i], top, p.scale_log2);
            take[i] = maximum_shift(other_m, top, p.scale_log2);
            m[i] = top;
            l[i] = l[i] * keep[i] + from[(kOut + 2 * i + 1) * threads] * take[i];
        }
#pragma unroll
        for (int i = 0; i < kOut; ++i) {
            const int row = i / (kHeadDim / 2) * 2 + i % 4 / 2;
            out[i] = out[i] * keep[row] + from[i * threads] * take[row];
        }
    }
}

// A split's result in fp32, for the merge.
template <int kHeadDim>
__device__ __forceinline__ void store_partial(const AttentionState<kHeadDim>& state, const AttentionParams& p,
                                              const AttentionBlock& block, int first_row) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::int64_t base = block.partial_row(p);
#pragma unroll
    for (int i = 0; i < 2 * AttentionState<kHeadDim>::kRowTiles; ++i) {
        const int t = i / 2, h = i % 2, row = first_row + t * 16 + h * 8 + lane / 4;
        if (row >= block.rows) continue;
        const float l = state.l[t][h], inverse = l == 0.0f ? 0.0f : 1.0f / l;
        if (lane % 4 == 0) p.partial_lse[base + row] = state.m[t][h] * p.scale_log2 + log2f(l);
        float* to = p.partial + (base + row) * p.v_dim;
#pragma unroll
        for (int n = 0; n < kHeadDim / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int column = n * 8 + lane % 4 * 2 + e;
                if (column < p.v_dim) to[column] = state.out[t][n][2 * h + e] * inverse;
            }
        }
    }
}

// The finished rows of a warp, through shared memory (where its queries were) for whole 16-byte stores.
template <class T, int kHeadDim>
__device__ __forceinline__ void store_rows(const AttentionState<kHeadDim>& state, const AttentionParams& p,
                                           const AttentionBlock& block, T* tile, int first_row) {
    constexpr Tile kTile{kHeadDim};
    constexpr int kLanes = kHeadDim <= 64 ? 8 : kHeadDim <= 128 ? 16 : 32;
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < 2 * AttentionState<kHeadDim>::kRowTiles; ++i) {
        const int t = i / 2, h = i % 2, row = t * 16 + h * 8 + lane / 4;
        const float l = state.l[t][h], inverse = l == 0.0f ? 0.0f : 1.0f / l;
#pragma unroll
        for (int n = 0; n < kHeadDim / 8; ++n) {
            const auto& c = state.out[t][n];
            *reinterpret_cast<uint32_t*>(tile + kTile.offset(row, n) + lane % 4 * 2) =
                pack_pair<T>(c[2 * h] * inverse, c[2 * h + 1] * inverse);
        }
        if (p.lse != nullptr && lane % 4 == 0 && first_row + row < block.rows) {
            p.lse[block.row_offset(p, p.lse_stride, first_row + row)] =
                (state.m[t][h] * p.scale_log2 + log2f(l)) * 0.693147180559945309f;
        }
    }
    __syncwarp();
    const int chunk = lane % kLanes, column = chunk * 8;
    for (int row = lane / kLanes; row < kTile.warp_rows() && first_row + row < block.rows;
         row += 32 / kLanes) {
        if (column >= p.v_dim) break;
        T* to = static_cast<T*>(p.out) + block.row_offset(p, p.out_stride, first_row + row) + column;
        const auto values = kit::load_aligned<8>(tile + kTile.offset(row, chunk));
        kit::store_vector(to, values, p.v_dim - column, p.vector_out);
    }
}

// What:    out = softmax(scale q kᵀ) v, a tile of keys at a time, outputs rescaled as the maximum grows
// Mapping: a block has `groups` groups of `row_warps` warps. Warp w of a group owns the block's rows from
//          w * warp_rows on, with their whole output in registers; the groups share the rows and divide the
//          key tiles, each streaming its own, so that one group's softmax runs beside another's products
// Traffic: k and v once a block of rows, from L2; bound by ldmatrix at head_dim 256, else by mma.sync
// Needs:   head_dim <= kHeadDim, blockDim = 32 * row_warps * groups, dynamic shared memory as Config says; kOptions
//          where windows (but for a causal one), key_limits, a soft cap or sinks are there, kRagged (and kOptions)
//          where keys are in pages or sequences packed
template <class T, int kHeadDim, bool kOptions, bool kRagged>
__global__ void __launch_bounds__(32 * attention::kMaxWarps, 1) attention_flash(const AttentionParams p) {
    using State = AttentionState<kHeadDim>;
    constexpr Tile kTile = State::kTile;
    static_assert(128 * kTile.merge_floats() * 4 <= kTile.slots() * kTile.slot() * 2,
                  "a group's result fits its ring");
    const int threads = static_cast<int>(blockDim.x), warp = static_cast<int>(threadIdx.x) / 32;
    const int group = warp / p.row_warps, warp_row = warp % p.row_warps * kTile.warp_rows();
    T* queries = kit::dynamic_shared<T>();
    T* rings = queries + p.row_warps * kTile.warp_rows() * kTile.pitch();
    static_assert(kOptions || !kRagged);
    AttentionBlock block(p, blockIdx.x);
    if constexpr (kRagged) {
        read_sequence(block, p);
    } else {
        block.read_length(p);
    }
    const int block_rows = p.row_warps * kTile.warp_rows(), first_row = block.row_block * block_rows;
    if (kRagged && first_row >= block.rows) return;  // there is a place more than its sequence has rows for

    load_rows<kHeadDim>(queries, block_rows, threadIdx.x, threads, static_cast<const T*>(p.q), p.head_dim,
                        p.vector_q, [&](int row) -> std::int64_t {
                            const bool there = first_row + row < block.rows;
                            return there ? block.row_offset(p, p.q_stride, first_row + row) : -1;
                        });
    kit::cp_async_commit();

    // Tiles that any row of the block sees; this group's are every (groups * splits)-th of them.
    const TileRange all = tiles_in(key_bounds<kOptions>(p, block, first_row, block_rows), kKeys);
    const int own = block.split * p.groups + group, stride = p.groups * p.splits;
    const int tiles = max(0, (all.count - own + stride - 1) / stride);
    TileRing<T, kHeadDim, kRagged> ring(p, block, rings + group * p.slots * kTile.slot(), group,
                                        all.first + own, tiles);
    const int row = first_row + warp_row;
    const KeyBounds bounds = key_bounds<kOptions>(p, block, row, kTile.warp_rows());

    State state;
    clear(state);
    if (kOptions && p.sinks != nullptr && own == 0) {
#pragma unroll
        for (int i = 0; i < 2 * State::kRowTiles; ++i) {
            const int lane = static_cast<int>(threadIdx.x % 32);
            begin_at_sink(state.m[i / 2][i % 2], state.l[i / 2][i % 2], p, block, row + i * 8 + lane / 4);
        }
    }
    if (p.slots == kTile.slots()) {
        kit::cp_async_wait<kTile.slots() - 1>();
    } else {
        kit::cp_async_wait<1>();
    }
    __syncthreads();  // the queries are there
    for (int tile = 0; tile < tiles; ++tile) {
        const int key = ring.first_key(tile);
        const bool seen = key < bounds.end && (!kOptions || key + kKeys > bounds.first);
        Weights<State::kRowTiles> weights;
        const T* keys = ring.next();
        if (seen) {
            Scores<State::kRowTiles> s;
            multiply_scores<T, kHeadDim>(s, queries + warp_row * kTile.pitch(), keys);
            if (kOptions && p.capped) cap_scores<State::kRowTiles>(s, p.cap_factor);
            if (key + kKeys > bounds.all_end || (kOptions && key < bounds.all_first) ||
                ring.mask() != nullptr) {
                mask_scores<kOptions, State::kRowTiles>(s, p, block, ring.mask(), row, key);
            }
            softmax_step<T>(weights, s, state, p.scale_log2);
        }
        const T* values = ring.next();
        if (seen) accumulate<T>(state, weights, values);
    }

    if (p.splits > 1) kit::dependents_launch();  // the merge may take its place; it waits for the end
    complete_sums(state);
    merge_groups(state, p, reinterpret_cast<char*>(rings));
    if (group > 0) return;
    if (p.splits > 1) {
        store_partial(state, p, block, row);
    } else {
        store_rows<T>(state, p, block, queries + warp_row * kTile.pitch(), row);
    }
}

constexpr int kMergedAtOnce = 8;

// What:    out = sum_s w_s partial_s, w_s = exp2(lse_s) / sum exp2(lse), over the splits s
// Mapping: a warp a row; lane s holds split s's weight, columns run over the lanes, in fours
// Traffic: splits * v_dim * 4 bytes a row, from L2
// Needs:   splits <= 32
template <class T>
__global__ void __launch_bounds__(128) attention_merge(const AttentionParams p) {
    kit::dependency_wait();
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32,
                       heads = p.heads;
    if (index >= heads * p.rows) return;
    const std::int64_t head = index / p.rows;
    const int row = static_cast<int>(index % p.rows);
    const std::int64_t token = p.token(row), q_head = head % p.kv_heads * p.group + row - token * p.group;
    const auto offset = [&](const AttentionStrides& stride) {
        return head / p.kv_heads * stride.batch + token * stride.token + q_head * stride.head;
    };

    const float lse = lane < p.splits ? p.partial_lse[lane * heads * p.rows + index] : minus_infinity();
    float top = lse;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) top = fmaxf(top, kit::shuffle_xor(top, i));
    float weight = lse == minus_infinity() ? 0.0f : kit::exp2_approximate(lse - top), sum = weight;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) sum += kit::shuffle_xor(sum, i);
    weight = sum == 0.0f ? 0.0f : weight / sum;
    if (p.lse != nullptr && lane == 0)
        p.lse[offset(p.lse_stride)] = (top + log2f(sum)) * 0.693147180559945309f;

    // Four columns a lane, where rows have whole such pieces; of some splits at once, since each is far away.
    T* out = static_cast<T*>(p.out) + offset(p.out_stride);
    const float* from = p.partial + index * p.v_dim;
    const std::int64_t split_stride = heads * p.rows * p.v_dim;
    const int width = p.v_dim % 4 == 0 ? 4 : 1;
    for (int first = 0; first < p.v_dim; first += 32 * width) {
        const int column = first + lane * width;
        float total[4] = {};
        for (int begin = 0; begin < p.splits; begin += kMergedAtOnce) {
            float4 part[kMergedAtOnce];
#pragma unroll
            for (int s = 0; s < kMergedAtOnce; ++s) {
                const float* at = from + min(begin + s, p.splits - 1) * split_stride + column;
                part[s] = column >= p.v_dim ? float4{}
                          : width == 4      ? *reinterpret_cast<const float4*>(at)
                                            : float4{*at, 0, 0, 0};
            }
#pragma unroll
            for (int s = 0; s < kMergedAtOnce; ++s) {
                const float w = kit::shuffle(weight, min(begin + s, 31));
                if (begin + s >= p.splits) continue;
                total[0] += w * part[s].x, total[1] += w * part[s].y;
                total[2] += w * part[s].z, total[3] += w * part[s].w;
            }
        }
        for (int i = 0; i < width && column < p.v_dim; ++i) out[column + i] = kit::from_float<T>(total[i]);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
