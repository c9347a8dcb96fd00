// group_norm on the GPU and in the emulator: policy and launches.
#include "ops/group_norm/group_norm.h"

#include "ops/group_norm/first_kernel.cuh"
#include "ops/group_norm/last_kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Which axis neighbouring threads walk, and how turns are cut (kernel.cuh).
struct Plan {
    bool channels_last = false;
    // Of vectors that are moved whole: channels first 8 places or 1, channels last 8, 2 or 1 channels.
    int width = 1;
    std::int64_t sets = 1, piece = 1;
    unsigned pieces = 1;
    std::int64_t ahead = 0;
    bool backwards = false;
    unsigned columns = 1, sets_across = 1;  // channels last
    int lanes = 1;
    int threads = kThreads;  // of a block

    std::int64_t items() const { return sets * pieces; }
    std::int64_t blocks() const { return pieces > 1 ? 2 * items() : items(); }
};

// Whether elements along an axis are neighbours that vectors of `width` may move.
bool aligned_along(const Tensor& t, int axis, int width) {
    return t.stride[axis] == 1 && kit::axis_aligned(t, axis, width);
}
bool both_aligned(const GroupNorm& op, int axis, int width) {
    return aligned_along(op.x, axis, width) && aligned_along(op.out, axis, width);
}

// Whether channels consist of vectors, and 32 bits tell which of its group's channels' vectors one is.
bool whole_channels(const Tensor& t, std::int64_t groups) {
    const std::int64_t stride = t.shape[1] > 1 ? t.stride[1] : 0;
    return t.shape[2] % kWidth == 0 && stride % kWidth == 0 &&
           t.shape[1] / groups * (stride / kWidth) >> 31 == 0;
}

// Cuts a set of `units`, of which a block takes `at_once` in `bytes`: pieces of `most` batches of them or fewer, so that
// there are four for each multiprocessor. What a block reads in little more time than it takes to tell others of its
// moments is one piece.
struct Cut {
    std::int64_t units, at_once, most, bytes;
};
void cut(Plan& plan, const Cut& by, std::int64_t most_units, const DeviceInfo& device) {
    const std::int64_t batches =
        kit::divide_up(kit::divide_up(plan.sets * by.units, std::int64_t{4} * device.sms), by.at_once);
    const std::int64_t piece =
        std::min(std::clamp<std::int64_t>(batches, 1, by.most) * by.at_once, most_units);
    const bool one = by.units <= std::min(2 * by.most * by.at_once, most_units);
    plan.piece = one ? std::max<std::int64_t>(1, by.units) : piece;
    plan.pieces = static_cast<unsigned>(std::max<std::int64_t>(1, kit::divide_up(by.units, plan.piece)));
    // The last moments of a set are known by the time of its first result if as many are begun in between as there are
    // under way.
    plan.ahead = std::min(plan.items(), plan.pieces + std::int64_t{3} * device.sms);
    // Where L2 does not hold x that long it has the last pieces still.
    plan.backwards = plan.ahead * plan.piece / by.at_once * by.bytes > device.l2_bytes * 3 / 5;
}

void cut_first(Plan& plan, const GroupNorm& op, const DeviceInfo& device) {
    const std::int64_t each = op.x.dim(1) / op.groups, row = kit::divide_up(op.x.dim(2), kWidth);
    if (op.x.dtype == op.out.dtype && both_aligned(op, 2, kWidth) && whole_channels(op.x, op.groups) &&
        whole_channels(op.out, op.groups))
        plan.width = kWidth;
    plan.sets = op.x.dim(0) * op.groups;
    cut(plan,
        {.units = row * each,
         .at_once = kThreads,
         .most = 16 / bytes(op.x.dtype, 1),
         .bytes = bytes(op.x.dtype, kThreads * kWidth)},
        (kChannels - 1) * std::max<std::int64_t>(1, row), device);
    if (plan.width == kWidth && row * each <= 2 * kFew) plan.threads = kFew;
}

