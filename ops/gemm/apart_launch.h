// gemm's sums that lie in memory: compiled by itself, so that two cores share gemm's kernels.
#pragma once

#include "kit/target.h"
#include "ops/gemm/apart.h"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET {

// Makes the results of `op` of the sums of `parts`.
void launch_gemm_finish(const Gemm& op, const gemm::Apart& parts, Context& context);

}  // namespace weft::inline WEFT_TARGET
