// How far a correct gemm may be from the exact one: sums and what follows them, each with its error.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "ops/gemm/gemm.h"
#include "weft/oracle.h"

namespace weft::gemm {

// fp32 accumulation of k products in any order: each of the k additions may be off by half an ulp of a
// partial sum, which is at most sum|a·b|; 16 covers the blocks of a short sum. Tensor cores (`hardware`) add blocks of 8 or 16
// products, aligned to the largest and truncated: in the one block of a short sum each of them, and the sum so far, may lose
// 2^-23 of it. (Seen on an H200 in fuzzing: 27 * 2^-24 of a sum of 8 products.)
inline double fp32_error(std::int64_t k, bool hardware) {
    return static_cast<double>(k + (hardware ? 32 : 16)) * kEps32;
}

// Hopper's fp8 products are aligned to the largest of an instruction's 32 and added into an accumulator of 13
// fraction bits, truncated. Promoted to fp32 every 128 of k, a partial sum is truncated four times, by at
// most 2^-13 of what sum|a·b| it has seen: 2^-11 in all. Where one product is far larger than the others, or all are alike
// and small beside their sum, each of these loses as much as the accumulator does. (Seen on an H200: over
// workloads/gemm.csv up to 1.03 * 2^-12, in fuzzing, with one large product, 1.33 * 2^-11, with equal ones 1.6 * 2^-10, half an ulp of
// the result in it.)
inline constexpr double kFp8Error = 0x1p-9;

// With fast accumulation it is never promoted: with each product 2^-13 of the sum so far may be lost, as all of an instruction
// are aligned to it: 2^-8 with its 32. (Seen on an H200, of equal products: 1.5 * 2^-10 an instruction.)
inline constexpr std::int64_t kFp8Step = 32;
inline constexpr double kFp8StepError = 0x1p-8;

// Weights of int4 beside 16 bits become numbers of a's dtype, each half an ulp off, and so does their scale before, where it
// has another dtype. (code - zero is exact; a product with a scale of fp16 is a multiple of the smallest fp16 number, so that
// none of fp16 falls below it; fp16 meets no other scales there.)
inline double weight_error(const Gemm& op) {
    if (!op.whole_codes() || op.a.dtype == DType::fp32) return 0;
    const double once = op.a.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    return op.b_group_scale.dtype == op.a.dtype ? once : 2 * once;
}
// Whether one of a row's weights is no number of a's dtype.
inline bool beyond(const Gemm& op, const std::vector<double>& weights) {
    if (!op.whole_codes()) return false;
    const double most = max_value(op.a.dtype) * (1 - 0x1p-7);  // rounded, a scale may be that much larger
    return std::any_of(weights.begin(), weights.end(), [&](double w) { return std::fabs(w) > most; });
}

// What fp32 computes, and how far it may be off.
struct Value {
    double value = 0, error = 0;
};

// factor · Σ x·y over k. `hardware`: summed by its tensor cores; anything else sums fp8's products in fp32.
inline Value scaled_sum(const Gemm& op, const double* x, const double* y, double factor, bool hardware) {
    const std::int64_t k = op.b.dim(1);
    const bool fp8 = hardware && is_fp8(op.a.dtype);
    double sum = 0, magnitude = 0, drift = 0;  // drift: of the partial sums
    for (std::int64_t i = 0; i < k; ++i) {
        const double product = x[i] * y[i];
        sum += product;
        magnitude += std::fabs(product);
        if ((i + 1) % kFp8Step == 0 || i + 1 == k) drift += std::fabs(sum);
    }
    double error = (fp32_error(k, hardware) + (fp8 ? kFp8Error : 0) + weight_error(op)) * magnitude;
    // Scales within the sum, which x and y are multiplied by already: one rounding for each, and one for their product.
    if (op.scaled_within()) error += 4 * kEps32 * magnitude;
    if (fp8 && op.fast_accumulation && !op.scaled_within()) error += kFp8StepError * drift;
    return {sum * factor, (error + 2 * kEps32 * std::fabs(sum)) * std::fabs(factor)};
}

inline Value plus(const Value& x, double exact) {
    return {x.value + exact, x.error + kEps32 * (std::fabs(x.value) + std::fabs(exact))};
}

inline double activate(Gemm::Activation kind, double x) {
    switch (kind) {
        case Gemm::Activation::none: return x;
        case Gemm::Activation::gelu_erf: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
        case Gemm::Activation::silu: return x / (1 + std::exp(-x));
        default: break;  // gelu_tanh
    }
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

// `hardware`: by its instructions.
inline Value activated(const Gemm& op, const Value& x, bool hardware) {
    if (op.activation == Gemm::Activation::none) return x;
    const bool approximate =
        hardware && op.activation == Gemm::Activation::gelu_tanh && op.out.dtype != DType::fp32;
    return {activate(op.activation, x.value),
            1.13 * x.error + std::fabs(x.value) * (12 * kEps32 + (approximate ? 0x1p-12 : 0))};
}

inline Value times(const Value& x, const Value& y) {
    const double product = x.value * y.value;
    return {product, std::fabs(x.value) * y.error + std::fabs(y.value) * x.error + x.error * y.error +
                         kEps32 * std::fabs(product) + 0x1p-149};
}

// x · y is 0 · infinity where the 0 is one by rounding only: NaN is as right as an infinity.
inline bool undetermined(const Value& x, const Value& y) {
    return (std::isinf(x.value) && std::fabs(y.value) <= y.error) ||
           (std::isinf(y.value) && std::fabs(x.value) <= x.error);
}

// Of a product that a residual is added to, relative: cuBLASLt, which takes no gate, rounds some to out's dtype before it
// adds, half an ulp; else one fp32 rounding.
inline double residual_rounding(const Gemm& op) {
    if (op.gate || op.out.dtype == DType::fp32) return kEps32;
    return op.out.dtype == DType::fp16 ? 0x1p-11 : 0x1p-8;
}
inline Value plus_residual(const Gemm& op, const Value& x, double residual) {
    return {x.value + residual,
            x.error + kEps32 * std::fabs(residual) + residual_rounding(op) * std::fabs(x.value)};
}

inline Value divided(const Value& x, double scale) {
    return {x.value / scale, x.error / std::fabs(scale) + 2 * kEps32 * std::fabs(x.value / scale)};
}

}  // namespace weft::gemm
