// One context for each thread, device and stream.
#include "binding/contexts.h"

#include <tvm/ffi/extra/c_env_api.h>

#include "core/context_list.h"
#include "weft/dlpack.h"

namespace weft::binding {
namespace {

Context& context_for(Device device) {
    thread_local ContextList contexts;
    Stream stream;
    if (device.type == DeviceType::cuda) {
        stream.handle = TVMFFIEnvGetStream(dlpack_code::kCudaDevice, device.index);
    }
    return contexts.of(device, stream);
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
