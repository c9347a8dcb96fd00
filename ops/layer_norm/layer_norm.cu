// layer_norm on the GPU and in the emulator: the policy and the launch.
#include "ops/layer_norm/layer_norm.h"

#include "kit/row_norm_launch.h"
#include "ops/layer_norm/eager.cuh"
#include "ops/layer_norm/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Layer norms without a bias are not many, and lose nothing in the kernels of those with one.
constexpr RowKernels kForms{.plain = false, .beside = true, .wide = true, .modulated = true, .any = true};

void launch(const LayerNorm& op, Context& context) {
    kit::launch_norm<kForms>("layer_norm", op, context, [](auto* type, auto width, auto vectors, auto form) {
        return layer_norm_kernel<std::remove_pointer_t<decltype(type)>, width(), vectors(), decltype(form)>;
    });
}

const char* decline_eager(const LayerNorm& op, const DeviceInfo&) {
    if (op.rounding == Rounding::fused) return "only for rounding=eager";
    if (op.x.dim(-1) % 4 != 0 || op.x.dim(-1) > std::int64_t{1} << 24) {
        return "PyTorch's order of summation is reproduced for dim a multiple of 4 up to 2^24";
    }
    return kit::decline_eager_rows(op);
}

void launch_eager(const LayerNorm& op, Context& context) {
    const RowPlan plan{.width = 4, .lanes = 128, .rows = 1, .cluster = 1};
    const RowProblem rows = kit::norm_problem(op, {}, kit::RowsBy::strides);
    const kit::MixedNorm p = kit::norm_params(kit::bind_norm(op), op, rows, plan);
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        kit::launch("layer_norm_eager", layer_norm_eager_kernel<std::remove_pointer_t<decltype(type)>>,
                    kit::row_launch(plan, rows), context.stream(), p);
    });
}

const RegisterImplementations<LayerNorm> kKernels{
    kit::kTarget,
    {{"rows",
      [](const LayerNorm& op, const DeviceInfo&) -> const char* {
          return op.rounding == Rounding::fused ? kit::decline_norm(op) : "only for rounding=fused";
      },
      kit::norm_config<kForms, LayerNorm>, launch},
     {"eager", decline_eager, [](const LayerNorm&, const DeviceInfo&) { return std::string("lanes=128"); },
      launch_eager}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
