// Non-maximum suppression, all pairs first.
//
// Idea        Which pairs overlap does not depend on what is kept: the whole card finds that out, a bit a pair. What
//             is left to one block is to go through the boxes and or a row of bits into those that are dropped.
// Change      The comparisons leave the chain of decisions; a word of 32 of them is one step of it.
// Prediction  n² comparisons in parallel and n short rounds: many times faster than 01 from some hundred boxes on.
#include "ladder/nms/boxes.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Bit b of word w of row i: does box 32·w + b, a later one, overlap box i? (Both in the order of their scores.)
__global__ void compare(const float4* boxes, const int* order, int n, int words, float threshold,
                        unsigned* bits) {
    const int cell = static_cast<int>(thread_in_grid());
    if (cell >= n * words) return;
    const int i = cell / words, first = cell % words * 32;
    const float4 box = boxes[order[i]];
    unsigned word = 0;
    for (int b = 0; b < 32; ++b) {
        const int j = first + b;
        if (j > i && j < n && overlap(box, boxes[order[j]], threshold)) word |= 1u << b;
    }
    bits[cell] = word;
}

__global__ void resolve(const int* order, int n, int words, const unsigned* bits, int* keep, int* count) {
    unsigned* dropped = kit::dynamic_shared<unsigned>();
    for (int w = threadIdx.x; w < words; w += blockDim.x) dropped[w] = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) keep[i] = -1;
    __syncthreads();
    int kept = 0;  // the same in every thread
    for (int i = 0; i < n; ++i) {
        if ((dropped[i / 32] >> (i % 32) & 1u) == 0) {
            if (threadIdx.x == 0) keep[kept] = order[i];
            ++kept;
            __syncthreads();  // all have read the word that holds bit i
            for (int w = threadIdx.x; w < words; w += blockDim.x) dropped[w] |= bits[i * words + w];
            __syncthreads();
        }
    }
    if (threadIdx.x == 0) *count = kept;
}

void launch(const char* name, const Nms& op, Context& context) {
    const int n = static_cast<int>(op.boxes.dim(0)), words = (n + 31) / 32;
    int* order = static_cast<int*>(context.scratch(static_cast<std::size_t>(n) * (words + 1) * sizeof(int)));
    auto* bits = reinterpret_cast<unsigned*>(order + n);
    if (n > 0) {
        kit::launch(name, rank, {.grid = blocks_for(n, 128), .block = 128}, context.stream(),
                    op.scores.as<const float>(), n, order);
        kit::launch(name, compare, {.grid = blocks_for(n * words, 128), .block = 128}, context.stream(),
                    op.boxes.as<const float4>(), order, n, words, op.threshold, bits);
    }
    kit::launch(name, resolve, {.block = 128, .dynamic_shared = words * sizeof(unsigned)}, context.stream(),
                order, n, words, bits, op.keep.as<int>(), op.count.as<int>());
}

const RegisterRung<Nms> kRung{decline_nms,
                              +[](const Nms& op, Context& context) { launch(kRung.name(), op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
