// gemm through cuBLASLt, loaded when first needed. No vendor header here: the launchers see plain functions.
#pragma once

#include <string>

#include "ops/gemm/gemm.h"
#include "weft/context.h"
#include "weft/device_info.h"

namespace weft::gemm {

// Why cuBLASLt can't take the call by its documented limits, whether or not it is installed; null where it
// can.
const char* cublaslt_limits(const Gemm& op, const DeviceInfo& device);
// The same, or that the library is not here.
const char* cublaslt_decline(const Gemm& op, const DeviceInfo& device);
std::string cublaslt_config(const Gemm& op, const DeviceInfo& device);

// False where its heuristic knows no algorithm for the problem. The first call of a problem chooses a plan:
// outside a capture by timing the heuristic's candidates, inside one the heuristic's first that needs no
// workspace.
bool cublaslt_launch(const Gemm& op, Context& context);

}  // namespace weft::gemm
