// gemm on wgmma: from stages of the ring to a warpgroup's sums of one tile, in the tensor cores' accumulators or promoted.
#pragma once

#include "kit/ptx/wgmma.cuh"
#include "ops/gemm/wgmma_ring.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// How the weights of a tile lie in a stage, and how many bytes further those of the next instruction along k. (An
// instruction takes 32 bytes of k; across, that many rows of 128 bytes.)
template <WgmmaTile kTile>
inline constexpr kit::Major kWeightsMajor = kTile.across ? kit::Major::mn : kit::Major::k;
template <class T, WgmmaTile kTile>
inline constexpr unsigned kWeightsStep = kTile.across ? kit::kWgmmaDepth<T> * WgmmaTile::kRowBytes : 32;

// Where a warpgroup's rows and all columns of its tile lie in a stage: weights first, then tokens. Eight rows are as far from
// the next eight whichever way they run, and a warpgroup's 64 features as many bytes.
struct StageOperands {
    kit::MatrixDescriptor rows, columns;
    __device__ __forceinline__ StageOperands(const char* stage, WgmmaTile tile, int group)
        : rows(descriptor(stage + (tile.by_tokens() ? tile.weight_bytes() : 0) +
                          group * 64 * WgmmaTile::kRowBytes)),
          columns(descriptor(stage + (tile.by_tokens() ? 0 : tile.weight_bytes()))) {}

   private:
    __device__ __forceinline__ static kit::MatrixDescriptor descriptor(const char* panel) {
        return kit::matrix_descriptor(panel, kit::Swizzle::bytes128, 8 * WgmmaTile::kRowBytes);
    }
};

// A warpgroup's sums of one tile, as the tensor cores add them. The products of a stage are issued before those of the one
// before are waited for, whose stage is then released.
template <class A, class B, WgmmaTile kTile>
__device__ __forceinline__ void add_products(kit::Accumulator<A> (&sums)[kTile.sums()],
                                             const WgmmaShared<kTile>& shared, unsigned& item, int steps,
                                             int cluster, int group) {
    for (int step = 0; step < steps; ++step, ++item) {
        kit::mbarrier_wait(&shared.full[shared.slot(item)], shared.parity(item));
        const StageOperands at(shared.stage(item), kTile, group);
        kit::wgmma_fence();
#pragma unroll
        for (int i = 0; i < WgmmaTile::kRowBytes / 32; ++i) {
            kit::wgmma<B, A, kTile.columns(), kWeightsMajor<kTile>>(
                sums, at.rows.moved(kWeightsStep<B, kTile> * i), at.columns.moved(32 * i), step > 0 || i > 0);
        }
        kit::wgmma_commit();
        if (step > 0) {
            kit::wgmma_wait<1>();
            shared.release(item - 1, cluster);
        }
    }
    kit::wgmma_wait<0>();
    kit::wgmma_hold(sums);
    shared.release(item - 1, cluster);
}

// The same in fp32: whole sums become numbers of fp32, rounded once.
template <class A, class B, WgmmaTile kTile>
__device__ __forceinline__ void multiply_tile(float (&sums)[kTile.sums()], const WgmmaShared<kTile>& shared,
                                              unsigned& item, int steps, int cluster, int group) {
    if constexpr (std::is_same_v<kit::Accumulator<A>, float>) {
        add_products<A, B>(sums, shared, item, steps, cluster, group);
    } else {
        // (Without a value at first ptxas spills those of 256 columns.)
        kit::Accumulator<A> whole[kTile.sums()] = {};
        add_products<A, B>(whole, shared, item, steps, cluster, group);
#pragma unroll
        for (int i = 0; i < kTile.sums(); ++i) sums[i] = static_cast<float>(whole[i]);
    }
}

