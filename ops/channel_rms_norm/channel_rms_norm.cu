// channel_rms_norm on the GPU and in the emulator: policy and launches.
#include "ops/channel_rms_norm/channel_rms_norm.h"

#include <cmath>

#include "ops/channel_rms_norm/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Whether each place's channels begin where whole vectors may be loaded.
bool channels_aligned(const Tensor& t) {
    const std::int64_t vector = std::min<std::int64_t>(16, bytes(t.dtype, kWidth));
    const auto whole = [&](int axis) {
        return t.shape[axis] <= 1 || bytes(t.dtype, t.stride[axis]) % vector == 0;
    };
    return reinterpret_cast<std::uintptr_t>(t.data) % static_cast<std::uintptr_t>(vector) == 0 && whole(0) &&
           whole(2);
}

// As few as leave each of them at most 4 vectors, where a warp can.
int lanes(const ChannelRmsNorm& op) {
    int n = 1;
    while (n < 32 && n * kWidth * kHeld < op.x.dim(1)) n *= 2;
    return n;
}

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
                    .x_aligned = channels_aligned(op.x),
                    .out_aligned = channels_aligned(op.out),
                    .weight_aligned = op.weight && kit::rows_aligned(op.weight, kWidth),
                    .bias_aligned = op.bias && kit::rows_aligned(op.bias, kWidth),
                    .lanes = lanes(op),
                    .eps = op.eps,
                    .root = static_cast<float>(std::sqrt(static_cast<double>(op.x.dim(1)))),
                    .silu = op.activation == ChannelRmsNorm::Activation::silu,
                    .eager = op.rounding == ChannelRmsNorm::Rounding::eager};
    std::copy_n(op.x.stride, 3, p.x_stride);
    std::copy_n(op.out.stride, 3, p.out_stride);
    std::copy_n(op.length.stride, 3, p.length_stride);  // zeros, where it is absent
    return p;
}

std::int64_t blocks(const ChannelRmsNorm& op, int places_a_block) {
    return kit::divide_up(op.x.dim(0) * op.x.dim(2), places_a_block);
}

const char* decline_last(const ChannelRmsNorm& op, const DeviceInfo&) {
    const bool single = op.x.dim(1) == 1;
    if (!single && (op.x.stride[1] != 1 || op.out.stride[1] != 1))
        return "channels are not neighbours in memory";
    return blocks(op, kThreads / lanes(op)) >> 31 == 0 ? nullptr : "2^31 blocks or more";
}

void launch_last(const ChannelRmsNorm& op, Context& context) {
    const kit::LaunchShape shape{.grid = dim3(static_cast<unsigned>(blocks(op, kThreads / lanes(op)))),
                                 .block = dim3(kThreads),
                                 .dependent = true};
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        kit::launch("channels_last", channels_last<std::remove_pointer_t<decltype(type)>>, shape,
                    context.stream(), params(op));
    });
}

void launch_apart(const ChannelRmsNorm& op, Context& context) {
    const kit::LaunchShape shape{.grid = dim3(static_cast<unsigned>(blocks(op, kThreads))),
                                 .block = dim3(kThreads),
                                 .dependent = true};
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        kit::launch("channels_apart", channels_apart<std::remove_pointer_t<decltype(type)>>, shape,
                    context.stream(), params(op));
    });
}

const RegisterImplementations<ChannelRmsNorm> kKernels{
    kit::kTarget,
    {{"channels_last", decline_last,
      +[](const ChannelRmsNorm& op, const DeviceInfo&) {
          const bool vectors = channels_aligned(op.x) && channels_aligned(op.out);
          return "lanes=" + std::to_string(lanes(op)) +
                 " a place, blocks=" + std::to_string(blocks(op, kThreads / lanes(op))) +
                 (vectors ? " vectors" : " elements");
      },
      launch_last},
     {"channels_apart",
      +[](const ChannelRmsNorm& op, const DeviceInfo&) -> const char* {
          return blocks(op, kThreads) >> 31 == 0 ? nullptr : "2^31 blocks or more";
      },
      +[](const ChannelRmsNorm& op, const DeviceInfo&) {
          return "a thread a place, blocks=" + std::to_string(blocks(op, kThreads));
      },
      launch_apart}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
