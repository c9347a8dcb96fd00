// residual_add on the GPU and in the emulator: policy and launch.
#include "ops/residual_add/residual_add.h"

#include "kit/affine_launch.h"
#include "ops/residual_add/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

kit::AffinePlan plan(const ResidualAdd& op, const DeviceInfo& device) {
    const bool eager = op.rounding == Rounding::eager;
    return kit::affine_plan({op.x, op.bias, op.gate, op.residual, op.out, eager, &op.index}, device);
}

const RegisterImplementations<ResidualAdd> kKernels{
    kit::kTarget,
    {{"vectors", +[](const ResidualAdd&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const ResidualAdd& op, const DeviceInfo& device) { return plan(op, device).describe(); },
      +[](const ResidualAdd& op, Context& context) {
          kit::launch_affine("residual_add", plan(op, context.info()), context,
                             [](auto types) { return residual_add<typename decltype(types)::In>; });
      }}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
