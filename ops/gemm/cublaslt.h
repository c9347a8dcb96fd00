// gemm through cuBLASLt, loaded when first needed. No vendor header here: the launchers see plain functions.
#pragma once

#include <cstddef>
#include <string>

#include "ops/gemm/gemm.h"
#include "weft/context.h"
#include "weft/device_info.h"
#include "weft/op.h"

namespace weft::gemm {

// What it may ask of a context's scratch memory, from the beginning on.
inline constexpr std::size_t kWorkspace = std::size_t{64} << 20;

// Why cuBLASLt can't take the call by its documented limits, whether or not it is installed; null where it
// can.
const char* cublaslt_limits(const Gemm& op, const DeviceInfo& device);
// The same, or that the library is not here.
const char* cublaslt_decline(const Gemm& op, const DeviceInfo& device);
std::string cublaslt_config(const Gemm& op, const DeviceInfo& device);

// Chooses how a problem is computed, at its first call: as `weft tune` has timed it, by timing where the context asks for
// that, else as the library's heuristic says, which allocates nothing and waits for nothing.
Readiness cublaslt_prepare(const Gemm& op, Context& context);
void cublaslt_launch(const Gemm& op, Context& context);

}  // namespace weft::gemm
