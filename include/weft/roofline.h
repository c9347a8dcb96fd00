// The time below which no correct implementation runs.
#pragma once

#include "weft/contract.h"
#include "weft/device_info.h"

namespace weft {

// Matrix or vector operations a second that `math` runs at, in TFLOP/s; 0 where the device's rate is not
// known.
double tflops_of(const DeviceInfo& device, DType math);

// Microseconds: the largest of the bytes over the better bandwidth of copying and reading, the operations over the rate of their unit,
// and a kernel's launch. 0 where it is not known: the device's rates are not (the CPU, the emulator), or how much of
// the work is left depends on what the operands hold.
double floor_us(const Work& work, const DeviceInfo& device);

}  // namespace weft
