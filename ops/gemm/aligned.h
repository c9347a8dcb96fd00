// gemm of operands whose rows begin at no whole 16 bytes, as two launches: their rows are copied to where the copy engine and
// the library read them well, in scratch memory, and another implementation multiplies the copies. Plain C++, for launchers and
// tests alike.
#pragma once

#include <cstdint>

#include "ops/gemm/policy.h"
#include "ops/gemm/scratch.h"

namespace weft::gemm {

// An operand's rows as they lie in memory, in elements. Of weights that have n contiguous a row is one k.
struct RowsInMemory {
    std::int64_t rows = 0, length = 0, stride = 0;
};
// `p`: of the call.
RowsInMemory rows_in_memory(const Gemm& op, const Problem& p, Tensor Gemm::* operand);
// Whether every row begins at a multiple of 16 bytes.
bool begins_whole(const Tensor& t, const RowsInMemory& rows);

// What is left to multiply: an operand whose rows begin elsewhere lies in scratch, with rows at multiples of 128 bytes; of b and
// up both do, or neither. `scratch`: an address at a multiple of 256 bytes, of no memory where nothing is launched.
Remade aligned(const Gemm& op, std::uintptr_t scratch = 256);

// Who reads rows where they are: mma_sync, and the library by kernels of older generations.
enum class InPlace { mma_sync, library };
// Microseconds of a card whose multiprocessors are an H200's: to copy, and to multiply the copies; and of the product in place.
double aligned_cost(const Gemm& op, const DeviceInfo& device);
double unaligned_cost(const Gemm& op, InPlace by, const DeviceInfo& device);

// Why not; null where the call is taken. `wide`: whether wgmma or the library takes the product of the copies. `instead`: who
// would multiply otherwise.
const char* aligned_decline(const Gemm& op, bool wide, InPlace instead, const DeviceInfo& device);
// Why the library, which would take the call, leaves it to `aligned`; null where it does not.
const char* left_to_aligned(const Gemm& op, bool wide, const DeviceInfo& device);

}  // namespace weft::gemm
