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
    return kit::tile_rows(rows, dim, kWidth, kBatch, device);
}

template <class T>
GateAndUp<T> inputs(const GatedActivation& op) {
    const auto [gate, up] = halves(op);
    return {.gate = gate.as<const T>(),
            .up = up.as<const T>(),
            .gate_stride = fold_rows(gate)->stride,
            .up_stride = fold_rows(up)->stride,
            .gate_aligned = kit::rows_aligned(gate, kWidth),
            .up_aligned = kit::rows_aligned(up, kWidth),
            .activation = static_cast<kit::Activation>(op.activation)};
}

// Calls `use` with a null pointer to the device type of the inputs.
template <class Use>
void with_input(const GatedActivation& op, Use use) {
    switch (halves(op).gate.dtype) {
        case DType::bf16: return use(static_cast<kit::bf16*>(nullptr));
        case DType::fp16: return use(static_cast<kit::half*>(nullptr));
        default: return use(static_cast<float*>(nullptr));
    }
}

void launch_vectors(const GatedActivation& op, Context& context) {
    const kit::RowTiles t = tiles(op, context.info());
    const GatedOut out{op.out.data, fold_rows(op.out)->stride, op.out.dtype,
                       kit::rows_aligned(op.out, kWidth), op.scale ? op.scale.as<const float>() : nullptr};
    with_input(op, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::launch("gated_activation", gated_activation<T>, t.shape(), context.stream(), inputs<T>(op), out,
                    t);
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
    with_input(op, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::launch("gated_activation_token", gated_activation_token<T>, token_shape(op), context.stream(),
                    inputs<T>(op), rows);
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