void cut_last(Plan& plan, const GroupNorm& op, const DeviceInfo& device) {
    const std::int64_t columns = op.x.dim(1) / plan.width;
    const std::int64_t of_group = std::max<std::int64_t>(1, op.x.dim(1) / op.groups / plan.width);
    plan.columns = static_cast<unsigned>(kThreads / of_group * of_group);
    plan.sets_across = static_cast<unsigned>(kit::divide_up(columns, plan.columns));
    plan.sets = op.x.dim(0) * plan.sets_across;
    const std::int64_t own = std::clamp<std::int64_t>(columns, 1, plan.columns), rows = kThreads / own;
    while (plan.lanes < 32 && 2 * plan.lanes * kit::divide_up(own, of_group) <= kThreads) plan.lanes *= 2;
    const std::int64_t at_once = rows * (plan.width == kWidth ? 8 / bytes(op.x.dtype, 1) : 8);
    const std::int64_t read = bytes(op.x.dtype, at_once * own * plan.width);
    cut(plan,
        {.units = op.x.dim(2),
         .at_once = at_once,
         .most = std::clamp<std::int64_t>((32 << 10) / read, 2, 8),
         .bytes = read},
        std::int64_t{1} << 31, device);
}

Plan plan_of(const GroupNorm& op, const DeviceInfo& device) {
    const std::int64_t each = op.x.dim(1) / op.groups;  // none, where there are no channels
    const bool places_apart = op.x.stride[2] != 1 || op.x.dim(2) == 1;
    Plan plan;
    for (const int width : {kWidth, 2}) {
        if (plan.width == 1 && each % width == 0 && both_aligned(op, 1, width) &&
            (width < kWidth || op.x.dtype == op.out.dtype))
            plan.width = width;
    }
    plan.channels_last =
        places_apart && op.x.stride[1] == 1 && op.out.stride[1] == 1 && each / plan.width <= kThreads;
    if (plan.channels_last) {
        cut_last(plan, op, device);
    } else {
        plan.width = 1;
        cut_first(plan, op, device);
    }
    return plan;
}

// Memory for the moments of pieces and groups, and counters. Sets in one piece need none.
std::size_t scratch_bytes(const GroupNorm& op, const Plan& plan) {
    if (plan.pieces == 1) return 0;
    const auto groups = static_cast<std::size_t>(op.x.dim(0) * op.groups);
    return groups * (sizeof(float2) + sizeof(kit::Moments) * plan.pieces) +
           static_cast<std::size_t>(plan.sets + 1) * sizeof(unsigned);
}

NormParams params(const GroupNorm& op, const Plan& plan, const DeviceInfo& device, void* scratch) {
    const int across = plan.channels_last ? 1 : 2, width = plan.channels_last ? plan.width : kWidth;
    const auto gap = [](const Tensor& t) {
        return static_cast<unsigned>(t.stride[1] / kWidth - t.shape[2] / kWidth);
    };
    NormParams p{.x = op.x.data,
                 .weight = op.weight ? op.weight.data : nullptr,
                 .bias = op.bias ? op.bias.data : nullptr,
                 .out = op.out.data,
                 .weight_dtype = op.weight ? op.weight.dtype : DType::fp32,
                 .bias_dtype = op.bias ? op.bias.dtype : DType::fp32,
                 .out_dtype = op.out.dtype,
                 .x_stride = {},
                 .out_stride = {},
                 .channels = op.x.dim(1),
                 .places = op.x.dim(2),
                 .groups = static_cast<unsigned>(op.groups),
                 .each = static_cast<unsigned>(op.x.dim(1) / op.groups),
                 .x_aligned = aligned_along(op.x, across, width),
                 .out_aligned = aligned_along(op.out, across, width),
                 .weight_aligned = op.weight && kit::rows_aligned(op.weight, width),
                 .bias_aligned = op.bias && kit::rows_aligned(op.bias, width),
                 .eps = op.eps,
                 .silu = op.activation == GroupNorm::Activation::silu,
                 .pieces = plan.pieces,
                 .items = static_cast<unsigned>(plan.items()),
                 .ahead = static_cast<unsigned>(plan.ahead),
                 .backwards = plan.backwards,
                 .keep = l2_keeps_input(bytes(op.x.dtype, op.x.numel()), device),
                 .piece = plan.piece,
                 .pieces_of = nullptr,
                 .groups_of = static_cast<float2*>(scratch),
                 .taken = nullptr,
                 .done = nullptr,
                 .row = kit::Divisor::of(kit::divide_up(op.x.dim(2), kWidth)),
                 .x_gap = gap(op.x),
                 .out_gap = gap(op.out),
                 .columns = plan.columns,
                 .sets_across = plan.sets_across,
                 .lanes = plan.lanes};
    std::copy_n(op.x.stride, 3, p.x_stride);
    std::copy_n(op.out.stride, 3, p.out_stride);
    const std::int64_t groups = op.x.dim(0) * op.groups;
    p.pieces_of = reinterpret_cast<kit::Moments*>(p.groups_of + groups);
    p.taken = reinterpret_cast<unsigned*>(p.pieces_of + groups * plan.pieces);
    p.done = p.taken + 1;
    return p;
}

