// channel_rms_norm on the GPU and in the emulator: policy and launches.
#include "ops/channel_rms_norm/channel_rms_norm.h"

#include <bit>
#include <cmath>

#include "ops/channel_rms_norm/whole_kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// As few as leave each of them at most 4 vectors, where a warp can.
int lanes(const ChannelRmsNorm& op) {
    int n = 1;
    while (n < 32 && n * kWidth * kHeld < op.x.dim(1)) n *= 2;
    return n;
}

bool few(const ChannelRmsNorm& op) { return (op.x.dim(0) * op.x.dim(2)) >> 30 == 0; }

ChannelParams params(const ChannelRmsNorm& op) {
    ChannelParams p{.x = op.x.data,
                    .weight = op.weight ? op.weight.data : nullptr,
                    .bias = op.bias ? op.bias.data : nullptr,
                    .length = op.length ? op.length.data : nullptr,
                    .out = op.out.data,
                    .weight_dtype = op.weight ? op.weight.dtype : DType::fp32,
                    .bias_dtype = op.bias ? op.bias.dtype : DType::fp32,
                    .length_dtype = op.length ? op.length.dtype : DType::fp32,
                    .out_dtype = op.out.dtype,
                    .x_stride = {},
                    .out_stride = {},
                    .length_stride = {},
                    .batches = op.x.dim(0),
                    .channels = op.x.dim(1),
                    .places = op.x.dim(2),
                    .x_aligned = kit::axis_aligned(op.x, 1, kWidth),
                    .out_aligned = kit::axis_aligned(op.out, 1, kWidth),
                    .weight_aligned = op.weight && kit::rows_aligned(op.weight, kWidth),
                    .bias_aligned = op.bias && kit::rows_aligned(op.bias, kWidth),
                    .lanes = lanes(op),
                    .lanes_log2 = std::countr_zero(static_cast<unsigned>(lanes(op))),
                    .by_places = kit::Divisor::of(few(op) ? op.x.dim(2) : 1),
                    .few = few(op),
                    .eps = op.eps,
                    .root = static_cast<float>(std::sqrt(static_cast<double>(op.x.dim(1)))),
                    .silu = op.activation == ChannelRmsNorm::Activation::silu,
                    .eager = op.rounding == Rounding::eager};
    std::copy_n(op.x.stride, 3, p.x_stride);
    std::copy_n(op.out.stride, 3, p.out_stride);
    std::copy_n(op.length.stride, 3, p.length_stride);  // zeros, where it is absent
    return p;
}

std::int64_t blocks(const ChannelRmsNorm& op, int places_a_block) {
    return kit::divide_up(op.x.dim(0) * op.x.dim(2), places_a_block);
}
// Threads of a block of the general kernels: small ones, where else multiprocessors had none. `lanes`: of a place.
int threads_of(const ChannelRmsNorm& op, int lanes, const DeviceInfo& device) {
    return blocks(op, kThreads / lanes) < device.sms ? kThreads / 4 : kThreads;
}

// Whether x and out are alike and consist of aligned vectors along `axis`, which 32 bits tell apart.
bool whole_vectors(const ChannelRmsNorm& op, int axis) {
    const auto width = static_cast<int>(16 / bytes(op.x.dtype, 1));
    const auto consists = [&](const Tensor& t) {
        bool whole = t.stride[axis] == 1 && t.shape[axis] % width == 0 && kit::axis_aligned(t, axis, width);
        for (int i = 0; i < 3; ++i) whole = whole && (t.shape[i] <= 1 || t.stride[i] / width >> 31 == 0);
        return whole;
    };
    return !op.length && op.x.dtype == op.out.dtype && (op.x.dim(0) * op.x.dim(2)) >> 31 == 0 &&
           consists(op.x) && consists(op.out);
}

// How whole vectors are shared out, where calls consist of them.
struct WholePlan {
    bool whole = false;
    unsigned threads = kThreads, lanes = 1, blocks = 0, blocks_a_batch = 1;  // the last: places apart
};

// A warp's lanes hold a place; blocks for all places, or as many as run at a time.
WholePlan whole_last(const ChannelRmsNorm& op, const DeviceInfo& device) {
    const std::int64_t vectors = op.x.dim(1) * bytes(op.x.dtype, 1) / 16;
    WholePlan plan{.whole = whole_vectors(op, 1) && vectors <= kLastVectors};
    while (plan.lanes < 32 && plan.lanes * kHeld < vectors) plan.lanes *= 2;
    plan.blocks = static_cast<unsigned>(
        std::min(blocks(op, kThreads / static_cast<int>(plan.lanes)), std::int64_t{4} * device.sms));
    return plan;
}

