// One context for each thread, device and stream.
#include "binding/contexts.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <list>

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

}  // namespace

void run(const OpEntry& entry, const Call& call) {
    try {
        detail::run(entry, call.op(), context_for(call.device()));
    } catch (const Error& error) {
        call.rethrow(error);
    }
}

}  // namespace weft::binding
