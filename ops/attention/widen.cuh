// Attention: codes of fp8 made into 16 bits.
#pragma once

#include "kit/divisor.cuh"
#include "kit/ptx/pdl.cuh"
#include "ops/attention/codes.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// One tensor of codes, [batch, tokens, heads, columns], and where it goes.
struct WidenTensor {
    const Code* from;  // null: nothing to do
    void* to;
    AttentionStrides stride;
    std::int64_t eights;  // of codes, in all
    kit::Divisor by_row, by_heads, by_tokens;
};
struct WidenParams {
    WidenTensor tensor[3];
    AttentionCodes codes;
    float* factors;  // [2, heads]: of scores, of values
    int heads;
};

constexpr int kWidenThreads = 256;
constexpr int kWidenBlocks = 1024;  // a tensor, at most

// What:    to = from, in T, exactly; and the factors of each key head's scores and values
// Mapping: row y of the grid has tensor y; a thread goes from eight codes to the next of its own, grid.x * 256 further on
// Traffic: one byte read and two written an element; bound by the memory
// Needs:   whole eights of codes at 8-byte addresses, kWidenThreads threads, at most 2^31 - 1 eights
template <class T>
__global__ void __launch_bounds__(kWidenThreads) attention_widen(const WidenParams p) {
    kit::dependency_wait();
    kit::dependents_launch();
    const WidenTensor& t = p.tensor[blockIdx.y];
    const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kWidenThreads + threadIdx.x;
    if (blockIdx.x == 0 && blockIdx.y == 0) store_factors(p.codes, p.factors, p.heads);
    if (t.from == nullptr) return;
    for (std::int64_t i = thread; i < t.eights; i += static_cast<std::int64_t>(gridDim.x) * kWidenThreads) {
        const unsigned row = t.by_row.quotient(static_cast<unsigned>(i)), line = t.by_heads.quotient(row),
                       batch = t.by_tokens.quotient(line);
        const std::int64_t column = 8 * (i - static_cast<std::int64_t>(row) * t.by_row.divisor);
        const std::int64_t head = row - line * t.by_heads.divisor, token = line - batch * t.by_tokens.divisor;
        const uint2 codes = kit::load(reinterpret_cast<const uint2*>(
            t.from + batch * t.stride.batch + token * t.stride.token + head * t.stride.head + column));
        const uint4 wide = {widen<T>(codes.x & 0xffffu, p.codes.e5m2), widen<T>(codes.x >> 16, p.codes.e5m2),
                            widen<T>(codes.y & 0xffffu, p.codes.e5m2), widen<T>(codes.y >> 16, p.codes.e5m2)};
        kit::store(static_cast<uint4*>(t.to) + i, wide);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
