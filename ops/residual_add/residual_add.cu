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
    return kit::tile_rows(rows, dim, kWidth, 1, device);
}

template <class T>
void launch_as(const SumParams& params, const kit::RowTiles& t, Context& context) {
    kit::launch("residual_add", residual_add<T>, t.shape(), context.stream(), params, t);
}

void launch(const ResidualAdd& op, Context& context) {
    using kit::bf16, kit::half, kit::Types;
    SumParams p{.x = kit::input_rows(op.x, kWidth, context.info()),
                .residual = kit::input_rows(op.residual, kWidth, context.info()),
                .bias = kit::vector_rows(op.bias, kWidth),
                .out = kit::vector_rows(op.out, kWidth)};
    p.bias.stride = p.bias.pitch = 0;
    const kit::RowTiles t = tiles(op, context.info());
    const DType dtype = p.out.dtype;
    const bool same = p.x.dtype == dtype && p.residual.dtype == dtype && (!op.bias || p.bias.dtype == dtype);
    const bool known = same && kit::whole_vectors(t, kWidth, {p.x, p.residual, p.bias, p.out}) &&
                       kit::with_types<Types<bf16>, Types<half>, Types<float>>(dtype, dtype, [&](auto types) {
                           launch_as<typename decltype(types)::In>(p, t, context);
                       });
    if (!known) launch_as<kit::Any>(p, t, context);
}

const RegisterImplementations<ResidualAdd> kKernels{
    kit::kTarget,
    {{"vectors", +[](const ResidualAdd&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const ResidualAdd& op, const DeviceInfo& device) { return tiles(op, device).describe(); },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
