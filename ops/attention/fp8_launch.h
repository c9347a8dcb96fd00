// Attention whose products are those of fp8, launched: compiled by itself, because its kernels take long.
#pragma once

#include "kit/target.h"
#include "ops/attention/fp8.h"
#include "ops/attention/wgmma.h"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET {

// A call that attention::decline_fp8 takes. `partials`: memory for the results of splits, where these are merged later.
void launch_attention_fp8(const Attention& op, const attention::WgmmaConfig& config,
                          const attention::TransposedValues& values, float* partials, Context& context);

}  // namespace weft::inline WEFT_TARGET
