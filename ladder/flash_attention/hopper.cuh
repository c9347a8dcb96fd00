// What the rungs for Hopper share: who has which queries, tiles of tokens that the copy engine brings, and a warpgroup's
// 64 queries by a tile of keys in wgmma. A lane has two rows, eight apart, and pairs of columns of each
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

// Columns in boxes as wide as a swizzle.
template <int kTokens, int kHead>
struct HeadTile {
    HalfTile<kTokens, 64, Banks::swizzled> box[kHead / 64];
};

// What a kernel is compiled for: the most columns of a head, the keys of a tile, and the warpgroups that compute, behind
// one that brings.
template <int kHeadDim, int kTileKeys, int kWarpgroups>
struct Hopper {
    static constexpr int kHead = kHeadDim, kKeys = kTileKeys, kGroups = kWarpgroups, kRows = 64 * kGroups,
                         kThreads = 128 * (kGroups + 1);
    using Queries = HeadTile<kRows, kHead>;
    using Tile = HeadTile<kKeys, kHead>;
    static constexpr int kSlots =
        std::min<int>(12, (225 * 1024 - sizeof(Queries)) / sizeof(Tile));  // of 227 KiB
    // Of the 64 Ki registers of a multiprocessor.
    static constexpr int kBringing = 24, kComputing = kGroups == 2 ? 240 : 160;
};

struct HeadMaps {
    kit::TensorMap q, k, v;
};

// Queries of one head from `first` on, as many as a tile has, and the tiles of keys that the last of them sees.
struct Place {
    int batch, head, first, tiles;
};

