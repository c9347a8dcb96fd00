// gemm of few tokens, launched: compiled by itself, so that two cores share gemm's kernels.
#pragma once

#include "kit/target.h"
#include "ops/gemm/gemm.h"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET {

// A call that gemm::skinny_decline takes.
void launch_gemm_skinny(const Gemm& op, Context& context);

}  // namespace weft::inline WEFT_TARGET
