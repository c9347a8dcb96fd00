// What L2 should rather keep of a large kernel's memory: what it reads or what it writes.
#pragma once

#include <cstdint>

#include "weft/device_info.h"

namespace weft {

// Whether L2 is asked to keep `bytes` of input after all else (kit/ptx/memory.cuh: L2Policy). Where a kernel reads more
// than L2 holds, the next one finds nothing of the output there anyway; and when what is written leaves L2 first, DRAM
// moves more bytes a second (measured on an H200; no manual says so). Where it reads less, the output stays for the next
// one.
inline bool l2_keeps_input(std::int64_t bytes, const DeviceInfo& device) { return bytes >= device.l2_bytes; }

}  // namespace weft
