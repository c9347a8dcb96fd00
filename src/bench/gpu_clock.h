// The SM clock and the reasons for a lower one, as the driver's management library says. It is loaded at
// first use: without it nothing is known, and nothing else changes.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/tensor.h"

namespace weft {

struct ClockReading {
    int sm_mhz = 0;             // 0: not known
    std::uint64_t reasons = 0;  // NVML's bits of why the clock is below the highest

    // Slowed by heat or by the hardware's own protection: such a sample is of another card.
    bool throttled() const;
    // Held by the power limit, as matrix multiplications at full rate always are: a state to report, which
    // both sides of a comparison share.
    bool power_capped() const;
};

class GpuClock {
   public:
    explicit GpuClock(Device device);
    ~GpuClock();
    GpuClock(const GpuClock&) = delete;
    GpuClock& operator=(const GpuClock&) = delete;

    bool known() const { return library_ != nullptr; }
    ClockReading read() const;  // takes tens of microseconds, on the host

   private:
    struct Library;
    std::unique_ptr<Library> library_;
};

}  // namespace weft