// Adds a stage's products to the sums of their columns, from column kFirst on. (wgmma_epilogue.cuh and
// wgmma_by_tokens.cuh say which thread has which.) What it needs for that is asked for while they are multiplied.
struct PlainSums {
    struct Asked {};
    template <int kFirst, int kPart>
    __device__ __forceinline__ Asked ask() const {
        return {};
    }
    template <int kFirst, int kSums, int kProducts>
    __device__ __forceinline__ void add(float (&sums)[kSums], const float (&products)[kProducts],
                                        Asked) const {
#pragma unroll
        for (int i = 0; i < kProducts; ++i) sums[kFirst / 2 + i] += products[i];
    }
};
// The same, each times the scales of its token and of its row. Four tokens of a thread are 16 bytes in a stage's scales
// (scale_place); a few of these are on their way while the ones before are used, for which there are registers.
template <WgmmaTile kTile>
struct ScaledSums {
    static constexpr int kAhead = 2;
    struct Asked {
        float4 tokens[kAhead];
    };
    const float4* of_tokens;
    float of_rows[2];

    __device__ __forceinline__ explicit ScaledSums(const float* scales)
        : of_tokens(reinterpret_cast<const float4*>(scales) + threadIdx.x % 4),
          of_rows{scales[kTile.tokens], kTile.gated ? scales[kTile.tokens + 1] : scales[kTile.tokens]} {}
    template <int kFirst, int kPart>
    __device__ __forceinline__ Asked ask() const {
        Asked asked;
#pragma unroll
        for (int i = 0; i < kAhead && i < kPart / 16; ++i) asked.tokens[i] = of_tokens[kFirst / 4 + 4 * i];
        return asked;
    }
    template <int kFirst, int kSums, int kProducts>
    __device__ __forceinline__ void add(float (&sums)[kSums], const float (&products)[kProducts],
                                        Asked asked) const {
#pragma unroll
        for (int i = 0; i < kProducts / 8; ++i) {
            const float4 now = asked.tokens[i % kAhead];
            if (i + kAhead < kProducts / 8)
                asked.tokens[i % kAhead] = of_tokens[kFirst / 4 + 4 * (i + kAhead)];
            const float token[4] = {now.x, now.y, now.z, now.w};
#pragma unroll
            for (int q = 0; q < 8; ++q) {
                float& sum = sums[kFirst / 2 + 8 * i + q];
                sum = fmaf(products[8 * i + q], token[q / 4 * 2 + q % 2] * of_rows[q / 2 % 2], sum);
            }
        }
    }
};

// The same where a thread has two tokens: four factors are all that its products are multiplied by.
template <WgmmaTile kTile>
struct TokenScaledSums {
    struct Asked {};
    float of_tokens[2], of_blocks[2];

    __device__ __forceinline__ TokenScaledSums(const float* scales, int group) {
        const int row = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + kit::accumulator_row(0) + 64 * group;
        of_tokens[0] = scales[row], of_tokens[1] = scales[row + 8];
        of_blocks[0] = scales[kTile.tokens], of_blocks[1] = scales[kTile.tokens + 1];
    }
    template <int kFirst, int kPart>
    __device__ __forceinline__ Asked ask() const {
        return {};
    }
    template <int kFirst, int kSums, int kProducts>
    __device__ __forceinline__ void add(float (&sums)[kSums], const float (&products)[kProducts],
                                        Asked) const {
        static_assert(kTile.gated || 2 * kProducts <= gemm::kScaleRows);
#pragma unroll
        for (int i = 0; i < kProducts; ++i) {
            const int block = kTile.gated ? i / 4 % 2 : kFirst / static_cast<int>(gemm::kScaleRows);
            sums[kFirst / 2 + i] =
                fmaf(products[i], of_tokens[i / 2 % 2] * of_blocks[block], sums[kFirst / 2 + i]);
        }
    }
};

// Issues a stage's products of a warpgroup's rows with as many columns as `products` has sums of, from kFirst on.
template <class A, class B, WgmmaTile kTile, int kFirst, int kProducts>
__device__ __forceinline__ void issue_products(float (&products)[kProducts], const StageOperands& at) {
    using Rows = std::conditional_t<kTile.by_tokens(), A, B>;
    using Columns = std::conditional_t<kTile.by_tokens(), B, A>;
    kit::wgmma_hold(products);
    kit::wgmma_fence();
#pragma unroll
    for (int i = 0; i < WgmmaTile::kRowBytes / 32; ++i)
        kit::wgmma<Rows, Columns, 2 * kProducts>(
            products, at.rows.moved(32 * i), at.columns.moved(kFirst * WgmmaTile::kRowBytes + 32 * i), i > 0);
    kit::wgmma_commit();
}

