// activation on the GPU and in the emulator: policy and launches.
#include "ops/activation/activation.h"

#include "ops/activation/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Rows of x, or of what goes in front of its results.
kit::RowTiles tiles(const Tensor& x, const Tensor& add, const Tensor& bias, const Tensor& out,
                    const DeviceInfo& device) {
    return kit::tile_tensors({&x, &add, &out}, kWidth, !bias, device);
}

// out's columns that hold the results, and those before them.
Tensor results(const Activate& op) {
    return op.front ? op.out.slice(-1, op.front.dim(-1), op.out.dim(-1)) : op.out;
}
Tensor before_results(const Activate& op) { return op.out.slice(-1, 0, op.front.dim(-1)); }

template <class T, class Out, bool kLong>
void launch_as(const ActivateParams& p, const kit::RowTiles& t, Context& context) {
    kit::launch("activation", activation<T, Out, kLong>, t.shape(), context.stream(), p, t);
}

void launch_part(const ActivateParams& p, const kit::RowTiles& t, Context& context) {
    using kit::bf16, kit::half, kit::e4m3, kit::Types;
    const auto same = [&](const kit::VectorRows& in) { return !in.data || in.dtype == p.x.dtype; };
    const bool whole =
        same(p.add) && same(p.bias) && kit::whole_vectors(t, kWidth, {p.x, p.add, p.bias, p.out});
    const bool known =
        whole &&
        kit::with_types<Types<bf16>, Types<half>, Types<float>>(p.x.dtype, p.out.dtype, [&](auto types) {
            using T = typename decltype(types)::In;
            kit::has_long_code(p.activation, p.eager) ? launch_as<T, T, true>(p, t, context)
                                                      : launch_as<T, T, false>(p, t, context);
        });
    const bool narrow =
        !known && whole && !kit::has_long_code(p.activation, p.eager) &&
        kit::with_types<Types<bf16, e4m3>, Types<half, e4m3>>(p.x.dtype, p.out.dtype, [&](auto types) {
            launch_as<typename decltype(types)::In, typename decltype(types)::Out, false>(p, t, context);
        });
    if (!known && !narrow) launch_as<kit::Any, kit::Any, true>(p, t, context);
}

void launch(const Activate& op, Context& context) {
    const DeviceInfo& device = context.info();
    const Tensor out = results(op);
    const kit::RowTiles own = tiles(op.x, op.add, op.bias, out, device);
    ActivateParams p{.x = kit::input_rows(op.x, kWidth, device, own),
                     .add = kit::input_rows(op.add, kWidth, device, own),
                     .bias = kit::shared_vector(op.bias, kWidth),
                     .out = kit::vector_rows(out, kWidth, own),
                     .scale = op.scale ? op.scale.as<const float>() : nullptr,
                     .activation = op.activation,
                     .alpha = op.alpha,
                     .eager = op.rounding == Rounding::eager};
    if (op.x.numel() > 0) launch_part(p, own, context);
    if (!op.front || op.front.numel() == 0) return;
    const Tensor before = before_results(op);
    const kit::RowTiles front = tiles(op.front, {}, {}, before, device);
    p = {.x = kit::input_rows(op.front, kWidth, device, front),
         .add = {},
         .bias = {},
         .out = kit::vector_rows(before, kWidth, front),
         .scale = p.scale,
         .activation = Activation::none,
         .alpha = 0,
         .eager = false};
    launch_part(p, front, context);
}

const RegisterImplementations<Activate> kKernels{
    kit::kTarget,
    {{"vectors", +[](const Activate&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Activate& op, const DeviceInfo& device) {
          const std::string own = tiles(op.x, op.add, op.bias, results(op), device).describe();
          if (!op.front) return own;
          return own + "; front: " + tiles(op.front, {}, {}, before_results(op), device).describe();
      },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
