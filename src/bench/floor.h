// A call's floor and rate, as text.
#pragma once

#include <string>

#include "weft/roofline.h"

namespace weft {

// "floor 11.6 us: 50.3 MB, 0.02 GFLOP, bound by memory"; empty where the device's rates are not known.
std::string floor_text(const Work& work, const DeviceInfo& device);

// The rate of a call that took `us`, on the side that bounds it: "4.21 TB/s" or "712 TFLOP/s".
std::string rate_text(const Work& work, const DeviceInfo& device, double us);

}  // namespace weft
