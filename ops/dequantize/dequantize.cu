// dequantize on the GPU and in the emulator: policy and launch.
#include "ops/dequantize/dequantize.h"

#include "ops/dequantize/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

bool has_groups(const Dequantize& op) { return op.group_scale || op.swizzled_scale || op.block_scale; }

kit::RowTiles tiles(const Dequantize& op, const DeviceInfo& device) {
    return kit::tile_tensors({&op.x, &op.out}, kWidth, !op.token_scale && !has_groups(op), device);
}

Scales scales(const Dequantize& op) {
    const Rows x = *fold_rows(op.x);
    const auto data = [](const Tensor& t) { return t ? t.as<const float>() : nullptr; };
    return {.tensor = data(op.scale),
            .token = data(op.token_scale),
            .block = data(op.block_scale),
            .block_row_stride = op.block_scale.stride[0],
            .block_column_stride = op.block_scale.stride[1],
            .groups = group_scales(op.group_scale, op.swizzled_scale, x.rows, x.dim)};
}

template <class T, class Out>
void launch_as(const Dequantize& op, const kit::RowTiles& t, Context& context) {
    kit::launch("dequantize", dequantize<T, Out>, t.shape(), context.stream(),
                kit::vector_rows(op.x, kWidth, t), scales(op), kit::vector_rows(op.out, kWidth, t), t);
}

void launch(const Dequantize& op, Context& context) {
    using kit::bf16, kit::half, kit::e4m3, kit::Types;
    const kit::RowTiles t = tiles(op, context.info());
    const bool known =
        !has_groups(op) &&
        kit::whole_vectors(t, kWidth,
                           {kit::vector_rows(op.x, kWidth, t), kit::vector_rows(op.out, kWidth, t)}) &&
        kit::with_types<Types<e4m3, bf16>, Types<e4m3, half>, Types<e4m3, float>>(
            op.x.dtype, op.out.dtype, [&](auto types) {
                using Pair = decltype(types);
                launch_as<typename Pair::In, typename Pair::Out>(op, t, context);
            });
    if (known) return;
    kit::launch("dequantize_any", dequantize_any, t.shape(), context.stream(),
                kit::vector_rows(op.x, kWidth, t), scales(op), kit::vector_rows(op.out, kWidth, t), t);
}

const RegisterImplementations<Dequantize> kKernels{
    kit::kTarget,
    {{"vectors", +[](const Dequantize&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Dequantize& op, const DeviceInfo& device) { return tiles(op, device).describe(); }, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
