// NVML through dlopen: its C interface is stable, and no header of it is needed.
#include "bench/gpu_clock.h"

#include <dlfcn.h>

#include "core/cuda_api.h"

namespace weft {
namespace {

// Of nvml.h: nvmlClocksEventReason…, nvmlClockType_t.
constexpr std::uint64_t kPowerCap = 0x4, kHardwareSlowdown = 0x8, kSoftwareThermal = 0x20,
                        kHardwareThermal = 0x40, kPowerBrake = 0x80;
constexpr int kSmClock = 1, kSuccess = 0;

template <class F>
F symbol(void* library, const char* name) {
    return reinterpret_cast<F>(dlsym(library, name));
}

}  // namespace

bool ClockReading::throttled() const {
    return (reasons & (kHardwareSlowdown | kSoftwareThermal | kHardwareThermal | kPowerBrake)) != 0;
}
bool ClockReading::power_capped() const { return (reasons & kPowerCap) != 0; }

struct GpuClock::Library {
    ~Library() {
        if (shutdown != nullptr) shutdown();
        if (handle != nullptr) dlclose(handle);
    }
    // False where anything that is needed is missing.
    bool open(int index) {
        handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) return false;
        const auto start = symbol<int (*)()>(handle, "nvmlInit_v2");
        const auto by_bus = symbol<int (*)(const char*, void**)>(handle, "nvmlDeviceGetHandleByPciBusId_v2");
        clock = symbol<int (*)(void*, int, unsigned*)>(handle, "nvmlDeviceGetClockInfo");
        reasons =
            symbol<int (*)(void*, unsigned long long*)>(handle, "nvmlDeviceGetCurrentClocksThrottleReasons");
        if (start == nullptr || by_bus == nullptr || clock == nullptr || reasons == nullptr) return false;
        if (start() != kSuccess) return false;
        shutdown = symbol<int (*)()>(handle, "nvmlShutdown");
        // The driver's order of cards need not be CUDA's: the bus id says which one it is.
        return by_bus(cuda::api().bus_id(index).c_str(), &device) == kSuccess;
    }
    void* handle = nullptr;
    void* device = nullptr;
    int (*shutdown)() = nullptr;
    int (*clock)(void*, int, unsigned*) = nullptr;
    int (*reasons)(void*, unsigned long long*) = nullptr;
};

GpuClock::GpuClock(Device device) {
    if (device.type != DeviceType::cuda) return;
    auto library = std::make_unique<Library>();
    if (library->open(device.index)) library_ = std::move(library);
}
GpuClock::~GpuClock() = default;

ClockReading GpuClock::read() const {
    ClockReading reading;
    if (library_ == nullptr) return reading;
    unsigned mhz = 0;
    unsigned long long reasons = 0;
    if (library_->clock(library_->device, kSmClock, &mhz) == kSuccess) reading.sm_mhz = static_cast<int>(mhz);
    if (library_->reasons(library_->device, &reasons) == kSuccess) reading.reasons = reasons;
    return reading;
}

}  // namespace weft