// As many lanes along a channel as leave room for all channels, fewer where blocks would be.
WholePlan whole_apart(const ChannelRmsNorm& op, const DeviceInfo& device) {
    const std::int64_t channels = op.x.dim(1), vectors = op.x.dim(2) * bytes(op.x.dtype, 1) / 16;
    WholePlan plan{.whole = whole_vectors(op, 2) && channels <= kApartChannels};
    plan.threads = channels <= kApartChannels / 4 ? kApartThreads / 2 : kApartThreads;
    for (plan.lanes = 32;; plan.lanes /= 2) {
        plan.blocks_a_batch = static_cast<unsigned>(kit::divide_up(vectors, plan.lanes));
        plan.blocks = static_cast<unsigned>(op.x.dim(0)) * plan.blocks_a_batch;
        const bool fits = channels <= plan.threads / plan.lanes * kApartHeld;
        if (plan.lanes == 4 || (fits && plan.blocks >= static_cast<unsigned>(device.sms))) return plan;
    }
}

void launch_whole(const ChannelRmsNorm& op, const WholePlan& plan, bool last, Context& context) {
    const int row = last ? 2 : 1, axis = last ? 1 : 2;
    const std::int64_t width = 16 / bytes(op.x.dtype, 1);
    const auto pitch = [&](const Tensor& t, int of) {
        return static_cast<unsigned>(t.stride[of] / width);  // of an axis of one: any
    };
    const WholeParams p{.call = params(op),
                        .batch = kit::Divisor::of(last ? op.x.dim(2) : plan.blocks_a_batch),
                        .x_pitch = {pitch(op.x, 0), pitch(op.x, row)},
                        .out_pitch = {pitch(op.out, 0), pitch(op.out, row)},
                        .vectors = static_cast<unsigned>(op.x.dim(axis) / width),
                        .places = static_cast<unsigned>(op.x.dim(0) * op.x.dim(2)),
                        .lanes = plan.lanes,
                        .lanes_log2 = static_cast<unsigned>(std::countr_zero(plan.lanes))};
    const kit::LaunchShape shape{.grid = dim3(plan.blocks), .block = dim3(plan.threads), .dependent = true};
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        if (last) return kit::launch("channels_last", channels_last_whole<T>, shape, context.stream(), p);
        kit::launch("channels_apart", channels_apart_whole<T>, shape, context.stream(), p);
    });
}

const char* decline_last(const ChannelRmsNorm& op, const DeviceInfo&) {
    if (op.x.dim(1) < kWidth) return "fewer channels than a vector has";
    if (op.x.stride[1] != 1 || op.out.stride[1] != 1) return "channels are not neighbours in memory";
    return blocks(op, kThreads / lanes(op)) >> 31 == 0 ? nullptr : "2^31 blocks or more";
}

std::string describe_last(const ChannelRmsNorm& op, const DeviceInfo& device) {
    const WholePlan plan = whole_last(op, device);
    if (plan.whole)
        return "lanes=" + std::to_string(plan.lanes) + " a place, blocks=" + std::to_string(plan.blocks) +
               " whole vectors";
    const bool vectors = kit::axis_aligned(op.x, 1, kWidth) && kit::axis_aligned(op.out, 1, kWidth);
    return "lanes=" + std::to_string(lanes(op)) +
           " a place, blocks=" + std::to_string(blocks(op, threads_of(op, lanes(op), device) / lanes(op))) +
           (vectors ? " vectors" : " elements");
}

void launch_last(const ChannelRmsNorm& op, Context& context) {
    if (const WholePlan plan = whole_last(op, context.info()); plan.whole)
        return launch_whole(op, plan, true, context);
    const int threads = threads_of(op, lanes(op), context.info());
    const kit::LaunchShape shape{.grid = dim3(static_cast<unsigned>(blocks(op, threads / lanes(op)))),
                                 .block = dim3(static_cast<unsigned>(threads)),
                                 .dependent = true};
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        kit::launch("channels_last", channels_last<std::remove_pointer_t<decltype(type)>>, shape,
                    context.stream(), params(op));
    });
}

std::string describe_apart(const ChannelRmsNorm& op, const DeviceInfo& device) {
    const WholePlan plan = whole_apart(op, device);
    if (plan.whole)
        return "threads=" + std::to_string(plan.threads) + " lanes=" + std::to_string(plan.lanes) +
               " a channel, blocks=" + std::to_string(plan.blocks) + " whole vectors";
    return "a thread a place, blocks=" + std::to_string(blocks(op, threads_of(op, 1, device)));
}

void launch_apart(const ChannelRmsNorm& op, Context& context) {
    if (const WholePlan plan = whole_apart(op, context.info()); plan.whole)
        return launch_whole(op, plan, false, context);
    const int threads = threads_of(op, 1, context.info());
    const kit::LaunchShape shape{.grid = dim3(static_cast<unsigned>(blocks(op, threads))),
                                 .block = dim3(static_cast<unsigned>(threads)),
                                 .dependent = true};
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        kit::launch("channels_apart", channels_apart<std::remove_pointer_t<decltype(type)>>, shape,
                    context.stream(), params(op));
    });
}

const RegisterImplementations<ChannelRmsNorm> kKernels{
    kit::kTarget,
    {{"channels_last", decline_last, describe_last, launch_last},
     {"channels_apart",
      +[](const ChannelRmsNorm& op, const DeviceInfo&) -> const char* {
          return blocks(op, kThreads) >> 31 == 0 ? nullptr : "2^31 blocks or more";
      },
      describe_apart, launch_apart}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
