// residual_add on the GPU and in the emulator: policy and launch.
#include "ops/residual_add/residual_add.h"

#include "ops/residual_add/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

kit::RowTiles tiles(const ResidualAdd& op, const DeviceInfo& device) {
    const Rows x = *fold_rows(op.x), residual = *fold_rows(op.residual), out = *fold_rows(op.out);
    std::int64_t rows = out.rows, dim = out.dim;
    if (!op.bias) kit::fold_dense(rows, dim, {x.stride, residual.stride, out.stride});
    return kit::tile_rows(rows, dim, kWidth, kBatch, device);
}

Rows16Or32 operand(const Tensor& tensor) {
    if (!tensor) return {};
    return {tensor.data, tensor.dtype, fold_rows(tensor)->stride, kit::rows_aligned(tensor, kWidth)};
}

void launch(const ResidualAdd& op, Context& context) {
    const SumParams params{.x = operand(op.x),
                           .residual = operand(op.residual),
                           .bias = operand(op.bias),
                           .out = op.out.data,
                           .out_dtype = op.out.dtype,
                           .out_stride = fold_rows(op.out)->stride,
                           .out_aligned = kit::rows_aligned(op.out, kWidth)};
    const kit::RowTiles t = tiles(op, context.info());
    kit::launch("residual_add", residual_add, t.shape(), context.stream(), params, t);
}

const RegisterImplementations<ResidualAdd> kKernels{
    kit::kTarget,
    {{"vectors", +[](const ResidualAdd&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const ResidualAdd& op, const DeviceInfo& device) { return tiles(op, device).describe(); },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
