// Attention's wgmma kernels: tensor maps and launches.
#include <algorithm>

#include "kit/launch.h"
#include "ops/attention/arguments.cuh"
#include "ops/attention/wgmma_kernel.cuh"
#include "ops/attention/wgmma_launch.h"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T, bool kOptions, bool kRagged>
void launch_wgmma_as(const AttentionParams& p, const Attention& op, const attention::WgmmaConfig& config,
                     unsigned grid, Stream stream) {
    const kit::TensorMap q = box_map(op.q, p.group, config.rows / p.group);
    const kit::TensorMap k = box_map(op.k, 1, p.page_keys), v = box_map(op.v, 1, p.page_keys);
    const kit::LaunchShape shape{.grid = grid,
                                 .block = static_cast<unsigned>(config.tile.threads()),
                                 .cluster = config.clustered ? static_cast<unsigned>(config.splits) : 1,
                                 .dynamic_shared = static_cast<std::size_t>(config.tile.shared_bytes()),
                                 .dependent = true};
    constexpr const char* kName = "attention_wgmma";
    const auto as = [&](auto kernel) { kit::launch(kName, kernel, shape, stream, p, q, k, v); };
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
    AttentionParams p = parameters(op, problem, config.rows, config.splits);
    if (partials != nullptr) set_partials(p, partials);
    if (factors != nullptr) {
        p.score_factors = factors, p.value_factors = factors + p.kv_heads;
        problem.options = true;
    }
    p.clustered = config.clustered;
    if (!op.cu_seqlens_q) set_near_heads(p, attention::near_heads(problem, context.info()));
    p.page_keys = attention::box_keys(op, config.tile.keys());
    p.hides_values = op.kv_lengths || op.key_mask || op.cu_seqlens_k;
    p.blocks = static_cast<unsigned>(attention::blocks(problem, config));
    // A cluster works once; a block alone goes on with other rows.
    const unsigned grid =
        config.clustered ? p.blocks : std::min(p.blocks, static_cast<unsigned>(context.info().sms));
    p.dealt_blocks = static_cast<unsigned>(attention::dealt_blocks(problem, config, context.info()));
    const bool bf16 = op.q.dtype == DType::bf16;
    const auto launch = [&](auto as_bf16, auto as_half) {
        (bf16 ? as_bf16 : as_half)(p, op, config, grid, context.stream());
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
