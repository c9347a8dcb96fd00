// dequantize on the GPU and in the emulator: policy and launch.
#include "ops/dequantize/dequantize.h"

#include "ops/dequantize/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

kit::RowTiles tiles(const Dequantize& op, const DeviceInfo& device) {
    std::int64_t rows = fold_rows(op.x)->rows, dim = op.x.dim(-1);
    if (!op.token_scale) kit::fold_dense(rows, dim, {fold_rows(op.x)->stride, fold_rows(op.out)->stride});
    return kit::tile_rows(rows, dim, kWidth, 1, device);
}

template <class T, class Out>
void launch_as(const Dequantize& op, const kit::RowTiles& t, Context& context) {
    const Scales scales{op.scale ? op.scale.as<const float>() : nullptr,
                        op.token_scale ? op.token_scale.as<const float>() : nullptr};
    kit::launch("dequantize", dequantize<T, Out>, t.shape(), context.stream(), kit::vector_rows(op.x, kWidth),
                scales, kit::vector_rows(op.out, kWidth), t);
}

void launch(const Dequantize& op, Context& context) {
    using kit::bf16, kit::half, kit::e4m3, kit::Types;
    const kit::RowTiles t = tiles(op, context.info());
    const bool known =
        kit::whole_vectors(t, kWidth, {kit::vector_rows(op.x, kWidth), kit::vector_rows(op.out, kWidth)}) &&
        kit::with_types<Types<e4m3, bf16>, Types<e4m3, half>, Types<e4m3, float>>(
            op.x.dtype, op.out.dtype, [&](auto types) {
                using Pair = decltype(types);
                launch_as<typename Pair::In, typename Pair::Out>(op, t, context);
            });
    if (known) return;
    if (op.x.dtype == DType::fp8_e4m3) return launch_as<e4m3, kit::Any>(op, t, context);
    launch_as<kit::e5m2, kit::Any>(op, t, context);
}

const RegisterImplementations<Dequantize> kKernels{
    kit::kTarget,
    {{"vectors", +[](const Dequantize&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Dequantize& op, const DeviceInfo& device) { return tiles(op, device).describe(); }, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
