// What the rungs for Hopper share: who has which queries, tiles of 128 tokens that the copy engine brings, and a
// warpgroup's 64 queries by a tile of keys in wgmma. A lane has two rows, eight apart, and pairs of columns of each
// piece of eight, in sums 4 j and 4 j + 1, and 4 j + 2 and 4 j + 3. Needs SM 9.0a.
#pragma once

#include "kit/ptx/approximate.cuh"
#include "kit/ptx/barrier.cuh"
#include "kit/ptx/elect.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/registers.cuh"
#include "kit/ptx/shuffle.cuh"
#include "kit/ptx/tma.cuh"
#include "kit/ptx/wgmma.cuh"
#include "ladder/flash_attention/attend.h"
#include "ladder/half_tile.cuh"

namespace weft::inline WEFT_TARGET {

// Of a block: two warpgroups that compute, behind one that brings.
inline constexpr int kTokens = 128, kHopperThreads = 3 * 128;

// Columns in boxes as wide as a swizzle.
template <int kHead>
struct HeadTile {
    HalfTile<kTokens, 64, Banks::swizzled> box[kHead / 64];
};

struct HeadMaps {
    kit::TensorMap q, k, v;
};

// Queries of one head from `first` on, as many as a tile has, and the tiles of keys that the last of them sees.
struct Place {
    int batch, head, first, tiles;
};

// use(place) for the places of a block. Those of all heads' last queries come first, which causally see most keys, and
// blocks are dealt them forwards and backwards in turn: so all end at about the same time.
template <class Use>
__device__ __forceinline__ void for_places(const Calls& c, std::int64_t places, Use use) {
    const std::int64_t heads = places / c.tiles;
    for (std::int64_t dealt = 0; dealt < places; dealt += gridDim.x) {
        const bool backwards = dealt / gridDim.x % 2 != 0;
        const std::int64_t place = dealt + (backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
        if (place >= places) continue;
        const auto first = static_cast<int>((c.tiles - 1 - place / heads) * kTokens);
        const auto head = static_cast<int>(place % heads), q_heads = static_cast<int>(c.q_heads);
        const std::int64_t last = min(std::int64_t{first} + kTokens, c.q_tokens) - 1;
        use(Place{head / q_heads, head % q_heads, first,
                  kit::warp_uniform(static_cast<int>((keys_of(c, last) + kTokens - 1) / kTokens))});
    }
}

// A block's shared memory: queries, and a ring of tiles, keys and values in turn. Items are numbered through.
template <int kHead>
struct HeadRing {
    using Tile = HeadTile<kHead>;
    static constexpr int kSlots = kHead == 64 ? 12 : 6;
    static constexpr std::size_t kBytes =
        1024 + (kSlots + 1) * sizeof(Tile) + 2 * (kSlots + 1) * sizeof(kit::Mbarrier);
    Tile *slots, *queries;
    kit::Mbarrier *full, *empty;  // one a slot, and one for the queries

    __device__ __forceinline__ HeadRing() {
        slots = reinterpret_cast<Tile*>(kit::align_shared<1024>(kit::dynamic_shared<char>()));
        queries = slots + kSlots;
        full = reinterpret_cast<kit::Mbarrier*>(queries + 1);
        empty = full + kSlots + 1;
        if (threadIdx.x == 0) {
            for (int i = 0; i <= kSlots; ++i) {
                kit::mbarrier_init(&full[i], 1);
                kit::mbarrier_init(&empty[i], 2 * 4);
            }
            kit::fence_mbarrier_init();
        }
        __syncthreads();
    }
    // The n-th use of a slot or of the queries: brings 128 tokens of a head; is there; has been left by a warp.
    __device__ __forceinline__ void bring(int slot, int n, const kit::TensorMap& map, int head, int token,
                                          int batch) const {
        if (n > 0) kit::mbarrier_wait(&empty[slot], (n - 1) & 1);
        kit::mbarrier_arrive_expect(&full[slot], sizeof(Tile));
#pragma unroll
        for (int i = 0; i < kHead / 64; ++i)
            kit::tma_load<4>(slots[slot].box[i].at, map, &full[slot], {64 * i, head, token, batch});
    }
    __device__ __forceinline__ void await(int slot, int n) const { kit::mbarrier_wait(&full[slot], n & 1); }
    __device__ __forceinline__ void leave(int slot) const {
        __syncwarp();  // nor may any lane still wait for it
        if (lane_of_warp() == 0) kit::mbarrier_arrive(&empty[slot]);
    }
    __device__ __forceinline__ Tile& item(int i) const { return slots[i % kSlots]; }
    __device__ __forceinline__ Tile& await_item(int i) const {
        await(i % kSlots, i / kSlots);
        return item(i);
    }
    __device__ __forceinline__ void leave_item(int item) const { leave(item % kSlots); }
};

// One thread.
template <int kHead>
__device__ __forceinline__ void bring_heads(const HeadRing<kHead>& ring, const HeadMaps& maps, const Calls& c,
                                            std::int64_t places) {
    constexpr int kSlots = HeadRing<kHead>::kSlots;
    const auto shared_by = static_cast<int>(c.q_heads / c.kv_heads);
    int item = 0, n = 0;
    for_places(c, places, [&](const Place& p) {
        ring.bring(kSlots, n++, maps.q, p.head, p.first, p.batch);
        for (int i = 0; i < 2 * p.tiles; ++i, ++item)
            ring.bring(item % kSlots, item / kSlots, i % 2 == 0 ? maps.k : maps.v, p.head / shared_by,
                       i / 2 * kTokens, p.batch);
    });
}

// Of a warpgroup: the output so far, with the maximum and the sum of each of a lane's rows; what the rows see.
template <int kHead>
struct GroupRows {
    float out[kHead / 2] = {}, top[2] = {minus_infinity(), minus_infinity()}, sum[2] = {};
    int row, sees[2], clear;  // the lane's first row; keys; tiles that all rows see

    __device__ __forceinline__ GroupRows(const Calls& c, const Place& p, int group) {
        const int first = p.first + 64 * group;
        row = first + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane_of_warp() / 4;
        sees[0] = static_cast<int>(keys_of(c, row)), sees[1] = static_cast<int>(keys_of(c, row + 8));
        clear = kit::warp_uniform(static_cast<int>(keys_of(c, first) / kTokens));
    }
};
using GroupScores = float[kTokens / 2];
using GroupWeights = std::uint32_t[kTokens / 16][4];

// Issues scores = the group's queries · keysᵀ.
template <int kHead>
__device__ __forceinline__ void issue_scores(GroupScores& scores, HeadTile<kHead>& queries, int group,
                                             HeadTile<kHead>& keys) {
    const auto q = kit::matrix_descriptor(queries.box[0].chunk(64 * group, 0), kit::Swizzle::bytes128, 1024);
    const auto k = kit::matrix_descriptor(keys.box[0].at, kit::Swizzle::bytes128, 1024);
#pragma unroll
    for (int i = 0; i < kHead / 16; ++i) {
        const int at = i / 4 * static_cast<int>(sizeof(keys.box[0])) + i % 4 * 32;
        kit::wgmma<__half, __half, kTokens>(scores, q.moved(at), k.moved(at), i > 0);
    }
    kit::wgmma_commit();
}
// Issues out += weights · values. Weights are in registers: a lane has them where it had the scores.
template <int kHead>
__device__ __forceinline__ void issue_values(float (&out)[kHead / 2], const GroupWeights& weights,
                                             HeadTile<kHead>& values) {
    const auto v =
        kit::matrix_descriptor(values.box[0].at, kit::Swizzle::bytes128, 1024, sizeof(values.box[0]));
#pragma unroll
    for (int i = 0; i < kTokens / 16; ++i)
        kit::wgmma<__half, __half, kHead, kit::Major::mn>(out, weights[i], v.moved(2048 * i), true);
    kit::wgmma_commit();
}

// One step of online softmax, for the tile of this number.
template <int kHead>
__device__ __forceinline__ void weigh_scores(GroupWeights& weights, GroupScores& scores,
                                             GroupRows<kHead>& rows, int tile, float scale) {
    float base[2], shrink[2];
    if (tile >= rows.clear) {
#pragma unroll
        for (int i = 0; i < kTokens / 2; ++i) {
            const int key = tile * kTokens + i / 4 * 8 + lane_of_warp() % 4 * 2 + i % 2;
            if (key >= rows.sees[i / 2 % 2]) scores[i] = minus_infinity();
        }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float top = fmaxf(scores[2 * h], scores[2 * h + 1]);
#pragma unroll
        for (int i = 4; i < kTokens / 2; i += 4)
            top = fmaxf(top, fmaxf(scores[i + 2 * h], scores[i + 2 * h + 1]));
        top = fmaxf(top, kit::shuffle_xor(top, 1));
        top = fmaxf(fmaxf(top, kit::shuffle_xor(top, 2)), rows.top[h]);
        base[h] = top == minus_infinity() ? 0.0f : -top * scale;
        shrink[h] = kit::exp2_approximate(fmaf(rows.top[h], scale, base[h]));
        rows.top[h] = top, rows.sum[h] *= shrink[h];
    }
    if (kit::any(shrink[0] != 1.0f || shrink[1] != 1.0f)) {
#pragma unroll
        for (int i = 0; i < kHead / 2; ++i) rows.out[i] *= shrink[i / 2 % 2];
    }
#pragma unroll
    for (int i = 0; i < kTokens / 2; i += 2) {
        const int h = i / 2 % 2;
        const float low = kit::exp2_approximate(fmaf(scores[i], scale, base[h])),
                    high = kit::exp2_approximate(fmaf(scores[i + 1], scale, base[h]));
        rows.sum[h] += low + high;
        const __half2 pair = __floats2half2_rn(low, high);
        memcpy(&weights[i / 8][i / 2 % 4], &pair, sizeof(pair));
    }
}

template <int kHead>
__device__ __forceinline__ void store_out(GroupRows<kHead>& rows, const Calls& c, const Place& p) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float sum = rows.sum[h] + kit::shuffle_xor(rows.sum[h], 1);
        sum += kit::shuffle_xor(sum, 2);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        const std::int64_t query = rows.row + 8 * h;
        __half* to = c.out + ((p.batch * c.q_tokens + query) * c.q_heads + p.head) * c.head_dim;
#pragma unroll
        for (int i = 2 * h; i < kHead / 2; i += 4) {
            const int column = i / 4 * 8 + lane_of_warp() % 4 * 2;
            if (query < c.q_tokens && column < c.head_dim)
                *reinterpret_cast<__half2*>(to + column) =
                    __floats2half2_rn(rows.out[i] * inverse, rows.out[i + 1] * inverse);
        }
    }
}

