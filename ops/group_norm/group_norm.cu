// group_norm on the GPU and in the emulator: policy and launches.
#include "ops/group_norm/group_norm.h"

#include "ops/group_norm/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Which axis neighbouring threads walk, and into how many pieces a group's statistics are cut.
struct Plan {
    bool channels_last = false;
    unsigned pieces = 1, column_blocks = 1;
    std::int64_t piece = 1;
    int column = 1, columns = 1;
};

// Whether rows of `t` along an axis begin where whole vectors may be loaded.
bool aligned_along(const Tensor& t, int axis) {
    const std::int64_t vector = std::min<std::int64_t>(16, bytes(t.dtype, kWidth));
    if (t.stride[axis] != 1 ||
        reinterpret_cast<std::uintptr_t>(t.data) % static_cast<std::uintptr_t>(vector) != 0)
        return false;
    for (int i = 0; i < 3; ++i) {
        if (i != axis && t.shape[i] > 1 && bytes(t.dtype, t.stride[i]) % vector != 0) return false;
    }
    return true;
}

Plan plan_of(const GroupNorm& op, const DeviceInfo& device) {
    const std::int64_t batches = op.x.dim(0), channels = op.x.dim(1), places = op.x.dim(2);
    const std::int64_t each = channels / op.groups;  // none, where there are no channels
    const bool places_apart = op.x.stride[2] != 1 || places == 1;
    Plan plan;
    plan.column = each % kWidth == 0 && aligned_along(op.x, 1) ? kWidth : 1;
    plan.channels_last =
        places_apart && op.x.stride[1] == 1 && op.out.stride[1] == 1 && each / plan.column <= kThreads;
    const std::int64_t wanted = std::int64_t{4} * device.sms;
    // What is cut, and blocks that do not share it.
    std::int64_t units = kit::divide_up(places, kWidth) * each, blocks = batches * op.groups;
    if (plan.channels_last) {
        const std::int64_t of_group = std::max<std::int64_t>(1, each / plan.column);
        plan.columns = static_cast<int>(kThreads / of_group * of_group);
        plan.column_blocks = static_cast<unsigned>(kit::divide_up(channels / plan.column, plan.columns));
        units = places;
        blocks = batches * plan.column_blocks;
    }
    const std::int64_t least = plan.channels_last ? 16 : 2 * kThreads;  // of a piece
    const std::int64_t pieces =
        std::min(kit::divide_up(wanted, std::max<std::int64_t>(1, blocks)), units / least);
    plan.piece = std::max<std::int64_t>(1, kit::divide_up(units, std::max<std::int64_t>(1, pieces)));
    plan.pieces = static_cast<unsigned>(std::max<std::int64_t>(1, kit::divide_up(units, plan.piece)));
    return plan;
}

// Operands that are read or written in whole vectors.
struct Whole {
    bool x, out, weight, bias;
};
Whole whole_vectors(const GroupNorm& op, const Plan& plan) {
    const int along = plan.channels_last ? 1 : 2;
    return {.x = aligned_along(op.x, along),
            .out = aligned_along(op.out, along),
            .weight = op.weight && kit::rows_aligned(op.weight, kWidth),
            .bias = op.bias && kit::rows_aligned(op.bias, kWidth)};
}

std::string describe(const GroupNorm& op, const Plan& plan) {
    std::string text = plan.channels_last ? "channels last" : "channels first";
    text += " pieces=" + std::to_string(plan.pieces);
    if (plan.channels_last) text += " column=" + std::to_string(plan.column);
    const Whole whole = whole_vectors(op, plan);
    std::string scalar;
    const auto name = [&](const char* operand, bool is_scalar) {
        if (is_scalar) scalar += (scalar.empty() ? " scalar=" : ",") + std::string(operand);
    };
    name("x", !whole.x);
    name("out", !whole.out);
    name("weight", plan.channels_last && op.weight && !whole.weight);
    name("bias", plan.channels_last && op.bias && !whole.bias);
    return text + scalar;
}

