// gemm as a product, or two, of which a library leaves the sums in scratch memory, and one pass over those that does all the
// rest: for what no kernel of the tensor cores takes. Plain C++, for launchers and tests alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/gemm/policy.h"

namespace weft::gemm {

// What is multiplied before.
struct Apart {
    // Of a and b, and of a and up where that is there: fp32 sums in scratch, rows at multiples of 16 bytes, without scales.
    Gemm product, up;
    std::int64_t stride = 0;  // elements from a row of sums to the next
    std::size_t bytes = 0;    // of scratch
};
// `scratch`: an address at a multiple of 256 bytes, of no memory where nothing is launched.
Apart apart(const Gemm& op, std::uintptr_t scratch = 256);

// Why not, whoever multiplies; null where the call is taken.
const char* apart_decline(const Gemm& op, const DeviceInfo& device);

}  // namespace weft::gemm
