// gemm's operands copied to where rows begin at whole 16 bytes: launch.
#include "ops/gemm/aligned.cuh"

#include "kit/launch.h"
#include "ops/gemm/aligned.h"
#include "ops/gemm/aligned_launch.h"

namespace weft::inline WEFT_TARGET {
namespace {

AlignOperand align_operand(const Tensor& from, const gemm::RowsInMemory& rows, const Tensor& to,
                           std::int64_t to_stride) {
    const std::int64_t length = bytes(from.dtype, rows.length), chunks = gemm::ceil_div(length, 16),
                       count = rows.rows * chunks,
                       stride = rows.rows > 1 ? bytes(from.dtype, rows.stride) : 0;
    const auto begins =
        reinterpret_cast<std::uintptr_t>(from.data) | static_cast<std::uintptr_t>(stride | length | 8);
    return {.from = static_cast<const char*>(from.data),
            .to = static_cast<char*>(to.data),
            .from_stride = stride,
            .to_stride = bytes(to.dtype, to_stride),
            .length = static_cast<int>(length),
            .unit = static_cast<int>(begins & (~begins + 1)),
            .chunks = kit::Divisor::of(chunks),
            .count = static_cast<unsigned>(count),
            .blocks = static_cast<unsigned>(gemm::ceil_div(count, kAlignThreads * kAlignChunks))};
}

}  // namespace

void launch_gemm_align(const Gemm& op, const Gemm& product, Context& context) {
    const gemm::Problem p = gemm::problem(op), q = gemm::problem(product);
    AlignArguments args{};
    unsigned blocks = 0;
    int operands = 0;
    for (Tensor Gemm::* operand : {&Gemm::b, &Gemm::up, &Gemm::a}) {
        const Tensor &from = op.*operand, &to = product.*operand;
        if (from.data == to.data) continue;
        args.operands[operands] = align_operand(from, gemm::rows_in_memory(op, p, operand), to,
                                                gemm::rows_in_memory(product, q, operand).stride);
        blocks += args.operands[operands++].blocks;
    }
    kit::launch("gemm_align", align_rows, {.grid = blocks, .block = kAlignThreads, .dependent = true},
                context.stream(), args);
}

}  // namespace weft::inline WEFT_TARGET