NormParams params(const GroupNorm& op, const Plan& plan, void* scratch) {
    const Whole whole = whole_vectors(op, plan);
    NormParams p{.x = op.x.data,
                 .weight = op.weight ? op.weight.data : nullptr,
                 .bias = op.bias ? op.bias.data : nullptr,
                 .out = op.out.data,
                 .x_dtype = op.x.dtype,
                 .weight_dtype = op.weight ? op.weight.dtype : DType::fp32,
                 .bias_dtype = op.bias ? op.bias.dtype : DType::fp32,
                 .out_dtype = op.out.dtype,
                 .x_stride = {},
                 .out_stride = {},
                 .batches = op.x.dim(0),
                 .channels = op.x.dim(1),
                 .places = op.x.dim(2),
                 .groups = static_cast<unsigned>(op.groups),
                 .each = static_cast<unsigned>(op.x.dim(1) / op.groups),
                 .pieces = plan.pieces,
                 .piece = plan.piece,
                 .x_aligned = whole.x,
                 .out_aligned = whole.out,
                 .weight_aligned = whole.weight,
                 .bias_aligned = whole.bias,
                 .rows = {},
                 .of_group = kit::Divisor::of(op.x.dim(1) / op.groups),
                 .column = plan.column,
                 .columns = plan.columns,
                 .pieces_of = nullptr,
                 .groups_of = static_cast<float2*>(scratch),
                 .eps = op.eps,
                 .silu = op.activation == GroupNorm::Activation::silu};
    std::copy_n(op.x.stride, 3, p.x_stride);
    std::copy_n(op.out.stride, 3, p.out_stride);
    p.rows.add(op.x.dim(plan.channels_last ? 2 : 1));
    p.rows.add(op.x.dim(0));
    p.pieces_of = reinterpret_cast<kit::Moments*>(p.groups_of + op.x.dim(0) * op.groups);
    return p;
}

kit::RowTiles tiles(const GroupNorm& op, const Plan& plan, const DeviceInfo& device) {
    const std::int64_t channels = op.x.dim(1), places = op.x.dim(2);
    return plan.channels_last ? kit::tile_rows(op.x.dim(0) * places, channels, kWidth, 1, device)
                              : kit::tile_rows(op.x.dim(0) * channels, places, kWidth, 1, device);
}

template <class T>
void launch_statistics(const NormParams& p, const Plan& plan, Context& context) {
    const auto batches = static_cast<unsigned>(p.batches);
    const kit::LaunchShape shape{.grid = plan.channels_last ? dim3(batches * plan.pieces, plan.column_blocks)
                                                            : dim3(batches * p.groups * plan.pieces),
                                 .block = dim3(kThreads),
                                 .dependent = true};
    if (plan.channels_last) {
        kit::launch("moments_last", moments_last<T>, shape, context.stream(), p);
    } else {
        kit::launch("moments_first", moments_first<T>, shape, context.stream(), p,
                    kit::Divisor::of(kit::divide_up(p.places, kWidth)));
    }
}

std::size_t scratch_bytes(const GroupNorm& op, const Plan& plan) {
    const auto groups = static_cast<std::size_t>(op.x.dim(0) * op.groups);
    return groups * (sizeof(float2) + sizeof(kit::Moments) * plan.pieces);
}

void launch(const GroupNorm& op, Context& context) {
    const Plan plan = plan_of(op, context.info());
    const std::size_t bytes = scratch_bytes(op, plan);
    void* scratch = context.scratch(bytes);
    const NormParams p = params(op, plan, scratch);
    const kit::RowTiles t = tiles(op, plan, context.info());
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        launch_statistics<T>(p, plan, context);
        const auto groups = static_cast<unsigned>(kit::divide_up(p.batches * p.groups, kThreads / 32));
        kit::launch("moments_of_groups", moments_of_groups,
                    {.grid = dim3(groups), .block = dim3(kThreads), .dependent = true}, context.stream(), p);
        if (plan.channels_last) {
            kit::launch("normalise_last", normalise_last<T>, t.shape(), context.stream(), p, t);
        } else {
            kit::launch("normalise_first", normalise_first<T>, t.shape(), context.stream(), p, t);
        }
    });
}

const char* decline(const GroupNorm& op, const DeviceInfo& device) {
    const std::int64_t vectors = kit::divide_up(op.x.dim(2), kWidth) * (op.x.dim(1) / op.groups);
    if (vectors >> 31 != 0 || op.x.dim(2) >> 31 != 0 || op.x.dim(1) >> 31 != 0)
        return "2^31 channels, places, or vectors of a group, or more";
    const Plan plan = plan_of(op, device);
    return op.x.dim(0) * op.groups * plan.pieces >> 31 == 0 ? nullptr : "2^31 pieces or more";
}

std::string configuration(const GroupNorm& op, const DeviceInfo& device) {
    const Plan plan = plan_of(op, device);
    return describe(op, plan) + ", then " + tiles(op, plan, device).describe();
}

const RegisterImplementations<GroupNorm> kKernels{kit::kTarget,
                                                  {{"moments", decline, configuration, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
