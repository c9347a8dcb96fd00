// dequantize on the GPU and in the emulator: policy and launch.
#include "ops/dequantize/dequantize.h"

#include "ops/dequantize/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

kit::RowTiles tiles(const Dequantize& op, const DeviceInfo& device) {
    std::int64_t rows = fold_rows(op.x)->rows, dim = op.x.dim(-1);
    if (!op.token_scale) kit::fold_dense(rows, dim, {fold_rows(op.x)->stride, fold_rows(op.out)->stride});
    return kit::tile_rows(rows, dim, kWidth, kBatch, device);
}

template <class T>
void launch_as(const Dequantize& op, Context& context) {
    const kit::RowTiles t = tiles(op, context.info());
    const Codes<T> in{op.x.as<const T>(), fold_rows(op.x)->stride, kit::rows_aligned(op.x, kWidth),
                      op.scale ? op.scale.as<const float>() : nullptr,
                      op.token_scale ? op.token_scale.as<const float>() : nullptr};
    const RealOut out{op.out.data, fold_rows(op.out)->stride, op.out.dtype,
                      kit::rows_aligned(op.out, kWidth)};
    kit::launch("dequantize", dequantize<T>, t.shape(), context.stream(), in, out, t);
}

void launch(const Dequantize& op, Context& context) {
    if (op.x.dtype == DType::fp8_e4m3) return launch_as<kit::e4m3>(op, context);
    launch_as<kit::e5m2>(op, context);
}

const RegisterImplementations<Dequantize> kKernels{
    kit::kTarget,
    {{"vectors", +[](const Dequantize&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Dequantize& op, const DeviceInfo& device) { return tiles(op, device).describe(); }, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
