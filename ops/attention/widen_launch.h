// Attention over codes made into 16 bits, launched: compiled by itself, so that builds divide the work.
#pragma once

#include "kit/target.h"
#include "ops/attention/widen.h"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET {

// Makes them, and the factors, of a call that attention::decline_widened takes.
void launch_attention_widen(const Attention& op, const attention::Widened& widened, Context& context);

}  // namespace weft::inline WEFT_TARGET
