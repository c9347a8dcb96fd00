// The little of the CUDA runtime that the core needs, as a table of plain functions: a build without CUDA has one
// too, and a test puts its own in place.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "weft/tensor.h"

namespace weft::cuda {

struct Properties {
    std::string name;
    int arch = 0, sms = 0, shared_per_block = 0, shared_per_sm = 0;
    long l2_bytes = 0;
};

// Each throws Error(cuda) with the runtime's message, but for those that are noexcept. Memory, streams, events and
// the default stream are those of the thread's selected device.
struct Api {
    int (*device_count)() noexcept;  // 0 without a driver
    Properties (*properties)(int device);
    std::string (*bus_id)(int device);  // "00000000:1B:00.0"
    int (*selected)();
    void (*select)(int device);

    void* (*allocate)(std::size_t bytes);
    void (*release)(void* data) noexcept;
    void (*copy)(void* to, const void* from, std::size_t bytes);  // any direction; waits
    void (*fill)(void* data, int byte, std::size_t bytes);        // waits
    void (*synchronize)(void* stream);
    bool (*is_capturing)(void* stream);

    std::shared_ptr<void> (*make_stream)();
    // What `work` queues on `stream`, as an executable graph; `nodes` is how many kernels and copies it has.
    std::shared_ptr<void> (*capture)(void* stream, const std::function<void()>& work, int& nodes);
    void (*launch_graph)(void* graph, void* stream);
    // Microseconds between events before and after `work`; `during` is called once it is queued.
    double (*time_us)(void* stream, const std::function<void()>& work, const std::function<void()>& during);
};

// CUDA's; in a build without it, one that has no device.
const Api& api();
// Puts another in place, for tests; null: the build's own again.
void replace_api(const Api* other);

// While it lives, a CUDA device is the one that this thread has selected; then the one from before is again. Other
// devices are nothing to select.
class DeviceGuard {
   public:
    explicit DeviceGuard(Device device);
    ~DeviceGuard();
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;

   private:
    int before_ = -1;  // to be selected again; -1: nothing to do
};

}  // namespace weft::cuda
