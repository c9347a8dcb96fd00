// rms_norm on the GPU and in the emulator: the policy and the launch.
#include "ops/rms_norm/rms_norm.h"

#include <algorithm>
#include <bit>

#include "kit/row_launch.h"
#include "ops/rms_norm/eager.cuh"
#include "ops/rms_norm/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

DType row_dtype(const RmsNorm& op) { return op.residual ? op.residual.dtype : op.x.dtype; }

RowProblem problem(const RmsNorm& op) {
    return kit::row_problem(op.x, row_dtype(op),
                            {&op.x, &op.weight, &op.bias, &op.residual, &op.residual_out, &op.out});
}

RmsNormParams parameters(const RmsNorm& op, const RowProblem& rows, const RowPlan& plan) {
    return {.shape = kit::row_shape(rows, plan),
            .in = kit::row_input(op.x, op.residual, op.residual_out),
            .weight = kit::shared_row(op.weight),
            .bias = kit::shared_row(op.bias),
            .to = kit::row_output(op.out, op.scale, op.token_scale),
            .eps = op.eps,
            .weight_offset = op.weight_offset};
}

void launch(const RmsNorm& op, Context& context) {
    const RowProblem rows = problem(op);
    const RowPlan plan = context.slot<RowPlans>().find(rows, context.info());
    const RmsNormParams p = parameters(op, rows, plan);
    kit::with_row_kernel(row_dtype(op), plan, [&](auto* type, auto width, auto vectors) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::launch("rms_norm", rms_norm_kernel<T, width(), vectors()>, kit::row_launch(plan, rows),
                    context.stream(), p);
    });
}

// How many threads share a row in PyTorch's reduction of a contiguous fp32 [rows, dim] (they decide the sum's
// order): rows side by side in a block as far as 512 threads go; a block's threads together where a row is
// long.
int eager_threads(const RowProblem& rows) {
    const auto floor_pow2 = [](std::int64_t n) {
        return static_cast<int>(
            std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(n, 1, 512))));
    };
    const int across = floor_pow2(rows.dim / 4), down = floor_pow2(rows.rows);
    const int height = std::min(down, 512 / std::min(across, 32));
    const int width = std::min(across, 512 / height);
    const std::int64_t each = (rows.dim + width - 1) / width;
    return each >= std::min(16 * height, 256) ? width * height : width;
}

const char* decline_eager(const RmsNorm& op, const DeviceInfo&) {
    if (op.rounding == RmsNorm::Rounding::fused) return "only for rounding=eager and eager_cast";
    const RowProblem rows = problem(op);
    if (rows.dim % 4 != 0 || rows.dim < 128 || rows.dim >= 131072) {
        return "PyTorch's order of summation is reproduced for dim a multiple of 4 from 128 to 131068";
    }
    if (rows.rows * rows.dim > std::int64_t{1} << 29)
        return "PyTorch cuts a sum of more than 2^29 elements in pieces";
    if (!kit::rows_allow(4, {&op.x, &op.weight, &op.residual, &op.residual_out, &op.out})) {
        return "every row must be aligned for 4 elements";
    }
    return nullptr;
}

void launch_eager(const RmsNorm& op, Context& context) {
    const RowProblem rows = problem(op);
    const RowPlan plan{
        .width = 4, .vectors = kStreamedRow, .lanes = eager_threads(rows), .rows = 1, .cluster = 1};
    const RmsNormParams p = parameters(op, rows, plan);
    // 1/dim as PyTorch computes it: outputs over inputs, both rounded.
    const float factor = static_cast<float>(rows.rows) / static_cast<float>(rows.rows * rows.dim);
    kit::with_row_type(op.x.dtype, [&](auto* type) {
        kit::launch("rms_norm_eager", rms_norm_eager_kernel<std::remove_pointer_t<decltype(type)>>,
                    kit::row_launch(plan, rows), context.stream(), p, factor,
                    op.rounding == RmsNorm::Rounding::eager_cast && op.weight);
    });
}

const RegisterImplementations<RmsNorm> kKernels{
    kit::kTarget,
    {{"rows",
      [](const RmsNorm& op, const DeviceInfo&) -> const char* {
          return op.rounding == RmsNorm::Rounding::fused ? nullptr : "only for rounding=fused";
      },
      [](const RmsNorm& op, const DeviceInfo& device) { return to_string(plan_rows(problem(op), device)); },
      launch},
     {"eager", decline_eager,
      [](const RmsNorm& op, const DeviceInfo&) {
          return "lanes=" + std::to_string(eager_threads(problem(op)));
      },
      launch_eager}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
