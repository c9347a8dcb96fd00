// Non-maximum suppression, by one block.
//
// Idea        Whether a box is kept depends on every better box that was kept: one after the other. Only the
//             comparisons of one kept box with all later ones are independent, and the block's threads share them.
// Change      The first rung. The public one reads keep[] of better boxes while other blocks have yet to write it,
//             without any order between them: a race, which the emulator's thread sanitizer reports.
// Prediction  n rounds with a barrier each, on one multiprocessor: slow, and right.
#include "ladder/nms/boxes.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void resolve(const float4* boxes, const int* order, int n, float threshold, int* keep,
                        int* count) {
    bool* dropped = kit::dynamic_shared<bool>();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        dropped[i] = false;
        keep[i] = -1;
    }
    __syncthreads();
    int kept = 0;  // the same in every thread
    for (int i = 0; i < n; ++i) {
        if (!dropped[i]) {
            const float4 box = boxes[order[i]];
            if (threadIdx.x == 0) keep[kept] = order[i];
            ++kept;
            for (int j = i + 1 + threadIdx.x; j < n; j += blockDim.x) {
                if (overlap(box, boxes[order[j]], threshold)) dropped[j] = true;
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) *count = kept;
}

void launch(const char* name, const Nms& op, Context& context) {
    const int n = static_cast<int>(op.boxes.dim(0));
    int* order = static_cast<int*>(context.scratch(static_cast<std::size_t>(n) * sizeof(int)));
    if (n > 0) {
        kit::launch(name, rank, {.grid = blocks_for(n, 128), .block = 128}, context.stream(),
                    op.scores.as<const float>(), n, order);
    }
    kit::launch(name, resolve, {.block = 256, .dynamic_shared = static_cast<std::size_t>(n)},
                context.stream(), op.boxes.as<const float4>(), order, n, op.threshold, op.keep.as<int>(),
                op.count.as<int>());
}

const RegisterRung<Nms> kRung{decline_nms,
                              +[](const Nms& op, Context& context) { launch(kRung.name(), op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
