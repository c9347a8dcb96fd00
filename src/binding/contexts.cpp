// One context for each thread, device and stream.
#include "binding/contexts.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <list>

#include "core/cuda_api.h"
#include "weft/dlpack.h"

namespace weft::binding {
namespace {

Context& context_for(Device device) {
    // A handful of streams: a list searched from the one used last is faster than a map, and stays put.
    thread_local std::list<Context> contexts;
    Stream stream;
    if (device.type == DeviceType::cuda) {
        stream.handle = TVMFFIEnvGetStream(dlpack_code::kCudaDevice, device.index);
    }
    for (auto it = contexts.begin(); it != contexts.end(); ++it) {
        if (it->device() == device && it->stream().handle == stream.handle) {
            contexts.splice(contexts.begin(), contexts, it);
            return *it;
        }
    }
    return contexts.emplace_front(device, stream);
}

// Kernels are launched on the current device; the caller's may be another.
class CurrentDevice {
   public:
    explicit CurrentDevice(Device device)
        : before_(device.type == DeviceType::cuda ? cuda::select_device(device.index) : -1) {}
    ~CurrentDevice() {
        if (before_ >= 0) cuda::restore_device(before_);
    }
    CurrentDevice(const CurrentDevice&) = delete;
    CurrentDevice& operator=(const CurrentDevice&) = delete;

   private:
    int before_;
};

}  // namespace

void run(const OpEntry& entry, const Call& call) {
    try {
        const CurrentDevice current(call.device());
        detail::run(entry, call.op(), context_for(call.device()));
    } catch (const Error& error) {
        call.rethrow(error);
    }
}

}  // namespace weft::binding
