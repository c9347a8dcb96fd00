// quantize on the GPU and in the emulator: policy and launches.
#include "ops/quantize/quantize.h"

#include "ops/quantize/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// A given scale, or none, takes one pass, a vector a thread; to find one takes two, of batches. `max_blocks`
// bounds the first of these, whose every block leaves one number for all blocks of the second to read.
kit::RowTiles tiles(const Quantize& op, const DeviceInfo& device,
                    std::int64_t max_blocks = std::int64_t{1} << 30) {
    std::int64_t rows = fold_rows(op.x)->rows, dim = op.x.dim(-1);
    kit::fold_dense(rows, dim, {fold_rows(op.x)->stride, fold_rows(op.out)->stride});
    return kit::tile_rows(rows, dim, kWidth, op.tensor_scale ? kBatch : 1, device, max_blocks);
}
kit::RowTiles amax_tiles(const Quantize& op, const DeviceInfo& device) {
    return tiles(op, device, 4 * device.sms);
}

template <class T, class Out>
void launch_as(const Quantize& op, const kit::VectorRows& in, const kit::VectorRows& out,
               const kit::RowTiles& t, Context& context) {
    kit::launch("quantize", quantize<T, Out>, t.shape(), context.stream(), in, out,
                op.scale ? op.scale.as<const float>() : nullptr, t);
}

void launch_given(const Quantize& op, Context& context) {
    using kit::bf16, kit::half, kit::e4m3, kit::Types;
    const kit::RowTiles t = tiles(op, context.info());
    const kit::VectorRows in = kit::input_rows(op.x, kWidth, context.info()),
                          out = kit::vector_rows(op.out, kWidth);
    const bool known = kit::whole_vectors(t, kWidth, {in, out}) &&
                       kit::with_types<Types<bf16, e4m3>, Types<half, e4m3>, Types<float, e4m3>>(
                           in.dtype, out.dtype, [&](auto types) {
                               using Pair = decltype(types);
                               launch_as<typename Pair::In, typename Pair::Out>(op, in, out, t, context);
                           });
    if (known) return;
    kit::with_input(in.dtype, [&](auto* type) {
        launch_as<std::remove_pointer_t<decltype(type)>, kit::Any>(op, in, out, t, context);
    });
}

void launch_found(const Quantize& op, Context& context) {
    const kit::RowTiles t = tiles(op, context.info()), first = amax_tiles(op, context.info());
    const auto blocks = first.column_blocks * first.row_blocks;
    auto* amaxes = static_cast<float*>(context.scratch(sizeof(float) * static_cast<std::size_t>(blocks)));
    const Found found{amaxes, static_cast<int>(blocks), op.tensor_scale.as<float>()};
    kit::with_input(op.x.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const QuantizeIn<T> in{kit::vector_rows(op.x, kWidth)};
        kit::launch("quantize_amax", quantize_amax<T>, first.shape(), context.stream(), in, first, amaxes);
        kit::launch("quantize_found", quantize_found<T>, t.shape(), context.stream(), in,
                    kit::vector_rows(op.out, kWidth), found, t);
    });
}

void launch_tensor(const Quantize& op, Context& context) {
    op.tensor_scale ? launch_found(op, context) : launch_given(op, context);
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
    kit::with_input(op.x.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::launch("quantize_token", quantize_token<T>, token_shape(op), context.stream(),
                    QuantizeIn<T>{kit::vector_rows(op.x, kWidth)}, rows);
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
