// Some bits of a word, and others turned over, in one instruction.
#pragma once

#include <cstdint>

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

// (word & mask) ^ turned. Of two constants the compiler puts neither in a register, and makes two instructions.
__device__ __forceinline__ std::uint32_t masked_xor(std::uint32_t word, std::uint32_t mask,
                                                    std::uint32_t turned) {
#if defined(WEFT_EMULATOR)
    return (word & mask) ^ turned;
#else
    std::uint32_t bits;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(bits) : "r"(word), "r"(mask), "r"(turned));
    return bits;
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
