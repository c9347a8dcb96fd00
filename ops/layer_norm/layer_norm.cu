// layer_norm on the GPU and in the emulator: the policy and the launch.
#include "ops/layer_norm/layer_norm.h"

#include "kit/row_launch.h"
#include "ops/layer_norm/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

DType row_dtype(const LayerNorm& op) { return op.residual ? op.residual.dtype : op.x.dtype; }

RowProblem problem(const LayerNorm& op) {
    return kit::row_problem(op.x, row_dtype(op), {&op.weight, &op.bias, &op.residual, &op.residual_out, &op.out});
}

void launch(const LayerNorm& op, Context& context) {
    const RowProblem rows = problem(op);
    const RowPlan plan = plan_rows(rows, context.info());
    const LayerNormParams p{.shape = kit::row_shape(rows, plan),
                          .in = kit::row_input(op.x, op.residual, op.residual_out),
                          .weight = kit::shared_row(op.weight),
                          .bias = kit::shared_row(op.bias),
                          .to = kit::row_output(op.out, op.scale, op.token_scale),
                          .eps = op.eps,
                          .weight_offset = op.weight_offset};
    kit::with_row_kernel(row_dtype(op), plan, [&](auto* type, auto width, auto vectors) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::launch("layer_norm", layer_norm_kernel<T, width(), vectors()>, kit::row_launch(plan, rows.rows),
                    context.stream(), p);
    });
}

const RegisterImplementations<LayerNorm> kKernels{
    kit::kTarget,
    {{"rows", [](const LayerNorm&, const DeviceInfo&) -> const char* { return nullptr; },
      [](const LayerNorm& op, const DeviceInfo& device) { return to_string(plan_rows(problem(op), device)); },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
