// Rows that are no whole 16 bytes, which the copy engine does not take: copied to where they are longer, and back.
#pragma once

#include "ladder/sgemm/product.h"

namespace weft::inline WEFT_TARGET {

inline constexpr int kPadded = 8;  // halves

template <class T>
__global__ void __launch_bounds__(256)
    copy_each_row(const T* from, std::int64_t from_pitch, T* to, std::int64_t to_pitch, std::int64_t rows,
                  std::int64_t length) {
    const std::int64_t pieces = (length + kPadded - 1) / kPadded, piece = thread_in_grid();
    const std::int64_t row = piece / pieces, first = piece % pieces * kPadded;
    if (row >= rows) return;
#pragma unroll
    for (int i = 0; i < kPadded; ++i) {
        if (first + i < length) to[row * to_pitch + first + i] = from[row * from_pitch + first + i];
    }
}
inline void copy_rows(const char* name, const __half* from, std::int64_t from_pitch, __half* to,
                      std::int64_t to_pitch, std::int64_t rows, std::int64_t length, Context& context) {
    kit::launch(name, copy_each_row<__half>,
                {.grid = blocks_for(rows * divide_up(length, kPadded), 256), .block = 256}, context.stream(),
                from, from_pitch, to, to_pitch, rows, length);
}

// A product's operands as the copy engine takes them: where they are, or, if `moved`, in scratch with rows of `k` and `n`.
struct PaddedProduct {
    const __half *a, *b;
    __half* out;
    std::int64_t k, n;
    bool moved;

    PaddedProduct(const char* name, const Gemm& op, const Sizes& s, Context& context)
        : a(op.a.as<const __half>()), b(op.b.as<const __half>()), out(op.out.as<__half>()), k(s.k), n(s.n) {
        moved = s.k % kPadded != 0 || s.n % kPadded != 0;
        for (const Tensor* t : {&op.a, &op.b, &op.out}) moved = moved || !starts_aligned(*t, 16);
        if (!moved) return;
        k = divide_up(s.k, kPadded) * kPadded, n = divide_up(s.n, kPadded) * kPadded;
        const auto bytes = static_cast<std::size_t>(s.m * k + s.k * n + s.m * n) * sizeof(__half);
        auto* to_a = static_cast<__half*>(context.scratch(bytes));
        __half* to_b = to_a + s.m * k;
        copy_rows(name, a, s.k, to_a, k, s.m, s.k, context);
        copy_rows(name, b, s.n, to_b, n, s.k, s.n, context);
        a = to_a, b = to_b, out = to_b + s.k * n;
    }
    void return_to(const char* name, const Gemm& op, const Sizes& s, Context& context) const {
        if (moved) copy_rows(name, out, n, op.out.as<__half>(), s.n, s.m, s.n, context);
    }
};

}  // namespace weft::inline WEFT_TARGET
