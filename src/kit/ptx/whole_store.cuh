// A store of 16 bytes that stays one access.
#pragma once

#include "kit/ptx/memory.cuh"

namespace weft::inline WEFT_TARGET::kit {

// To the compiler kit::store of 16 bytes is four stores of words, which it joins again; but not always: in loops of several
// of them, and behind branches, it was seen to leave the four. One number of 128 bits is never taken apart.
template <typename V>
__device__ __forceinline__ void store_whole(V* address, const V& value) {
    static_assert(sizeof(V) == 16);
#if defined(WEFT_EMULATOR)
    detail::store_checked(address, value);
#else
    unsigned __int128 raw;
    memcpy(&raw, static_cast<const void*>(&value), sizeof(V));
    *reinterpret_cast<unsigned __int128*>(address) = raw;
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
