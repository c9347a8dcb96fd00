// How far a correct gemm may be from the exact sum, before its epilogue.
#pragma once

#include "ops/gemm/gemm.h"
#include "weft/oracle.h"

namespace weft::gemm {

// fp32 accumulation of k products in any order: each of the k additions may be off by half an ulp of a
// partial sum, which is at most sum|a·b|. Tensor cores add blocks of 8 or 16 products, aligned to the largest
// and truncated with one or two bits to spare, which errs no more; 16 covers the blocks of a short sum.
inline double fp32_error(std::int64_t k) { return static_cast<double>(k + 16) * kEps32; }

// Hopper's fp8 products are aligned to the largest of an instruction's 32 and added into an accumulator of 13
// fraction bits, truncated. Promoted to fp32 every 128 of k, a partial sum is truncated four times, by at
// most 2^-13 of what sum|a·b| it has seen: 2^-11 in all. (Seen on an H200 over workloads/gemm.csv: up to 1.03
// * 2^-12.)
inline constexpr double kFp8Error = 0x1p-11;

// With fast accumulation it is never promoted: each instruction, 32 of k, may lose 2^-13 of the sum so far.
inline constexpr std::int64_t kFp8Step = 32;
inline constexpr double kFp8StepError = 0x1p-13;

// Of a product that a residual is added to, relative: cuBLASLt rounds some to out's dtype before it adds,
// half an ulp; else one fp32 rounding.
inline double residual_rounding(DType out) {
    return out == DType::fp32 ? kEps32 : out == DType::fp16 ? 0x1p-11 : 0x1p-8;
}

}  // namespace weft::gemm
