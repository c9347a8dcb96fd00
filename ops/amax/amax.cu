// amax on the GPU and in the emulator: policy and launch.
#include "ops/amax/amax.h"

#include "ops/amax/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

kit::RowTiles tiles(const Amax& op, const DeviceInfo& device) {
    std::int64_t rows = fold_rows(op.x)->rows, dim = op.x.dim(-1);
    kit::fold_dense(rows, dim, {fold_rows(op.x)->stride});
    // Blocks that loop: one atomic for many tiles.
    return kit::tile_rows(rows, dim, kAmaxWidth, kit::kAmaxBatch, device, 8 * device.sms);
}

template <class T>
void launch_as(const Amax& op, Context& context) {
    const kit::RowTiles t = tiles(op, context.info());
    kit::launch("amax", amax<T>, t.shape(), context.stream(), op.x.as<const T>(), fold_rows(op.x)->stride,
                kit::rows_aligned(op.x, kAmaxWidth), t, op.amax.as<float>());
}

void launch(const Amax& op, Context& context) {
    kit::with_wide_type(op.x.dtype,
                        [&](auto* type) { launch_as<std::remove_pointer_t<decltype(type)>>(op, context); });
}

const RegisterImplementations<Amax> kKernels{
    kit::kTarget,
    {{"vectors", +[](const Amax&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Amax& op, const DeviceInfo& device) { return tiles(op, device).describe(); }, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
