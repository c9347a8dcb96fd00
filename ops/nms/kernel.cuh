// nms' kernels.
#pragma once

#include "kit/convert.cuh"
#include "kit/order.cuh"
#include "kit/ptx/pdl.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kRankThreads = 256, kBits = 64, kResolveThreads = 256;

struct NmsParams {
    const float* boxes;
    const void* scores;
    std::int64_t stride;  // of boxes
    DType scores_dtype;
    unsigned n, words;  // words of 64 boxes
    float threshold;
    unsigned* order;  // of the scores: which box is i-th
    unsigned long long*
        covers;  // bit j of word w of box i of that order: box 64·w + j, a later one, overlaps it
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

// What     covers[i][w]: which of the boxes 64·w … 64·w + 63 come after i and overlap it
// Mapping  a block of 64 threads a tile of 64×64 pairs, a thread a row of it
// Traffic  n²/8 bytes written; 30 operations a pair
// Needs    order
__global__ void __launch_bounds__(kBits) nms_covers(const __grid_constant__ NmsParams p) {
    float4(&tile)[kBits] = kit::block_shared<BoxTile>().at;
    kit::dependency_wait();
    kit::dependents_launch();
    const unsigned word = blockIdx.x, own = blockIdx.y * kBits + threadIdx.x;
    const unsigned first = word * kBits, left = min(p.n - first, static_cast<unsigned>(kBits));
    if (threadIdx.x < left) tile[threadIdx.x] = box_at(p, first + threadIdx.x);
    __syncthreads();
    if (own >= p.n) return;
    unsigned long long bits = 0;
    if (word >= blockIdx.y) {
        const float4 box = box_at(p, own);
        for (unsigned j = 0; j < left; ++j) {
            if (first + j > own && overlaps(box, tile[j], p.threshold)) bits |= 1ull << j;
        }
    }
    p.covers[std::uint64_t{own} * p.words + word] = bits;
}

struct Resolved {
    unsigned long long own[kBits];  // of the word's boxes: which others of it each covers
    unsigned long long kept;
};

// What     keep and count: box by box in the order of scores, those that no kept one covers
// Mapping  one block. A word of 64 boxes at a time: one thread settles it alone, since each box may depend on the one
//          before; then all threads note what the kept ones cover, a word each
// Traffic  covers once, by one multiprocessor
// Needs    a dynamic shared word for each word of boxes
__global__ void __launch_bounds__(kResolveThreads) nms_resolve(const __grid_constant__ NmsParams p) {
    auto* removed = kit::dynamic_shared<unsigned long long>();
    Resolved& shared = kit::block_shared<Resolved>();
    kit::dependency_wait();
    kit::dependents_launch();
    const auto set_kept = [&](unsigned i, long long index) {
        if (p.keep_dtype == DType::int64) {
            static_cast<long long*>(p.keep)[i] = index;
        } else {
            static_cast<int*>(p.keep)[i] = static_cast<int>(index);
        }
    };
    for (unsigned w = threadIdx.x; w < p.words; w += kResolveThreads) removed[w] = 0;
    unsigned count = 0;  // of the kept ones; every thread counts
    for (unsigned word = 0; word < p.words; ++word) {
        const unsigned first = word * kBits, left = min(p.n - first, static_cast<unsigned>(kBits));
        if (threadIdx.x < left)
            shared.own[threadIdx.x] = p.covers[std::uint64_t{first + threadIdx.x} * p.words + word];
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned long long gone = removed[word], kept = 0;
            unsigned place = count;
            for (unsigned i = 0; i < left; ++i) {
                if ((gone >> i & 1) != 0) continue;
                kept |= 1ull << i;
                gone |= shared.own[i];
                set_kept(place++, p.order[first + i]);
            }
            shared.kept = kept;
        }
        __syncthreads();
        count += static_cast<unsigned>(__popcll(shared.kept));
        // Nobody waits for this: the next word's own boxes are read no more by now, and its first barrier follows.
        for (unsigned w = word + 1 + threadIdx.x; w < p.words; w += kResolveThreads) {
            unsigned long long covered = 0;
            for (unsigned i = 0; i < left; ++i) {
                if ((shared.kept >> i & 1) != 0) covered |= p.covers[std::uint64_t{first + i} * p.words + w];
            }
            removed[w] |= covered;
        }
    }
    for (unsigned i = count + threadIdx.x; i < p.n; i += kResolveThreads) set_kept(i, -1);
    if (threadIdx.x == 0) *p.count = static_cast<int>(count);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
