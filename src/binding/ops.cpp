// One tvm-ffi function for each op of the registry: weft.op.NAME(fields..., options...).
#include <tvm/ffi/function.h>

#include "binding/arguments.h"
#include "binding/contexts.h"
#include "weft/op.h"

namespace weft::binding {
namespace {

TVM_FFI_STATIC_INIT_BLOCK() {
    for (const OpEntry* entry : all_ops()) {
        tvm::ffi::Function::SetGlobal(
            "weft.op." + entry->contract().name(),
            tvm::ffi::Function::FromPacked([entry](tvm::ffi::PackedArgs args, tvm::ffi::Any*) {
                Call call(entry->contract());
                call.read(args);
                run(*entry, call);
            }));
    }
}

}  // namespace
}  // namespace weft::binding
