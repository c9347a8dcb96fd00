// Attention of few rows, launched: compiled by itself, so that builds divide the work.
#pragma once

#include "kit/target.h"
#include "ops/attention/attention.h"
#include "ops/attention/decode.h"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET {

// A call that attention::decline_decode takes. `partials`: memory for the results of splits, where these are merged later.
void launch_attention_decode(const Attention& op, const attention::DecodeConfig& config, float* partials,
                             Context& context);

}  // namespace weft::inline WEFT_TARGET
