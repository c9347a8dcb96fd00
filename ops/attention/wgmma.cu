// Attention's wgmma kernels: tensor maps and launches.
#include "ops/attention/wgmma_arguments.cuh"
#include "ops/attention/wgmma_kernel.cuh"
#include "ops/attention/wgmma_launch.h"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T, bool kOptions, bool kRagged>
void launch_wgmma_as(const AttentionParams& p, const Attention& op, const attention::WgmmaConfig& config,
                     Context& context) {
    const kit::TensorMap q = box_map(op.q, p.group, config.rows / p.group, p.splits);
    const kit::TensorMap k = box_map(op.k, 1, p.page_keys, p.row_blocks),
                         v = box_map(op.v, 1, p.page_keys, p.row_blocks);
    const kit::LaunchShape shape = wgmma_shape(p, config, context.info());
    constexpr const char* kName = "attention_wgmma";
    const auto as = [&](auto kernel) { kit::launch(kName, kernel, shape, context.stream(), p, q, k, v); };
    if constexpr (!kOptions && !kRagged) {
        using attention::kWgmmaKeyDim, attention::kWgmmaValueDim;
        if (config.tile.value_dim > 0)
            return as(attention_wgmma<T, kWgmmaKeyDim, 2, false, false, kWgmmaValueDim>);
        if (config.tile.warpgroups == 3) {
            switch (config.tile.head_dim) {
                case 64: return as(attention_wgmma<T, 64, 3, false, false>);
                case 80: return as(attention_wgmma<T, 80, 3, false, false>);
                default: return as(attention_wgmma<T, 128, 3, false, false>);
            }
        }
    }
    switch (config.tile.head_dim) {
        case 64: return as(attention_wgmma<T, 64, 2, kOptions, kRagged>);
        case 128: return as(attention_wgmma<T, 128, 2, kOptions, kRagged>);
        case 256: return as(attention_wgmma<T, 256, 2, kOptions, kRagged>);
        default: break;
    }
    if constexpr (!kOptions) {
        if (config.tile.head_dim == 80) return as(attention_wgmma<T, 80, 2, false, kRagged>);
    }
    if constexpr (!kOptions && !kRagged) {
        if (config.tile.head_dim == 96) return as(attention_wgmma<T, 96, 2, false, false>);
        return as(attention_wgmma<T, 192, 2, false, false>);
    }
}

}  // namespace

void launch_attention_wgmma(const Attention& op, const attention::WgmmaConfig& config, float* partials,
                            const float* factors, Context& context) {
    attention::Problem problem(op);
    problem.options |= factors != nullptr;
    const AttentionParams p = wgmma_parameters(op, problem, config, partials, factors, context.info());
    const bool bf16 = op.q.dtype == DType::bf16;
    const auto launch = [&](auto as_bf16, auto as_half) {
        (bf16 ? as_bf16 : as_half)(p, op, config, context);
    };
    if (problem.ragged) {
        launch(launch_wgmma_as<kit::bf16, false, true>, launch_wgmma_as<kit::half, false, true>);
    } else if (problem.options) {
        launch(launch_wgmma_as<kit::bf16, true, false>, launch_wgmma_as<kit::half, true, false>);
    } else {
        launch(launch_wgmma_as<kit::bf16, false, false>, launch_wgmma_as<kit::half, false, false>);
    }
}

}  // namespace weft::inline WEFT_TARGET
