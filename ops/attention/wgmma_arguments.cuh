// Attention on wgmma: what its kernels are told of a call, and how they are launched.
#pragma once

#include <algorithm>

#include "kit/launch.h"
#include "ops/attention/arguments.cuh"
#include "ops/attention/wgmma.h"

namespace weft::inline WEFT_TARGET {
namespace {

// `partials`: memory for the results of splits, where these are merged later. `factors`: of each key head's scores, then of
// its values, or null.
inline AttentionParams wgmma_parameters(const Attention& op, const attention::Problem& problem,
                                        const attention::WgmmaConfig& config, float* partials,
                                        const float* factors, const DeviceInfo& device) {
    AttentionParams p = parameters(op, problem, config.rows, config.splits);
    if (partials != nullptr) set_partials(p, partials);
    if (factors != nullptr) p.score_factors = factors, p.value_factors = factors + p.kv_heads;
    p.clustered = config.clustered;
    if (!op.cu_seqlens_q) set_near_heads(p, attention::near_heads(problem, device));
    p.page_keys = attention::box_keys(op, config.tile.keys());
    p.hides_values = op.kv_lengths || op.key_mask || op.cu_seqlens_k;
    p.blocks = static_cast<unsigned>(attention::blocks(problem, config));
    p.dealt_blocks = static_cast<unsigned>(attention::dealt_blocks(problem, config, device));
    return p;
}

// A cluster works once; a block alone goes on with other rows.
inline kit::LaunchShape wgmma_shape(const AttentionParams& p, const attention::WgmmaConfig& config,
                                    const DeviceInfo& device) {
    return {.grid = config.clustered ? p.blocks : std::min(p.blocks, static_cast<unsigned>(device.sms)),
            .block = static_cast<unsigned>(config.tile.threads()),
            .cluster = config.clustered ? static_cast<unsigned>(config.splits) : 1,
            .dynamic_shared = static_cast<std::size_t>(config.tile.shared_bytes()),
            .dependent = true};
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