inline const char* decline_hopper(const Attention& op, const DeviceInfo& device) {
    if (const char* why = decline_attention(op, 128)) return why;
    if (device.arch < 90 || device.arch >= 100) return "wgmma and its copies are of SM 9.0";
    if (op.q.dim(3) % 8 != 0 || op.k.dim(1) == 0)
        return "the copy engine takes rows of whole 16 bytes, and some";
    for (const Tensor* t : {&op.q, &op.k, &op.v, &op.out}) {
        if (!starts_aligned(*t, 16))
            return "the copy engine takes tensors that start at a multiple of 16 bytes";
        if (t->dim(1) > 1 << 30) return "counts tokens in ints";
    }
    return nullptr;
}

// Boxes of 64 columns by 128 tokens of one head.
inline kit::TensorMap head_map(const Tensor& t) {
    kit::TensorLayout layout{.data = t.data, .axes = 4, .swizzle = kit::Swizzle::bytes128};
    std::uint64_t stride = 2;
    const std::int64_t sizes[] = {t.dim(3), t.dim(2), t.dim(1), t.dim(0)};
    for (int i = 0; i < 4; ++i) {
        layout.size[i] = static_cast<std::uint64_t>(sizes[i]), layout.box[i] = 1, layout.stride[i] = stride;
        stride *= layout.size[i];
    }
    layout.box[0] = 64, layout.box[2] = kTokens;
    return kit::tensor_map("attention", layout);
}

template <int kHead>
void launch_hopper(const char* name, void (*kernel)(HeadMaps, Calls, std::int64_t), const Attention& op,
                   Context& context) {
    const Calls calls = calls_of(op, kTokens);
    const std::int64_t places = calls.tiles * op.q.dim(0) * op.q.dim(2);
    const HeadMaps maps{head_map(op.q), head_map(op.k), head_map(op.v)};
    kit::launch(name, kernel,
                {.grid = dim3(static_cast<unsigned>(std::min<std::int64_t>(places, context.info().sms))),
                 .block = kHopperThreads,
                 .dynamic_shared = HeadRing<kHead>::kBytes,
                 .dependent = true},
                context.stream(), maps, calls, places);
}

}  // namespace weft::inline WEFT_TARGET
