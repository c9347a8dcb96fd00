// The sum of a row, by one atomic addition a block.
//
// Idea        Each block sums 256 elements and adds its result to the row's in memory, by an atomic: blocks cannot
//             meet in any other way within a kernel.
// Change      The first rung, as most collections have it.
// Prediction  Fast enough; but floating-point addition is not associative and blocks come in any order, so two runs on
//             the same input may differ in their last bits. The library promises equal bits.
// Order       Free: a GPU's blocks add in the order in which they happen to come.
#include "kit/ptx/atomic.cuh"
#include "ladder/reduce/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void clear(float* out, std::int64_t n) {
    const std::int64_t i = thread_in_grid();
    if (i < n) out[i] = 0.0f;
}

__global__ void sum(const float* x, float* out, std::int64_t dim, std::int64_t blocks_a_row) {
    const std::int64_t row = blockIdx.x / blocks_a_row, i = blockIdx.x % blocks_a_row * kBlock + threadIdx.x;
    const float part = block_sum(i < dim ? x[row * dim + i] : 0.0f);
    if (threadIdx.x == 0) kit::atomic_add(out + row, part);
}

void launch(const char* name, const Reduce& op, Context& context) {
    const std::int64_t rows = op.out.numel(), dim = op.x.dim(-1), blocks = divide_up(dim, kBlock);
    kit::launch(name, clear, {.grid = blocks_for(rows, 256), .block = 256}, context.stream(),
                op.out.as<float>(), rows);
    if (dim == 0) return;
    kit::launch(name, sum, {.grid = dim3(static_cast<unsigned>(rows * blocks)), .block = kBlock},
                context.stream(), op.x.as<const float>(), op.out.as<float>(), dim, blocks);
}

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) { return decline_sum(op, DType::fp32); },
    +[](const Reduce& op, Context& context) { launch(kRung.name(), op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
