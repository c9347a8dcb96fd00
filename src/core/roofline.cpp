// Floors: bytes over bandwidth, operations over rate, one launch.
#include "weft/roofline.h"

#include <algorithm>

namespace weft {

double tflops_of(const DeviceInfo& device, DType math) {
    if (is_fp8(math)) return device.fp8_tflops;
    // Matrix units multiply int8 at no more than twice the rate of 16 bits, also where there is no fp8.
    if (math == DType::int8) return std::max(device.fp8_tflops, 2 * device.half_tflops);
    return math == DType::fp32 ? device.fp32_tflops : device.half_tflops;
}

double floor_us(const Work& work, const DeviceInfo& device) {
    const double rate = tflops_of(device, work.math);
    const double tbps = std::max(device.copy_tbps, device.read_tbps);
    if (tbps <= 0 || rate <= 0 || work.at_most) return 0;
    return std::max({work.bytes / tbps * 1e-6, work.flops / rate * 1e-6, device.launch_us});
}

}  // namespace weft
