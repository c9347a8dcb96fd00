// The table of known GPUs, which answers for cards that are not here.
#pragma once

#include <string_view>
#include <vector>

#include "weft/device_info.h"

namespace weft {

struct KnownDevice {
    std::string_view key, marketing;  // the latter as the driver names the card
    DeviceInfo info;
    bool probed = false;  // were its memory rates measured, or are they a data sheet's?
};

const std::vector<KnownDevice>& known_devices();

}  // namespace weft
