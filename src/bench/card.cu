// Kernels of the card's own rates.
#include "bench/card.h"

#include "kit/launch.h"
#include "kit/ptx/atomic.cuh"
#include "kit/ptx/memory.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/reduce.cuh"
#include "kit/vector.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using Word = kit::Vec<std::uint8_t, 16>;
constexpr int kThreads = 256, kUnroll = 4, kBlocksPerSm = 8;

__global__ void __launch_bounds__(kThreads) card_nothing() {
    kit::dependency_wait();
    kit::dependents_launch();
}

// What     to = from
// Mapping  a block owns kUnroll · kThreads consecutive words of 16 bytes
// Traffic  64 bytes in flight a thread, each byte once
// Needs    aligned to 16
__global__ void __launch_bounds__(kThreads) card_copy(Word* to, const Word* from, std::int64_t words) {
    kit::dependency_wait();
    kit::dependents_launch();
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kUnroll + threadIdx.x;
    Word held[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        if (first + i * kThreads < words) held[i] = kit::load(from + first + i * kThreads);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        if (first + i * kThreads < words) kit::store(to + first + i * kThreads, held[i]);
    }
}

struct Add {
    __device__ __forceinline__ unsigned operator()(unsigned a, unsigned b) const { return a + b; }
};

// What     sums += every 32-bit word
// Mapping  all threads stride over the words together
// Traffic  64 bytes in flight a thread, each byte once
// Needs    aligned to 16
__global__ void __launch_bounds__(kThreads) card_read(const Word* from, std::int64_t words, unsigned* sums) {
    kit::dependency_wait();
    kit::dependents_launch();
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
    unsigned sum = 0;
    for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; at < words;
         at += stride * kUnroll) {
        Word held[kUnroll] = {};
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (at + i * stride < words) held[i] = kit::load(from + at + i * stride);
        }
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            unsigned part[4];
            memcpy(part, &held[i], sizeof(part));
            sum += part[0] + part[1] + part[2] + part[3];
        }
    }
    sum = kit::warp_reduce(sum, Add{});
    if (threadIdx.x % 32 == 0) kit::atomic_add(sums + blockIdx.x % kReadSums, sum);
}

// What     chains of multiply-adds that nothing waits for
// Mapping  16 chains a thread
// Traffic  one word a thread at the end, so that the chains are not left out
// Needs    nothing
__global__ void __launch_bounds__(kThreads) card_multiply_add(float* out, int rounds, float factor) {
    float chain[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) chain[i] = static_cast<float>(i);
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int i = 0; i < 16; ++i) chain[i] = fmaf(chain[i], factor, 1.0f);
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) sum += chain[i];
    out[static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x] = sum;
}

unsigned blocks_for(std::int64_t words) {
    return static_cast<unsigned>((words + kThreads * kUnroll - 1) / (kThreads * kUnroll));
}

void nothing(Context& context) {
    kit::launch("card_nothing", card_nothing, {.grid = 1, .block = 32, .dependent = true}, context.stream());
}

void copy(void* to, const void* from, std::int64_t bytes, Context& context) {
    const std::int64_t words = bytes / 16;
    kit::launch("card_copy", card_copy, {.grid = blocks_for(words), .block = kThreads, .dependent = true},
                context.stream(), static_cast<Word*>(to), static_cast<const Word*>(from), words);
}

void read(const void* from, std::int64_t bytes, std::uint32_t* sums, Context& context) {
    const std::int64_t words = bytes / 16;
    const unsigned all = static_cast<unsigned>(context.info().sms * kBlocksPerSm), wanted = blocks_for(words);
    kit::launch("card_read", card_read,
                {.grid = wanted < all ? wanted : all, .block = kThreads, .dependent = true}, context.stream(),
                static_cast<const Word*>(from), words, sums);
}

double multiply_add(float* out, int rounds, Context& context) {
    const unsigned blocks = static_cast<unsigned>(context.info().sms * kBlocksPerSm);
    kit::launch("card_multiply_add", card_multiply_add, {.grid = blocks, .block = kThreads}, context.stream(),
                out, rounds, 0.5f);
    return 2.0 * 16 * rounds * kThreads * blocks;
}

const bool kRegistered = [] {
    card_kernels(kit::kTarget) = {nothing, copy, read, multiply_add};
    return true;
}();

}  // namespace
}  // namespace weft::inline WEFT_TARGET
