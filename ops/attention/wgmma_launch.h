// Attention on wgmma, launched: compiled by itself, because its kernels take long.
#pragma once

#include "kit/target.h"
#include "ops/attention/attention.h"
#include "ops/attention/wgmma.h"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET {

// A call that attention::decline_wgmma takes. `partials`: memory for the results of splits, where these are merged later.
// `factors`: of each key head's scores, then of its values, or null.
void launch_attention_wgmma(const Attention& op, const attention::WgmmaConfig& config, float* partials,
                            const float* factors, Context& context);

}  // namespace weft::inline WEFT_TARGET
