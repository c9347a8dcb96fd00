// weft.array(address, dtype, shape, strides): a tensor over memory of the host, for arrays whose dtype their
// own DLPack export can't name (NumPy's bf16 and fp8). The caller keeps the memory alive.
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <string>

#include "binding/view.h"

namespace weft::binding {
namespace {

tvm::ffi::Tensor array(std::int64_t address, const std::string& dtype, const tvm::ffi::Shape& shape,
                       const tvm::ffi::Shape& stride) {
    const auto known = parse_dtype(dtype);
    if (!known) TVM_FFI_THROW(TypeError) << "weft has no dtype " << dtype;
    if (shape.size() != stride.size() || shape.size() > kMaxRank) {
        TVM_FFI_THROW(ValueError) << "expected one stride for each of at most " << kMaxRank << " axes";
    }
    const Tensor tensor(reinterpret_cast<void*>(address), *known, std::span(shape.data(), shape.size()),
                        std::span(stride.data(), stride.size()));
    return view_of(tensor);
}

TVM_FFI_STATIC_INIT_BLOCK() {
    tvm::ffi::Function::SetGlobal("weft.array", tvm::ffi::Function::FromTyped(array));
}

}  // namespace
}  // namespace weft::binding