std::string describe(const Plan& plan, const NormParams& p) {
    std::string text = plan.channels_last ? "channels last" : "channels first";
    text += " width=" + std::to_string(plan.width) + " pieces=" + std::to_string(plan.pieces);
    if (plan.pieces > 1) text += "x" + std::to_string(plan.piece) + " ahead=" + std::to_string(plan.ahead);
    if (plan.pieces > 1 && plan.backwards) text += " backwards";
    if (plan.threads < kThreads) text += " threads=" + std::to_string(plan.threads);
    std::string scalar;
    const auto name = [&](const char* operand, bool is_scalar) {
        if (is_scalar) scalar += (scalar.empty() ? " scalar=" : ",") + std::string(operand);
    };
    name("x", !p.x_aligned);
    name("out", !p.out_aligned);
    name("weight", plan.channels_last && p.weight != nullptr && !p.weight_aligned);
    name("bias", plan.channels_last && p.bias != nullptr && !p.bias_aligned);
    return text + scalar;
}

template <class T>
void (*kernel_of(const Plan& plan))(NormParams) {
    if (!plan.channels_last && plan.width == kWidth)
        return plan.threads == kFew ? norm_first<T, true, kFew> : norm_first<T, true, kThreads>;
    if (!plan.channels_last) return norm_first<T, false, kThreads>;
    return plan.width == kWidth ? norm_last<T, kWidth> : plan.width == 2 ? norm_last<T, 2> : norm_last<T, 1>;
}

void launch(const GroupNorm& op, Context& context) {
    const Plan plan = plan_of(op, context.info());
    const std::size_t bytes = scratch_bytes(op, plan);
    const NormParams p = params(op, plan, context.info(), bytes > 0 ? context.scratch(bytes) : nullptr);
    const auto launch_blocks = [&](const char* name, auto kernel, std::int64_t blocks, int threads,
                                   auto... more) {
        kit::launch(name, kernel,
                    {.grid = dim3(static_cast<unsigned>(blocks)),
                     .block = dim3(static_cast<unsigned>(threads)),
                     .dependent = true},
                    context.stream(), p, more...);
    };
    if (plan.pieces > 1)
        launch_blocks("begin_turns", begin_turns, kit::divide_up(plan.sets + 1, kThreads), kThreads,
                      static_cast<unsigned>(plan.sets + 1));
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        launch_blocks(plan.channels_last ? "norm_last" : "norm_first",
                      kernel_of<std::remove_pointer_t<decltype(type)>>(plan), plan.blocks(), plan.threads);
    });
}

const char* decline(const GroupNorm& op, const DeviceInfo& device) {
    const std::int64_t vectors = kit::divide_up(op.x.dim(2), kWidth) * (op.x.dim(1) / op.groups);
    if (vectors >> 31 != 0 || op.x.dim(2) >> 31 != 0 || op.x.dim(1) >> 31 != 0)
        return "2^31 channels, places, or vectors of a group, or more";
    return plan_of(op, device).blocks() >> 31 == 0 ? nullptr : "2^31 pieces or more";
}

std::string configuration(const GroupNorm& op, const DeviceInfo& device) {
    const Plan plan = plan_of(op, device);
    return describe(plan, params(op, plan, device, nullptr));
}

const RegisterImplementations<GroupNorm> kKernels{kit::kTarget,
                                                  {{"moments", decline, configuration, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