// use(place) for the places of a block. The last queries first, which causally see most keys, and blocks are dealt forwards
// and backwards in turn. Without a mask four heads at a time, so that their keys and values stay in L2.
template <int kRows, int kKeys, class Use>
__device__ __forceinline__ void for_places(const Calls& c, std::int64_t places, Use use) {
    const std::int64_t heads = places / c.tiles, at_once = c.causal ? heads : 4;
    bool backwards = false;
    for (std::int64_t dealt = 0; dealt < places; dealt += gridDim.x, backwards = !backwards) {
        const std::int64_t place = dealt + (backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
        if (place >= places) continue;
        const std::int64_t before = place / (at_once * c.tiles) * at_once,
                           together = min(heads - before, at_once), within = place % (at_once * c.tiles);
        const auto first = static_cast<int>((c.tiles - 1 - within / together) * kRows);
        const auto head = static_cast<int>(before + within % together), q_heads = static_cast<int>(c.q_heads);
        const std::int64_t last = min(std::int64_t{first} + kRows, c.q_tokens) - 1;
        use(Place{head / q_heads, head % q_heads, first,
                  kit::warp_uniform(static_cast<int>((keys_of(c, last) + kKeys - 1) / kKeys))});
    }
}

// A block's shared memory: queries, and a ring of tiles, keys and values in turn. Items are numbered through.
template <class H>
struct HeadRing {
    using Tile = typename H::Tile;
    static constexpr int kSlots = H::kSlots;
    static constexpr std::size_t kBytes =
        1024 + sizeof(typename H::Queries) + kSlots * sizeof(Tile) + 2 * (kSlots + 1) * sizeof(kit::Mbarrier);
    typename H::Queries* queries;
    Tile* slots;
    kit::Mbarrier *full, *empty;  // one a slot, and one for the queries

    __device__ __forceinline__ HeadRing() {
        queries =
            reinterpret_cast<typename H::Queries*>(kit::align_shared<1024>(kit::dynamic_shared<char>()));
        slots = reinterpret_cast<Tile*>(queries + 1);
        full = reinterpret_cast<kit::Mbarrier*>(slots + kSlots);
        empty = full + kSlots + 1;
        if (threadIdx.x == 0) {
            for (int i = 0; i <= kSlots; ++i) {
                kit::mbarrier_init(&full[i], 1);
                kit::mbarrier_init(&empty[i], 4 * H::kGroups);
            }
            kit::fence_mbarrier_init();
        }
        __syncthreads();
    }
    // The n-th use of a slot, or of the queries: brings tokens of a head; they are there; a warp has left them.
    template <class To>
    __device__ __forceinline__ void bring(To& to, int slot, int n, const kit::TensorMap& map, int head,
                                          int token, int batch) const {
        if (n > 0) kit::mbarrier_wait(&empty[slot], (n - 1) & 1);
        kit::mbarrier_arrive_expect(&full[slot], sizeof(to));
#pragma unroll
        for (int i = 0; i < H::kHead / 64; ++i)
            kit::tma_load<4>(to.box[i].at, map, &full[slot], {64 * i, head, token, batch});
    }
    __device__ __forceinline__ void leave(int slot) const {
        __syncwarp();  // nor may any lane still wait for it
        if (lane_of_warp() == 0) kit::mbarrier_arrive(&empty[slot]);
    }
    __device__ __forceinline__ void await_queries(int n) const { kit::mbarrier_wait(&full[kSlots], n & 1); }
    __device__ __forceinline__ void leave_queries() const { leave(kSlots); }
    __device__ __forceinline__ Tile& item(int i) const { return slots[i % kSlots]; }
    __device__ __forceinline__ Tile& await_item(int i) const {
        kit::mbarrier_wait(&full[i % kSlots], i / kSlots & 1);
        return item(i);
    }
    __device__ __forceinline__ void leave_item(int i) const { leave(i % kSlots); }
};

// One thread.
template <class H>
__device__ __forceinline__ void bring_heads(const HeadRing<H>& ring, const HeadMaps& maps, const Calls& c,
                                            std::int64_t places) {
    const auto shared_by = static_cast<int>(c.q_heads / c.kv_heads);
    int item = 0, n = 0;
    for_places<H::kRows, H::kKeys>(c, places, [&](const Place& p) {
        ring.bring(*ring.queries, H::kSlots, n++, maps.q, p.head, p.first, p.batch);
        for (int i = 0; i < 2 * p.tiles; ++i, ++item)
            ring.bring(ring.item(item), item % H::kSlots, item / H::kSlots, i % 2 == 0 ? maps.k : maps.v,
                       p.head / shared_by, i / 2 * H::kKeys, p.batch);
    });
}

// Of a warpgroup: the output so far, with the maximum and the sum of each of a lane's rows; what the rows see.
template <class H>
struct GroupRows {
    float out[H::kHead / 2] = {}, top[2] = {minus_infinity(), minus_infinity()}, sum[2] = {};
    int row, sees[2], clear;  // the lane's first row; keys; tiles that all rows see

    __device__ __forceinline__ GroupRows(const Calls& c, const Place& p, int group) {
        const int first = p.first + 64 * group;
        row = first + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane_of_warp() / 4;
        sees[0] = static_cast<int>(keys_of(c, row)), sees[1] = static_cast<int>(keys_of(c, row + 8));
        clear = kit::warp_uniform(static_cast<int>(keys_of(c, first) / H::kKeys));
    }
};
template <class H>
using GroupScores = float[H::kKeys / 2];
template <class H>
using GroupWeights = std::uint32_t[H::kKeys / 16][4];

// Issues scores = the group's queries · keysᵀ.
template <class H>
__device__ __forceinline__ void issue_scores(GroupScores<H>& scores, const HeadRing<H>& ring, int group,
                                             typename H::Tile& keys) {
    auto& rows = ring.queries->box[0];
    const auto q = kit::matrix_descriptor(rows.chunk(64 * group, 0), kit::Swizzle::bytes128, 1024);
    const auto k = kit::matrix_descriptor(keys.box[0].at, kit::Swizzle::bytes128, 1024);
#pragma unroll
    for (int i = 0; i < H::kHead / 16; ++i) {
        constexpr int kRowsBox = sizeof(rows), kKeysBox = sizeof(keys.box[0]);
        kit::wgmma<__half, __half, H::kKeys>(scores, q.moved(i / 4 * kRowsBox + i % 4 * 32),
                                             k.moved(i / 4 * kKeysBox + i % 4 * 32), i > 0);
    }
    kit::wgmma_commit();
}
// Issues out += weights · values. Weights are in registers: a lane has them where it had the scores.
template <class H>
__device__ __forceinline__ void issue_values(GroupRows<H>& rows, const GroupWeights<H>& weights,
                                             typename H::Tile& values) {
    const auto v =
        kit::matrix_descriptor(values.box[0].at, kit::Swizzle::bytes128, 1024, sizeof(values.box[0]));
#pragma unroll
    for (int i = 0; i < H::kKeys / 16; ++i)
        kit::wgmma<__half, __half, H::kHead, kit::Major::mn>(rows.out, weights[i], v.moved(2048 * i), true);
    kit::wgmma_commit();
}

__device__ __forceinline__ std::uint32_t pair_of_halves(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    std::uint32_t bits;
    memcpy(&bits, &pair, sizeof(bits));
    return bits;
}

// The maxima take these scores in, and what was summed shrinks by as much.
template <class H>
__device__ __forceinline__ void raise_tops(GroupRows<H>& rows, const GroupScores<H>& scores, float scale) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float top = rows.top[h];
#pragma unroll
        for (int i = 2 * h; i < H::kKeys / 2; i += 4) top = fmaxf(top, fmaxf(scores[i], scores[i + 1]));
        top = fmaxf(top, kit::shuffle_xor(top, 1));
        top = fmaxf(top, kit::shuffle_xor(top, 2));
        const float shrink = shrink_of(rows.top[h], top, scale);
        rows.top[h] = top, rows.sum[h] *= shrink;
#pragma unroll
        for (int i = 2 * h; i < H::kHead / 2; i += 4) rows.out[i] *= shrink, rows.out[i + 1] *= shrink;
    }
}

