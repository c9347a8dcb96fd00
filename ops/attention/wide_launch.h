// Attention of wide rows, launched: compiled by itself, so that builds divide the work.
#pragma once

#include "kit/target.h"
#include "ops/attention/attention.h"
#include "ops/attention/wide.h"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET {

// A call that attention::decline_wide takes. `partials`: memory for the results of splits, which are merged later.
void launch_attention_wide(const Attention& op, const attention::WideConfig& config, float* partials,
                           Context& context);

}  // namespace weft::inline WEFT_TARGET
