// quantize on the GPU and in the emulator: policy and launches.
#include "ops/quantize/quantize.h"

#include "ops/quantize/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr std::int64_t kAnyBlocks = std::int64_t{1} << 30;

const Tensor& groups_of(const Quantize& op) { return op.group_scale ? op.group_scale : op.swizzled_scale; }

// Where a row has one scale or more, or columns a factor each, rows are rows; else those without gaps are one long one.
bool rows_matter(const Quantize& op) { return op.channel_multiplier || groups_of(op); }

// A given scale, or none, takes one pass, a vector a thread; to find one takes two, of batches. `max_blocks`
// bounds the first of these, whose every block leaves one number for all blocks of the second to read.
kit::RowTiles tiles(const Quantize& op, const DeviceInfo& device, std::int64_t max_blocks = kAnyBlocks) {
    if (!op.tensor_scale) return kit::tile_tensors({&op.x, &op.out}, kWidth, !rows_matter(op), device);
    std::int64_t rows = fold_rows(op.x)->rows, dim = op.x.dim(-1);
    if (!rows_matter(op)) kit::fold_dense(rows, dim, {fold_rows(op.x)->stride, fold_rows(op.out)->stride});
    return kit::tile_rows(rows, dim, kWidth, kBatch, device, max_blocks);
}
kit::RowTiles amax_tiles(const Quantize& op, const DeviceInfo& device) {
    return tiles(op, device, 4 * device.sms);
}
kit::RowTiles group_tiles(const Quantize& op, const DeviceInfo& device) {
    const Rows x = *fold_rows(op.x);
    return kit::tile_groups(group_scales(op.group_scale, op.swizzled_scale, x.rows, x.dim), device);
}

template <class T, int N = kWidth>
QuantizeIn<T, N> input(const Quantize& op, const DeviceInfo& device) {
    return {kit::input_rows(op.x, N, device), kit::vector_rows(op.channel_multiplier, N), op.x.dim(-1)};
}

template <class T, class Out>
void launch_as(const Quantize& op, const kit::VectorRows& out, const kit::RowTiles& t, Context& context) {
    QuantizeIn<T> in = input<T>(op, context.info());
    in.x = kit::input_rows(op.x, kWidth, context.info(), t);
    kit::launch("quantize", quantize<T, Out>, t.shape(), context.stream(), in, out,
                op.scale ? op.scale.as<const float>() : nullptr, t);
}

void launch_given(const Quantize& op, Context& context) {
    using kit::bf16, kit::half, kit::e4m3, kit::Types;
    const kit::RowTiles t = tiles(op, context.info());
    const kit::VectorRows in = kit::vector_rows(op.x, kWidth, t), out = kit::vector_rows(op.out, kWidth, t);
    const bool known = kit::whole_vectors(t, kWidth, {in, out}) &&
                       kit::with_types<Types<bf16, e4m3>, Types<half, e4m3>, Types<float, e4m3>>(
                           in.dtype, out.dtype, [&](auto types) {
                               using Pair = decltype(types);
                               launch_as<typename Pair::In, typename Pair::Out>(op, out, t, context);
                           });
    if (known) return;
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        launch_as<std::remove_pointer_t<decltype(type)>, kit::Any>(op, out, t, context);
    });
}

// Launches the pass that finds the tensor's largest magnitude.
template <class T>
Found launch_amax(const Quantize& op, Context& context) {
    const kit::RowTiles t = amax_tiles(op, context.info());
    const auto blocks = t.column_blocks * t.row_blocks;
    auto* amaxes = static_cast<float*>(context.scratch(sizeof(float) * static_cast<std::size_t>(blocks)));
    const bool groups = static_cast<bool>(groups_of(op));
    kit::launch("quantize_amax", quantize_amax<T>, t.shape(), context.stream(), input<T>(op, context.info()),
                t, kit::AmaxOrNan{.keeps_nan = op.out.dtype == DType::int8}, amaxes);
    const float levels =
        kit::quantized_max(op.out.dtype) * (groups ? kit::quantized_max(DType::fp8_e4m3) : 1);
    return {amaxes, static_cast<int>(blocks), op.tensor_scale.as<float>(), levels};
}

void launch_tensor(const Quantize& op, Context& context) {
    if (!op.tensor_scale) return launch_given(op, context);
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const Found found = launch_amax<T>(op, context);
        const kit::RowTiles t = tiles(op, context.info());
        kit::launch("quantize_found", quantize_found<T>, t.shape(), context.stream(),
                    input<T>(op, context.info()), kit::vector_rows(op.out, kWidth), found, t);
    });
}

