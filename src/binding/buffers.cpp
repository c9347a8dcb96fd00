// weft.buffers.NAME(present, options..., tensors...): a call by numbers and buffers alone, as XLA makes one.
#include <tvm/ffi/function.h>

#include <cfenv>
#include <cstdint>
#include <vector>

#include "binding/arguments.h"
#include "binding/contexts.h"
#include "weft/op.h"

namespace weft::binding {
namespace {

// XLA's threads flush subnormal numbers to zero; a call on the CPU must not, or its results depend on the
// caller.
class DefaultArithmetic {
   public:
    DefaultArithmetic() {
        std::fegetenv(&callers_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~DefaultArithmetic() { std::fesetenv(&callers_); }
    DefaultArithmetic(const DefaultArithmetic&) = delete;
    DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

   private:
    std::fenv_t callers_{};
};

// Bit i of `present` says that field i is there. The tensors are those that the call reads, then those that
// it writes, each in the contract's order: an in-out field comes twice, and the second is the one that is
// written.
void call(const OpEntry& entry, tvm::ffi::PackedArgs args) {
    const Contract& contract = entry.contract();
    const auto present = args[0].cast<std::int64_t>();
    std::vector<const Field*> fields;
    for (const bool writes : {false, true}) {
        for (std::size_t i = 0; i < contract.fields().size(); ++i) {
            const Field& field = contract.fields()[i];
            if ((present >> i & 1) != 0 && (writes ? field.writes() : field.reads()))
                fields.push_back(&field);
        }
    }
    Call call(contract);
    const int options = static_cast<int>(contract.options().size());
    call.read(fields, args.Slice(1 + options), args.Slice(1, 1 + options));
    const DefaultArithmetic arithmetic;
    run(entry, call);
}

TVM_FFI_STATIC_INIT_BLOCK() {
    for (const OpEntry* entry : all_ops()) {
        tvm::ffi::Function::SetGlobal(
            "weft.buffers." + entry->contract().name(),
            tvm::ffi::Function::FromPacked(
                [entry](tvm::ffi::PackedArgs args, tvm::ffi::Any*) { call(*entry, args); }));
    }
}

}  // namespace
}  // namespace weft::binding
