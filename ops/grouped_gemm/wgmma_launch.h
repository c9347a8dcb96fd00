// grouped_gemm on wgmma, launched: compiled by itself, because its kernels take long.
#pragma once

#include "kit/target.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET {

// A call that grouped::wgmma_decline takes.
void launch_grouped_wgmma(const GroupedGemm& op, Context& context);

}  // namespace weft::inline WEFT_TARGET
