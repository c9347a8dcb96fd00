// top_k's kernel.
#pragma once

#include "kit/convert.cuh"
#include "kit/order.cuh"
#include "kit/ptx/pdl.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

struct TopKParams {
    const void *scores, *bias;  // bias may be null
    void *values, *indices;
    std::int64_t stride, values_stride, indices_stride;
    DType dtype, bias_dtype, values_dtype, indices_dtype;
    unsigned n, k, groups, top_groups, group_top;
    unsigned room;  // ranks that are sorted at a time: a power of two
};

// The best first. All threads of the block; `room` a power of two.
__device__ __forceinline__ void sort_descending(std::uint64_t* ranks, unsigned room) {
    for (unsigned size = 2; size <= room; size *= 2) {
        for (unsigned apart = size / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (unsigned i = threadIdx.x; i < room / 2; i += blockDim.x) {
                const unsigned low = 2 * i - (i & (apart - 1)), high = low + apart;
                const std::uint64_t a = ranks[low], b = ranks[high];
                const bool descending = (low & size) == 0;
                if ((a < b) != descending) continue;
                ranks[low] = b;
                ranks[high] = a;
            }
        }
    }
    __syncthreads();
}

__device__ __forceinline__ float key_of(const TopKParams& p, std::int64_t row, unsigned i) {
    const float score = kit::load_as(p.dtype, p.scores, row * p.stride + i);
    return p.bias != nullptr ? __fadd_rn(score, kit::load_as(p.bias_dtype, p.bias, i)) : score;
}

struct GroupScores {
    std::uint64_t at[1024];
};

// Which groups take part: those that fewer than top_groups others are before. All threads of the block.
__device__ __forceinline__ void leave_best_groups(const TopKParams& p, std::int64_t row,
                                                  std::uint64_t* ranks) {
    std::uint64_t (&scores)[1024] = kit::block_shared<GroupScores>().at;
    const unsigned each = p.n / p.groups;
    for (unsigned g = threadIdx.x; g < p.groups; g += blockDim.x) {
        std::uint64_t first = 0, second = 0;
        for (unsigned i = g * each; i < (g + 1) * each; ++i) {
            const std::uint64_t rank = ranks[i];
            second = rank > first ? first : rank > second ? rank : second;
            first = rank > first ? rank : first;
        }
        float score = key_of(p, row, kit::index_of(first));
        if (p.group_top > 1 && each > 1) score = __fadd_rn(score, key_of(p, row, kit::index_of(second)));
        scores[g] = kit::ranked(score, g);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < p.n; i += blockDim.x) {
        const std::uint64_t own = scores[i / each];
        unsigned better = 0;
        for (unsigned g = 0; g < p.groups; ++g) better += scores[g] > own ? 1 : 0;
        if (better >= p.top_groups) ranks[i] = 0;
    }
}

// What     the k largest of a row, and where they are
// Mapping  a block a row: bitonic sorts of unique ranks in shared memory. A row that is longer than there is room for is
//          taken piece by piece, the best k staying in front
// Traffic  scores once; the sort's exchanges decide
// Needs    k at most half of the room where the row is longer than that; groups only where it is not
__global__ void __launch_bounds__(256) top_k(const __grid_constant__ TopKParams p) {
    auto* ranks = kit::dynamic_shared<std::uint64_t>();
    kit::dependency_wait();
    kit::dependents_launch();
    const std::int64_t row = blockIdx.x;
    unsigned kept = 0;
    for (unsigned taken = 0; taken < p.n;) {
        const unsigned piece = min(p.n - taken, p.room - kept);
        for (unsigned i = threadIdx.x; i < p.room - kept; i += blockDim.x)
            ranks[kept + i] = i < piece ? kit::ranked(key_of(p, row, taken + i), taken + i) : 0;
        __syncthreads();
        if (p.groups > 1) leave_best_groups(p, row, ranks);
        sort_descending(ranks, p.room);
        taken += piece;
        kept = p.k;
    }
    for (unsigned j = threadIdx.x; j < p.k; j += blockDim.x) {
        const unsigned index = kit::index_of(ranks[j]);
        kit::store_as(p.values_dtype, p.values, row * p.values_stride + j,
                      kit::load_as(p.dtype, p.scores, row * p.stride + index));
        const std::int64_t to = row * p.indices_stride + j;
        if (p.indices_dtype == DType::int64) {
            static_cast<long long*>(p.indices)[to] = index;
        } else {
            static_cast<int*>(p.indices)[to] = static_cast<int>(index);
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
