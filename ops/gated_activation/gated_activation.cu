// gated_activation on the GPU and in the emulator: policy and launches.
#include "ops/gated_activation/gated_activation.h"

#include "ops/gated_activation/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

struct Halves {
    Tensor gate, up;
};
Halves halves(const GatedActivation& op) {
    if (!op.x) return {op.gate, op.up};
    const std::int64_t hidden = op.out.dim(-1);
    return {op.x.slice(-1, 0, hidden), op.x.slice(-1, hidden, 2 * hidden)};
}

kit::RowTiles tiles(const GatedActivation& op, const DeviceInfo& device) {
    const auto [gate, up] = halves(op);
    std::int64_t rows = fold_rows(op.out)->rows, dim = op.out.dim(-1);
    kit::fold_dense(rows, dim, {fold_rows(gate)->stride, fold_rows(up)->stride, fold_rows(op.out)->stride});
    return kit::tile_rows(rows, dim, kWidth, 1, device);
}

GateAndUp inputs(const GatedActivation& op, const DeviceInfo& device) {
    const auto [gate, up] = halves(op);
    return {.gate = kit::input_rows(gate, kWidth, device),
            .up = kit::input_rows(up, kWidth, device),
            .activation = static_cast<kit::Activation>(op.activation)};
}

template <class T, class Out, bool kErf>
void launch_as(const GateAndUp& in, const GatedOut& out, const kit::RowTiles& t, Context& context) {
    kit::launch("gated_activation", gated_activation<T, Out, kErf>, t.shape(), context.stream(), in, out, t);
}

void launch_vectors(const GatedActivation& op, Context& context) {
    using kit::bf16, kit::half, kit::e4m3, kit::Types;
    const kit::RowTiles t = tiles(op, context.info());
    const GateAndUp in = inputs(op, context.info());
    const GatedOut out{kit::vector_rows(op.out, kWidth), op.scale ? op.scale.as<const float>() : nullptr};
    const bool known =
        kit::whole_vectors(t, kWidth, {in.gate, in.up, out.rows}) &&
        kit::with_types<Types<bf16>, Types<bf16, e4m3>, Types<half>, Types<half, e4m3>, Types<float>>(
            in.gate.dtype, op.out.dtype, [&](auto types) {
                using In = typename decltype(types)::In;
                using Out = typename decltype(types)::Out;
                if (in.activation == kit::Activation::gelu_erf) {
                    launch_as<In, Out, true>(in, out, t, context);
                } else {
                    launch_as<In, Out, false>(in, out, t, context);
                }
            });
    if (known) return;
    kit::with_input(in.gate.dtype, [&](auto* type) {
        launch_as<std::remove_pointer_t<decltype(type)>, kit::Any, true>(in, out, t, context);
    });
}

kit::LaunchShape token_shape(const GatedActivation& op) {
    return kit::row_quantize_shape(fold_rows(op.out)->rows, op.out.dim(-1), kWidth);
}

void launch_token(const GatedActivation& op, Context& context) {
    const kit::QuantizedRows rows{.rows = op.token_scale.numel(),
                                  .dim = op.out.dim(-1),
                                  .out = op.out.data,
                                  .out_dtype = op.out.dtype,
                                  .out_stride = fold_rows(op.out)->stride,
                                  .out_aligned = kit::rows_aligned(op.out, kWidth),
                                  .scale = op.token_scale.as<float>()};
    const GateAndUp in = inputs(op, context.info());
    kit::with_input(in.gate.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::launch("gated_activation_token", gated_activation_token<T>, token_shape(op), context.stream(),
                    in, rows);
    });
}

const RegisterImplementations<GatedActivation> kKernels{
    kit::kTarget,
    {{"vectors",
      +[](const GatedActivation& op, const DeviceInfo&) -> const char* {
          return op.token_scale ? "each row's own scale needs a pass over the row first" : nullptr;
      },
      +[](const GatedActivation& op, const DeviceInfo& device) { return tiles(op, device).describe(); },
      launch_vectors},
     {"token",
      +[](const GatedActivation& op, const DeviceInfo&) -> const char* {
          return op.token_scale ? nullptr : "there is no token_scale to write";
      },
      +[](const GatedActivation& op, const DeviceInfo&) {
          return "threads=" + std::to_string(token_shape(op).block.x) + " a row";
      },
      launch_token}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
