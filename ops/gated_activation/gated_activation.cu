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

bool has_codes(const GatedActivation& op) { return static_cast<bool>(op.gate_scale); }

kit::RowTiles tiles(const GatedActivation& op, const DeviceInfo& device) {
    const auto [gate, up] = halves(op);
    if (has_codes(op)) return kit::tile_rows(fold_rows(op.out)->rows, op.out.dim(-1), kWidth, 1, device);
    const bool fold = !op.channel_multiplier && !op.gate_bias && !op.up_bias;
    return kit::tile_tensors({&op.out, &gate, &up}, kWidth, fold, device);
}

const Tensor& groups_of(const GatedActivation& op) {
    return op.group_scale ? op.group_scale : op.swizzled_scale;
}

kit::RowTiles group_tiles(const GatedActivation& op, const DeviceInfo& device) {
    const Rows rows = *fold_rows(op.out);
    return kit::tile_groups(group_scales(op.group_scale, op.swizzled_scale, rows.rows, rows.dim), device);
}

// The kit's are a longer list of the same names.
GateAndUp inputs(const GatedActivation& op, const DeviceInfo& device, int width = kWidth) {
    const auto [gate, up] = halves(op);
    return {.gate = kit::input_rows(gate, width, device),
            .up = kit::input_rows(up, width, device),
            .multiplier = kit::vector_rows(op.channel_multiplier, width),
            .gate_bias = kit::vector_rows(op.gate_bias, width),
            .up_bias = kit::vector_rows(op.up_bias, width),
            .activation = op.activation,
            .eager = op.rounding == Rounding::eager,
            .dim = op.out.dim(-1)};
}

bool has_long_code(const GateAndUp& in) {
    return in.eager || in.gate_bias.data != nullptr || in.up_bias.data != nullptr ||
           (in.activation != Activation::silu && in.activation != Activation::gelu_tanh);
}

template <class T, class Out, bool kLong>
void launch_as(const GateAndUp& in, const GatedOut& out, const kit::RowTiles& t, Context& context) {
    kit::launch("gated_activation", gated_activation<T, Out, kLong>, t.shape(), context.stream(), in, out, t);
}

template <int N>
GatedCodes<N> codes(const GatedActivation& op, const DeviceInfo& device) {
    const Rows rows = *fold_rows(op.out);
    return {inputs(op, device, N), group_scales({}, op.gate_scale, rows.rows, rows.dim),
            group_scales({}, op.up_scale, rows.rows, rows.dim)};
}

void launch_codes(const GatedActivation& op, Context& context) {
    const kit::RowTiles t = tiles(op, context.info());
    const GatedOut out{kit::vector_rows(op.out, kWidth), op.scale ? op.scale.as<const float>() : nullptr};
    kit::launch("gated_activation_codes", gated_activation_codes, t.shape(), context.stream(),
                codes<kWidth>(op, context.info()), out, t);
}

void launch_vectors(const GatedActivation& op, Context& context) {
    if (has_codes(op)) return launch_codes(op, context);
    const kit::RowTiles t = tiles(op, context.info());
    const auto [gate, up] = halves(op);
    GateAndUp in = inputs(op, context.info());
    in.gate = kit::input_rows(gate, kWidth, context.info(), t);
    in.up = kit::input_rows(up, kWidth, context.info(), t);
    const GatedOut out{kit::vector_rows(op.out, kWidth, t), op.scale ? op.scale.as<const float>() : nullptr};
    const bool whole = kit::whole_vectors(t, kWidth, {in.gate, in.up, out.rows, in.gate_bias, in.up_bias}) &&
                       kit::is_shared(in.gate_bias, in.gate.dtype) &&
                       kit::is_shared(in.up_bias, in.gate.dtype);
    const auto launch_known = [&](auto types) {
        using In = typename decltype(types)::In;
        using Out = typename decltype(types)::Out;
        if (has_long_code(in)) {
            launch_as<In, Out, true>(in, out, t, context);
        } else {
            launch_as<In, Out, false>(in, out, t, context);
        }
    };
    if (whole && (kit::with_wide<kit::bf16, kit::half, float>(in.gate.dtype, op.out.dtype, launch_known) ||
                  kit::with_narrow<kit::bf16, kit::half>(in.gate.dtype, op.out.dtype, launch_known)))
        return;
    kit::with_wide_type(in.gate.dtype, [&](auto* type) {
        launch_as<std::remove_pointer_t<decltype(type)>, kit::Any, true>(in, out, t, context);
    });
}