kit::LaunchShape token_shape(const Quantize& op) {
    return kit::row_quantize_shape(op.token_scale.numel(), op.x.dim(-1), kWidth);
}

void launch_token(const Quantize& op, Context& context) {
    const kit::QuantizedRows rows{.rows = op.token_scale.numel(),
                                  .dim = op.x.dim(-1),
                                  .out = kit::vector_rows(op.out, kWidth),
                                  .scale = op.token_scale.as<float>()};
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::launch("quantize_token", quantize_token<T>, token_shape(op), context.stream(),
                    input<T>(op, context.info()), rows);
    });
}

template <bool kWhole, class T>
void launch_groups_as(const Quantize& op, const kit::GroupedRows& out, Context& context) {
    const Found found = op.tensor_scale ? launch_amax<T>(op, context) : Found{};
    const kit::RowTiles t = group_tiles(op, context.info());
    kit::launch("quantize_grouped", quantize_grouped<kWhole, T>, t.shape(), context.stream(),
                input<T, kit::kGroupWidth>(op, context.info()), out, found, t);
}

void launch_groups(const Quantize& op, Context& context) {
    using kit::bf16, kit::half, kit::Types;
    constexpr int N = kit::kGroupWidth;
    const kit::GroupedRows out = kit::grouped_rows(op.out, op.scale, op.group_scale, op.swizzled_scale, N);
    const bool known = !op.channel_multiplier &&
                       kit::whole_groups(out, {kit::vector_rows(op.x, N)}, context.info()) &&
                       kit::with_types<Types<bf16>, Types<half>>(op.x.dtype, op.x.dtype, [&](auto types) {
                           launch_groups_as<true, typename decltype(types)::In>(op, out, context);
                       });
    if (known) return;
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        launch_groups_as<false, std::remove_pointer_t<decltype(type)>>(op, out, context);
    });
}

kit::LaunchShape block_shape(const Quantize& op) {
    return {.grid = dim3(static_cast<unsigned>(op.block_scale.dim(1)),
                         static_cast<unsigned>(std::min<std::int64_t>(op.block_scale.dim(0), 65535))),
            .block = dim3(256),
            .dependent = true};
}

void launch_blocks(const Quantize& op, Context& context) {
    const BlockScales scales{op.block_scale.as<float>(), op.block_scale.stride[0], op.block_scale.stride[1]};
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::launch("quantize_blocks", quantize_blocks<T>, block_shape(op), context.stream(),
                    input<T>(op, context.info()), kit::vector_rows(op.out, kWidth), scales,
                    fold_rows(op.x)->rows);
    });
}

// Which scales are there decides which implementation runs.
enum class Scales { tensor, token, groups, blocks };
Scales scales_of(const Quantize& op) {
    return op.block_scale   ? Scales::blocks
           : groups_of(op)  ? Scales::groups
           : op.token_scale ? Scales::token
                            : Scales::tensor;
}
template <Scales kScales>
const char* decline(const Quantize& op, const DeviceInfo&) {
    constexpr const char* kReasons[] = {
        "the scale is not one for the tensor", "there is no token_scale to write",
        "there are no scales of groups to write", "there is no block_scale to write"};
    return scales_of(op) == kScales ? nullptr : kReasons[static_cast<int>(kScales)];
}

std::string two_passes(const Quantize& op, const DeviceInfo& device, const std::string& last) {
    return op.tensor_scale ? "amax: " + amax_tiles(op, device).describe() + "; then " + last : last;
}

const RegisterImplementations<Quantize> kKernels{
    kit::kTarget,
    {{"tensor", decline<Scales::tensor>,
      +[](const Quantize& op, const DeviceInfo& device) {
          return two_passes(op, device, tiles(op, device).describe());
      },
      launch_tensor},
     {"token", decline<Scales::token>,
      +[](const Quantize& op, const DeviceInfo&) {
          return "threads=" + std::to_string(token_shape(op).block.x) + " a row";
      },
      launch_token},
     {"groups", decline<Scales::groups>,
      +[](const Quantize& op, const DeviceInfo& device) {
          return two_passes(op, device, group_tiles(op, device).describe());
      },
      launch_groups},
     {"blocks", decline<Scales::blocks>,
      +[](const Quantize& op, const DeviceInfo&) {
          const kit::LaunchShape shape = block_shape(op);
          return "grid=" + std::to_string(shape.grid.x) + "x" + std::to_string(shape.grid.y);
      },
      launch_blocks}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
