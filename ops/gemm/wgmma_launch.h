// gemm on wgmma, launched: compiled by itself, because its kernels take long.
#pragma once

#include "kit/target.h"
#include "ops/gemm/gemm.h"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET {

// A call that gemm::wgmma_decline takes.
void launch_gemm_wgmma(const Gemm& op, Context& context);

}  // namespace weft::inline WEFT_TARGET
