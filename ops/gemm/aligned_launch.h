// gemm's operands copied to where rows begin at whole 16 bytes: compiled by itself, so that two cores share gemm's kernels.
#pragma once

#include "kit/target.h"
#include "ops/gemm/gemm.h"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET {

// Writes the operands of `product` that lie elsewhere than those of `op`, as gemm::aligned describes them.
void launch_gemm_align(const Gemm& op, const Gemm& product, Context& context);

}  // namespace weft::inline WEFT_TARGET
