// euler_step on the GPU and in the emulator: policy and launch.
#include "ops/euler_step/euler_step.h"

#include "ops/euler_step/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

kit::RowTiles tiles(const EulerStep& op, const DeviceInfo& device) {
    return kit::tile_tensors({&op.out, &op.velocity, &op.sample, &op.conditional}, kWidth, true, device);
}

void launch(const EulerStep& op, Context& context) {
    using kit::bf16, kit::half, kit::Types;
    const DeviceInfo& device = context.info();
    const kit::RowTiles t = tiles(op, device);
    const StepParams p{.sample = kit::input_rows(op.sample, kWidth, device, t),
                       .velocity = kit::input_rows(op.velocity, kWidth, device, t),
                       .conditional = kit::input_rows(op.conditional, kWidth, device, t),
                       .out = kit::vector_rows(op.out, kWidth, t),
                       .step = op.step,
                       .guidance = op.guidance,
                       .eager = op.rounding == Rounding::eager};
    const auto go = [&](auto* type) {
        kit::launch("euler_step", euler_step<std::remove_pointer_t<decltype(type)>>, t.shape(),
                    context.stream(), p, t);
    };
    const DType dtype = p.out.dtype;
    const bool known = p.velocity.dtype == dtype && (!op.sample || p.sample.dtype == dtype) &&
                       kit::whole_vectors(t, kWidth, {p.sample, p.velocity, p.conditional, p.out});
    if (!known || !kit::with_types<Types<bf16>, Types<half>, Types<float>>(dtype, dtype, [&](auto types) {
            go(static_cast<typename decltype(types)::In*>(nullptr));
        }))
        go(static_cast<kit::Any*>(nullptr));
}

const RegisterImplementations<EulerStep> kKernels{
    kit::kTarget,
    {{"vectors", +[](const EulerStep&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const EulerStep& op, const DeviceInfo& device) { return tiles(op, device).describe(); }, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
