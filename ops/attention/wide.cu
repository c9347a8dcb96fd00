// Attention's kernels of wide rows, launched.
#include "kit/launch.h"
#include "ops/attention/arguments.cuh"
#include "ops/attention/wide_kernel.cuh"
#include "ops/attention/wide_launch.h"

namespace weft::inline WEFT_TARGET {
namespace {

WideParams wide_parameters(const Attention& op) {
    WideParams w = {};
    const auto set = [](const float*& at, int& step, const Tensor& scale) {
        if (!scale) return;
        at = scale.as<float>(), step = scale.dim(0) == 1 ? 0 : static_cast<int>(scale.stride[0]);
    };
    set(w.q_scale, w.q_scale_step, op.q_scale);
    set(w.k_scale, w.k_scale_step, op.k_scale);
    set(w.v_scale, w.v_scale_step, op.v_scale);
    w.q_codes = is_fp8(op.q.dtype), w.e5m2 = op.k.dtype == DType::fp8_e5m2;
    w.out_bf16 = op.out.dtype == DType::bf16;
    return w;
}

template <class T>
void launch_wide_as(const AttentionParams& p, const WideParams& w, const attention::WideConfig& config,
                    const kit::LaunchShape& shape, Stream stream) {
    const auto launch = [&](auto of_512, auto of_1024) {
        kit::launch("attention_wide", config.tile.columns == 512 ? of_512 : of_1024, shape, stream, p, w);
    };
    config.tile.stored_bits == 16
        ? launch(attention_wide<T, T, 512>, attention_wide<T, T, 1024>)
        : launch(attention_wide<T, std::uint8_t, 512>, attention_wide<T, std::uint8_t, 1024>);
}

}  // namespace

void launch_attention_wide(const Attention& op, const attention::WideConfig& config, float* partials,
                           Context& context) {
    const attention::Problem problem(op);
    AttentionParams p = parameters(op, problem, config.tile.rows(), config.splits);
    if (partials != nullptr) set_partials(p, partials);
    p.slots = config.slots;
    const kit::LaunchShape shape{
        .grid = static_cast<unsigned>(attention::blocks(problem, config.tile.rows()) * config.splits),
        .block = WideTile::kThreads,
        .dynamic_shared = static_cast<std::size_t>(config.shared_bytes())};
    // Products of codes alone are those of halves, which hold every one of them.
    op.q.dtype == DType::bf16
        ? launch_wide_as<kit::bf16>(p, wide_parameters(op), config, shape, context.stream())
        : launch_wide_as<kit::half>(p, wide_parameters(op), config, shape, context.stream());
}

}  // namespace weft::inline WEFT_TARGET
