// modulate on the GPU and in the emulator: policy and launch.
#include "ops/modulate/modulate.h"

#include "kit/affine_launch.h"
#include "ops/modulate/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

kit::AffinePlan plan(const Modulate& op, const DeviceInfo& device) {
    const Tensor none;
    const bool eager = op.rounding == Rounding::eager;
    kit::AffinePlan plan =
        kit::affine_plan({op.x, none, op.scale, op.shift, op.out, eager, &op.index, &op.index}, device);
    plan.params.offset = op.offset;
    return plan;
}

const RegisterImplementations<Modulate> kKernels{
    kit::kTarget,
    {{"vectors", +[](const Modulate&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Modulate& op, const DeviceInfo& device) { return plan(op, device).describe(); },
      +[](const Modulate& op, Context& context) {
          kit::launch_affine("modulate", plan(op, context.info()), context,
                             [](auto types) { return modulate<typename decltype(types)::In>; });
      }}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
