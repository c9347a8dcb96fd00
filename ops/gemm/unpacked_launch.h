// gemm's codes of four bits unpacked: compiled by itself, so that two cores share gemm's kernels.
#pragma once

#include "kit/target.h"
#include "ops/gemm/gemm.h"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET {

// Writes the operands of `product` that are codes in `op`, as gemm::unpacked describes them.
void launch_gemm_unpack(const Gemm& op, const Gemm& product, Context& context);

}  // namespace weft::inline WEFT_TARGET
