// Where work is queued.
#pragma once

namespace weft {

// A CUDA stream (`handle` is the cudaStream_t; null is the default stream). Ignored on the CPU; to the emulator it is a
// name.
struct Stream {
    void* handle = nullptr;
};

}  // namespace weft