// One step of online softmax, for the tile of this number. Any maximum that keeps weights within halves is as good as the
// largest score, and the sum of the weights, which is needed anyway, says whether it does: only where it does not, or at
// the first tile, is the maximum looked for. With none yet the sum is infinite, or no number.
template <class H>
__device__ __forceinline__ void weigh_scores(GroupWeights<H>& weights, GroupScores<H>& scores,
                                             GroupRows<H>& rows, int tile, float scale) {
    constexpr float kMost = 16384;
    if (tile >= rows.clear) {
#pragma unroll
        for (int i = 0; i < H::kKeys / 2; ++i) {
            const int key = tile * H::kKeys + i / 4 * 8 + lane_of_warp() % 4 * 2 + i % 2;
            if (key >= rows.sees[i / 2 % 2]) scores[i] = minus_infinity();
        }
    }
#pragma unroll 1
    for (bool raised = tile == 0;; raised = true) {
        float base[2], sums[2] = {};
        if (raised) raise_tops<H>(rows, scores, scale);
#pragma unroll
        for (int h = 0; h < 2; ++h)
            base[h] = raised && rows.top[h] == minus_infinity() ? 0.0f : -rows.top[h] * scale;
#pragma unroll
        for (int i = 0; i < H::kKeys / 2; i += 2) {
            const int h = i / 2 % 2;
            const float low = kit::exp2_approximate(fmaf(scores[i], scale, base[h])),
                        high = kit::exp2_approximate(fmaf(scores[i + 1], scale, base[h]));
            sums[h] += low + high;
            weights[i / 8][i / 2 % 4] = pair_of_halves(low, high);
        }
        if (raised || !kit::any(!(sums[0] <= kMost && sums[1] <= kMost))) {
            rows.sum[0] += sums[0], rows.sum[1] += sums[1];
            return;
        }
    }
}

template <class H>
__device__ __forceinline__ void store_out(const GroupRows<H>& rows, const Calls& c, const Place& p) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float sum = rows.sum[h] + kit::shuffle_xor(rows.sum[h], 1);
        sum += kit::shuffle_xor(sum, 2);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        const std::int64_t query = rows.row + 8 * h;
        __half* to = c.out + ((p.batch * c.q_tokens + query) * c.q_heads + p.head) * c.head_dim;
#pragma unroll
        for (int i = 2 * h; i < H::kHead / 2; i += 4) {
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

// Boxes of 64 columns by so many tokens of one head.
inline kit::TensorMap head_map(const Tensor& t, int tokens) {
    kit::TensorLayout layout{.data = t.data, .axes = 4, .swizzle = kit::Swizzle::bytes128};
    std::uint64_t stride = 2;
    for (int i = 0; i < 4; ++i) {
        layout.size[i] = static_cast<std::uint64_t>(t.dim(3 - i)), layout.box[i] = 1,
        layout.stride[i] = stride;
        stride *= layout.size[i];
    }
    layout.box[0] = 64, layout.box[2] = static_cast<std::uint32_t>(tokens);
    return kit::tensor_map("attention", layout);
}

template <class H>
void launch_hopper(const char* name, void (*kernel)(HeadMaps, Calls, std::int64_t), const Attention& op,
                   Context& context) {
    const Calls calls = calls_of(op, H::kRows);
    const std::int64_t places = calls.tiles * op.q.dim(0) * op.q.dim(2);
    const HeadMaps maps{head_map(op.q, H::kRows), head_map(op.k, H::kKeys), head_map(op.v, H::kKeys)};
    kit::launch(name, kernel,
                {.grid = dim3(static_cast<unsigned>(std::min<std::int64_t>(places, context.info().sms))),
                 .block = H::kThreads,
                 .dynamic_shared = HeadRing<H>::kBytes,
                 .dependent = true},
                context.stream(), maps, calls, places);
}

}  // namespace weft::inline WEFT_TARGET