// What adds the products of a stage to the sums.
template <WgmmaTile kTile>
__device__ __forceinline__ auto adder_of(const WgmmaShared<kTile>& shared, unsigned item, int group) {
    if constexpr (kTile.by_tokens()) {
        return TokenScaledSums<kTile>(shared.scales(item), group);
    } else if constexpr (kTile.scaled) {
        return ScaledSums<kTile>(shared.scales(item));
    } else {
        return PlainSums();
    }
}

// fp8's sums in fp32. The tensor cores add products in a short accumulator, so they are given those of one stage, 128 of
// k, and a thread adds what comes to its own sums. A thread of a tile of up to 128 columns has registers for two stages'
// products: the tensor cores make one's while it adds the other's.
template <class A, class B, WgmmaTile kTile>
struct PromotedSums {
    float (&sums)[kTile.sums()];
    const WgmmaShared<kTile>& shared;
    int cluster, group;

    using Products = float[kTile.sums()];

    __device__ __forceinline__ StageOperands await(unsigned item) const {
        kit::mbarrier_wait(&shared.full[shared.slot(item)], shared.parity(item));
        return StageOperands(shared.stage(item), kTile, group);
    }
    __device__ __forceinline__ void issue(Products& products, unsigned item) const {
        issue_products<A, B, kTile, 0>(products, await(item));
    }
    // kLater: groups of products that were issued after these.
    template <int kLater>
    __device__ __forceinline__ void add(Products& products, unsigned item) const {
        const auto adder = adder_of(shared, item, group);
        const auto asked = adder.template ask<0, kTile.columns()>();
        kit::wgmma_wait<kLater>();
        kit::wgmma_hold(products);
        adder.template add<0>(sums, products, asked);
        shared.release(item, cluster);
    }
    // The stages from `item` on, `steps` of them.
    __device__ __forceinline__ void overlapped(unsigned item, int steps) const {
        Products even, odd;
        issue(even, item);
        for (; steps > 2; steps -= 2, item += 2) {
            issue(odd, item + 1);
            add<1>(even, item);
            issue(even, item + 2);
            add<1>(odd, item + 1);
        }
        if (steps == 2) {
            issue(odd, item + 1);
            add<1>(even, item);
            add<0>(odd, item + 1);
        } else {
            add<0>(even, item);
        }
    }
    // A wide tile's, in two parts, for which there are registers. While one warpgroup adds, the other's products run.
    template <int kFirst, int kPart, class Adder>
    __device__ __forceinline__ void part(const StageOperands& at, const Adder& adder) const {
        float products[kPart / 2];
        issue_products<A, B, kTile, kFirst>(products, at);
        kit::wgmma_wait<0>();
        kit::wgmma_hold(products);
        adder.template add<kFirst>(sums, products, {});
    }
    __device__ __forceinline__ void in_parts(unsigned item, int steps) const {
        constexpr int kPart = kTile.promoted_columns(), kRest = kTile.columns() - kPart;
        for (; steps > 0; --steps, ++item) {
            const StageOperands at = await(item);
            const auto adder = adder_of(shared, item, group);
            part<0, kPart>(at, adder);
            if constexpr (kRest > 0) part<kPart, kRest>(at, adder);
            shared.release(item, cluster);
        }
    }
};

template <class A, class B, WgmmaTile kTile>
__device__ __forceinline__ void multiply_promoted(float (&sums)[kTile.sums()],
                                                  const WgmmaShared<kTile>& shared, unsigned& item, int steps,
                                                  int cluster, int group) {
#pragma unroll
    for (float& sum : sums) sum = 0;
    const PromotedSums<A, B, kTile> promoted{sums, shared, cluster, group};
    if constexpr (kTile.columns() <= 128) {
        promoted.overlapped(item, steps);
    } else {
        promoted.in_parts(item, steps);
    }
    item += static_cast<unsigned>(steps);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
