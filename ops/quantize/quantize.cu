// quantize on the GPU and in the emulator: policy and launches.
#include "ops/quantize/quantize.h"

#include "ops/quantize/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// `max_blocks` bounds the first pass, whose every block leaves one number for all blocks of the second to
// read.
kit::RowTiles tiles(const Quantize& op, const DeviceInfo& device,
                    std::int64_t max_blocks = std::int64_t{1} << 30) {
    std::int64_t rows = fold_rows(op.x)->rows, dim = op.x.dim(-1);
    kit::fold_dense(rows, dim, {fold_rows(op.x)->stride, fold_rows(op.out)->stride});
    return kit::tile_rows(rows, dim, kWidth, kBatch, device, max_blocks);
}
kit::RowTiles amax_tiles(const Quantize& op, const DeviceInfo& device) {
    return tiles(op, device, 4 * device.sms);
}

template <class T>
QuantizeIn<T> input(const Quantize& op) {
    return {op.x.as<const T>(), fold_rows(op.x)->stride, kit::rows_aligned(op.x, kWidth)};
}

// Calls `use` with a null pointer to the device type of x.
template <class Use>
void with_input(const Quantize& op, Use use) {
    switch (op.x.dtype) {
        case DType::bf16: return use(static_cast<kit::bf16*>(nullptr));
        case DType::fp16: return use(static_cast<kit::half*>(nullptr));
        default: return use(static_cast<float*>(nullptr));
    }
}

void launch_tensor(const Quantize& op, Context& context) {
    const kit::RowTiles t = tiles(op, context.info());
    QuantizeOut out{.data = op.out.data,
                    .stride = fold_rows(op.out)->stride,
                    .dtype = op.out.dtype,
                    .aligned = kit::rows_aligned(op.out, kWidth),
                    .scale = op.scale ? op.scale.as<const float>() : nullptr,
                    .amaxes = nullptr,
                    .amax_count = 0,
                    .tensor_scale = nullptr};
    with_input(op, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        if (op.tensor_scale) {
            const kit::RowTiles first = amax_tiles(op, context.info());
            out.amax_count = static_cast<int>(first.column_blocks * first.row_blocks);
            auto* amaxes = static_cast<float*>(
                context.scratch(sizeof(float) * static_cast<std::size_t>(out.amax_count)));
            out.amaxes = amaxes;
            out.tensor_scale = op.tensor_scale.as<float>();
            kit::launch("quantize_amax", quantize_amax<T>, first.shape(), context.stream(), input<T>(op),
                        first, amaxes);
        }
        kit::launch("quantize", quantize<T>, t.shape(), context.stream(), input<T>(op), out, t);
    });
}

kit::LaunchShape token_shape(const Quantize& op) {
    return kit::row_quantize_shape(op.token_scale.numel(), op.x.dim(-1), kWidth);
}

void launch_token(const Quantize& op, Context& context) {
    const kit::QuantizedRows rows{.rows = op.token_scale.numel(),
                                  .dim = op.x.dim(-1),
                                  .out = op.out.data,
                                  .out_dtype = op.out.dtype,
                                  .out_stride = fold_rows(op.out)->stride,
                                  .out_aligned = kit::rows_aligned(op.out, kWidth),
                                  .scale = op.token_scale.as<float>()};
    with_input(op, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::launch("quantize_token", quantize_token<T>, token_shape(op), context.stream(), input<T>(op),
                    rows);
    });
}

const RegisterImplementations<Quantize> kKernels{
    kit::kTarget,
    {{"tensor",
      +[](const Quantize& op, const DeviceInfo&) -> const char* {
          return op.token_scale ? "each row's own scale needs a pass over the row first" : nullptr;
      },
      +[](const Quantize& op, const DeviceInfo& device) {
          const std::string second = tiles(op, device).describe();
          return op.tensor_scale ? "amax: " + amax_tiles(op, device).describe() + "; then " + second : second;
      },
      launch_tensor},
     {"token",
      +[](const Quantize& op, const DeviceInfo&) -> const char* {
          return op.token_scale ? nullptr : "there is no token_scale to write";
      },
      +[](const Quantize& op, const DeviceInfo&) {
          return "threads=" + std::to_string(token_shape(op).block.x) + " a row";
      },
      launch_token}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
