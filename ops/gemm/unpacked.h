// gemm of weights of four bits as two launches: codes become numbers of 16 bits in scratch memory, whose product another
// implementation computes. Plain C++, for launchers and tests alike.
#pragma once

#include <cstdint>

#include "ops/gemm/policy.h"
#include "ops/gemm/scratch.h"

namespace weft::gemm {

// What is left once the codes are unpacked: operands that were codes lie in scratch, rows of numbers at multiples of 128 bytes.
// `scratch`: an address at a multiple of 256 bytes, of no memory where nothing is launched.
Remade unpacked(const Gemm& op, std::uintptr_t scratch = 256);

// Microseconds of a card whose multiprocessors are an H200's: to unpack, and then to multiply; `wide`: on wgmma or by the
// library. And of the product that mma_sync makes of the codes as they are.
double unpacked_cost(const Gemm& op, bool wide, const DeviceInfo& device);
double packed_cost(const Gemm& op, const DeviceInfo& device);

// Why not; null where the call is taken. `wide`: whether one of them takes the product.
const char* unpacked_decline(const Gemm& op, bool wide, const DeviceInfo& device);

}  // namespace weft::gemm
