// Floors and rates for people.
#include "bench/floor.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

double memory_us(const Work& work, const DeviceInfo& device) {
    return work.bytes / std::max(device.copy_tbps, device.read_tbps) * 1e-6;
}
double math_us(const Work& work, const DeviceInfo& device) {
    return work.flops / tflops_of(device, work.math) * 1e-6;
}

}  // namespace

std::string floor_text(const Work& work, const DeviceInfo& device) {
    const double floor = floor_us(work, device);
    if (floor <= 0) return {};
    const char* bound = floor == memory_us(work, device) ? "memory"
                        : floor == math_us(work, device) ? "arithmetic"
                                                         : "a kernel's launch";
    return fmt::format("floor {:.2f} us: {:.3g} MB, {:.3g} GFLOP, bound by {}", floor, work.bytes / 1e6,
                       work.flops / 1e9, bound);
}

std::string rate_text(const Work& work, const DeviceInfo& device, double us) {
    if (us <= 0) return {};
    const bool math = tflops_of(device, work.math) > 0 && math_us(work, device) > memory_us(work, device);
    return math ? fmt::format("{:.0f} TFLOP/s", work.flops / us * 1e-6)
                : fmt::format("{:.2f} TB/s", work.bytes / us * 1e-6);
}

}  // namespace weft
