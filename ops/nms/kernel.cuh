// nms' kernels.
#pragma once

#include "kit/convert.cuh"
#include "kit/order.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/reduce.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kRankThreads = 256, kBits = 64, kResolveThreads = 512;

struct NmsParams {
    const float* boxes;
    const void* scores;
    std::int64_t stride;  // of boxes
    DType scores_dtype;
    unsigned n, words;  // words of 64 boxes
    float threshold;
    unsigned* order;  // of the scores: which box is i-th
    // Bit j of word w of box i of that order, at [w][i]: box 64·w + j, a later one, overlaps it.
    unsigned long long* covers;
    void* keep;
    DType keep_dtype;
    int* count;
};

struct RankTile {
    std::uint64_t at[kRankThreads];
};

// What     order[number of boxes before i] = i
// Mapping  a thread a box, which counts the ranks above its own, tile by tile through shared memory
// Traffic  the scores once a block, from L2; n² comparisons
// Needs    ranks differ, so that every place is taken once
__global__ void __launch_bounds__(kRankThreads) nms_order(const __grid_constant__ NmsParams p) {
    std::uint64_t (&tile)[kRankThreads] = kit::block_shared<RankTile>().at;
    kit::dependency_wait();
    kit::dependents_launch();
    const unsigned own = blockIdx.x * kRankThreads + threadIdx.x;
    const auto rank = [&](unsigned i) {
        return i < p.n ? kit::ranked(kit::load_as(p.scores_dtype, p.scores, i), i) : 0;
    };
    const std::uint64_t mine = rank(own);
    unsigned before = 0;
    for (unsigned first = 0; first < p.n; first += kRankThreads) {
        tile[threadIdx.x] = rank(first + threadIdx.x);
        __syncthreads();
        for (const std::uint64_t other : tile) before += other > mine ? 1 : 0;
        __syncthreads();
    }
    if (own < p.n) p.order[before] = own;
}

__device__ __forceinline__ float4 box_at(const NmsParams& p, unsigned place) {
    const float* corner = p.boxes + p.order[place] * p.stride;
    return make_float4(corner[0], corner[1], corner[2], corner[3]);
}
__device__ __forceinline__ float area(float4 box) {
    return __fmul_rn(__fadd_rn(box.z, -box.x), __fadd_rn(box.w, -box.y));
}
__device__ __forceinline__ bool overlaps(float4 a, float4 b, float threshold) {
    const float width = fmaxf(__fadd_rn(fminf(a.z, b.z), -fmaxf(a.x, b.x)), 0.0f);
    const float height = fmaxf(__fadd_rn(fminf(a.w, b.w), -fmaxf(a.y, b.y)), 0.0f);
    const float both = __fmul_rn(width, height);
    return __fdiv_rn(both, __fadd_rn(__fadd_rn(area(a), area(b)), -both)) > threshold;
}

struct BoxTile {
    float4 at[kBits];
};

// What     covers[w][i]: which of the boxes 64·w … 64·w + 63 come after i and overlap it; nothing where all are before i
// Mapping  a block of 64 threads a tile of 64×64 pairs, a thread a row of it
// Traffic  n²/16 bytes written; 30 operations a pair
// Needs    order
__global__ void __launch_bounds__(kBits) nms_covers(const __grid_constant__ NmsParams p) {
    float4(&tile)[kBits] = kit::block_shared<BoxTile>().at;
    kit::dependency_wait();
    kit::dependents_launch();
    const unsigned word = blockIdx.x, own = blockIdx.y * kBits + threadIdx.x;
    if (word < blockIdx.y) return;
    const unsigned first = word * kBits, left = min(p.n - first, static_cast<unsigned>(kBits));
    if (threadIdx.x < left) tile[threadIdx.x] = box_at(p, first + threadIdx.x);
    __syncthreads();
    if (own >= p.n) return;
    unsigned long long bits = 0;
    const float4 box = box_at(p, own);
    for (unsigned j = 0; j < left; ++j) {
        if (first + j > own && overlaps(box, tile[j], p.threshold)) bits |= 1ull << j;
    }
    p.covers[std::uint64_t{word} * p.n + own] = bits;
}

__device__ __forceinline__ unsigned long long cover(const NmsParams& p, unsigned word, unsigned box) {
    return box < p.n ? p.covers[std::uint64_t{word} * p.n + box] : 0;
}
__device__ __forceinline__ bool has(unsigned long long bits, unsigned i) { return (bits >> i & 1) != 0; }

struct Or {
    __device__ __forceinline__ unsigned long long operator()(unsigned long long a,
                                                             unsigned long long b) const {
        return a | b;
    }
};

