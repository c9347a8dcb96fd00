// Attention on wgmma, launched: compiled by itself, because its kernels take long.
#pragma once

#include "kit/target.h"
#include "ops/attention/attention.h"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET {

// A call that attention::decline_wgmma takes.
void launch_attention_wgmma(const Attention& op, Context& context);

}  // namespace weft::inline WEFT_TARGET