kit::LaunchShape token_shape(const GatedActivation& op) {
    return kit::row_quantize_shape(fold_rows(op.out)->rows, op.out.dim(-1), kWidth);
}

void launch_token(const GatedActivation& op, Context& context) {
    const kit::QuantizedRows rows{.rows = op.token_scale.numel(),
                                  .dim = op.out.dim(-1),
                                  .out = kit::vector_rows(op.out, kWidth),
                                  .scale = op.token_scale.as<float>()};
    const GateAndUp in = inputs(op, context.info());
    kit::with_wide_type(in.gate.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::launch("gated_activation_token", gated_activation_token<T>, token_shape(op), context.stream(),
                    in, rows);
    });
}

template <bool kWhole, class Source>
void launch_groups_from(const Source& source, const GatedActivation& op, const kit::GroupedRows& out,
                        Context& context) {
    const kit::RowTiles t = group_tiles(op, context.info());
    kit::launch("gated_activation_grouped", gated_activation_grouped<kWhole, Source>, t.shape(),
                context.stream(), source, out, t);
}

void launch_groups(const GatedActivation& op, Context& context) {
    using kit::bf16, kit::half, kit::Types;
    constexpr int N = kit::kGroupWidth;
    const kit::GroupedRows out = kit::grouped_rows(op.out, op.scale, op.group_scale, op.swizzled_scale, N);
    if (has_codes(op)) return launch_groups_from<false>(codes<N>(op, context.info()), op, out, context);
    const GateAndUp in = inputs(op, context.info(), N);
    const bool known =
        !op.channel_multiplier && !has_long_code(in) &&
        kit::whole_groups(out, {in.gate, in.up}, context.info()) &&
        kit::with_types<Types<bf16>, Types<half>>(in.gate.dtype, in.gate.dtype, [&](auto types) {
            launch_groups_from<true>(GatedRows<typename decltype(types)::In, N>{in}, op, out, context);
        });
    if (known) return;
    kit::with_wide_type(in.gate.dtype, [&](auto* type) {
        launch_groups_from<false>(GatedRows<std::remove_pointer_t<decltype(type)>, N>{in}, op, out, context);
    });
}

const RegisterImplementations<GatedActivation> kKernels{
    kit::kTarget,
    {{"vectors",
      +[](const GatedActivation& op, const DeviceInfo&) -> const char* {
          return op.token_scale  ? "each row's own scale needs a pass over the row first"
                 : groups_of(op) ? "the scales are of groups"
                                 : nullptr;
      },
      +[](const GatedActivation& op, const DeviceInfo& device) { return tiles(op, device).describe(); },
      launch_vectors},
     {"token",
      +[](const GatedActivation& op, const DeviceInfo&) -> const char* {
          if (has_codes(op)) return "rows of NVFP4 are not held for a scale of their own";
          return op.token_scale ? nullptr : "there is no token_scale to write";
      },
      +[](const GatedActivation& op, const DeviceInfo&) {
          return "threads=" + std::to_string(token_shape(op).block.x) + " a row";
      },
      launch_token},
     {"groups",
      +[](const GatedActivation& op, const DeviceInfo&) -> const char* {
          return groups_of(op) ? nullptr : "there are no scales of groups to write";
      },
      +[](const GatedActivation& op, const DeviceInfo& device) { return group_tiles(op, device).describe(); },
      launch_groups}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