// Of a lane of the warp that settles words: boxes 32 apart.
struct Covers {
    unsigned long long low, high;
    __device__ __forceinline__ Covers(const NmsParams& p, unsigned word, unsigned box)
        : low(cover(p, word, box)), high(cover(p, word, box + 32)) {}
};

struct Resolved {
    unsigned long long own[kBits];  // of the word's boxes: which others of it each covers
    unsigned long long
        covered[2][kResolveThreads / 32];  // of a word by boxes far before it: what each warp found
};

// Box by box those that none before covers. What a box covers lies behind it: its own bit is final when its turn comes, and no
// step waits for memory.
__device__ __forceinline__ unsigned long long settle(const unsigned long long (&own)[kBits],
                                                     unsigned long long gone) {
#pragma unroll
    for (int i = 0; i < kBits; ++i) {
        if (!has(gone, i)) gone |= own[i];
    }
    return ~gone;
}

// What     kept: a word of each 64 boxes in the order of scores, those that no kept one covers; and how many are in the words
//          before
// Mapping  one block, a word after the other. The first warp settles it, each box after the one before; the words' covers it
//          has asked for a word ahead. Meanwhile the others gather what boxes kept earlier cover of the next word, so that
//          only those of the word just settled are left to add.
// Traffic  covers of the kept boxes once, by one multiprocessor
// Needs    covers
__device__ __forceinline__ void settle_words(const NmsParams& p, Resolved& shared, unsigned long long* kept,
                                             unsigned* before) {
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned others = kResolveThreads - 32;
    Covers own(p, 0, lane), last = own;  // of the word, by boxes of itself and of the word before
    unsigned long long verdict = 0;      // of the word before
    unsigned count = 0;
    for (unsigned word = 0; word < p.words; ++word) {
        const unsigned first = word * kBits, next = word + 1;
        if (warp == 0) {
            unsigned long long gone =
                word > 0 && lane > 0 && lane < kResolveThreads / 32 ? shared.covered[word % 2][lane] : 0;
            if (has(verdict, lane)) gone |= last.low;
            if (has(verdict, lane + 32)) gone |= last.high;
            shared.own[lane] = own.low, shared.own[lane + 32] = own.high;
            __syncwarp();
            if (next < p.words)
                own = Covers(p, next, first + kBits + lane), last = Covers(p, next, first + lane);
            verdict = settle(shared.own, kit::warp_reduce(gone, Or{}));
            if (p.n - first < kBits) verdict &= (1ull << (p.n - first)) - 1;
            if (lane == 0) kept[word] = verdict, before[word] = count;
            count += static_cast<unsigned>(__popcll(verdict));
        } else if (next < p.words) {
            unsigned long long found = 0;
#pragma unroll 4
            for (unsigned i = threadIdx.x - 32; i < first; i += others)
                found |= has(kept[i / kBits], i % kBits) ? cover(p, next, i) : 0;
            found = kit::warp_reduce(found, Or{});
            if (lane == 0) shared.covered[next % 2][warp] = found;
        }
        __syncthreads();
    }
}

// What     keep and count, from the words of kept boxes
// Mapping  one block, all of whose threads write once every word is settled
// Traffic  order and keep once
// Needs    12 dynamic shared bytes for each word of boxes
__global__ void __launch_bounds__(kResolveThreads) nms_resolve(const __grid_constant__ NmsParams p) {
    auto* kept = kit::dynamic_shared<unsigned long long>();
    auto* before = reinterpret_cast<unsigned*>(kept + p.words);
    kit::dependency_wait();
    kit::dependents_launch();
    settle_words(p, kit::block_shared<Resolved>(), kept, before);
    const auto set_kept = [&](unsigned i, long long index) {
        if (p.keep_dtype == DType::int64) {
            static_cast<long long*>(p.keep)[i] = index;
        } else {
            static_cast<int*>(p.keep)[i] = static_cast<int>(index);
        }
    };
    for (unsigned i = threadIdx.x; i < p.n; i += kResolveThreads) {
        const unsigned long long bits = kept[i / kBits], bit = 1ull << i % kBits;
        if ((bits & bit) != 0)
            set_kept(before[i / kBits] + static_cast<unsigned>(__popcll(bits & (bit - 1))), p.order[i]);
    }
    const unsigned count =
        p.words > 0 ? before[p.words - 1] + static_cast<unsigned>(__popcll(kept[p.words - 1])) : 0;
    for (unsigned i = count + threadIdx.x; i < p.n; i += kResolveThreads) set_kept(i, -1);
    if (threadIdx.x == 0) *p.count = static_cast<int>(count);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
