// weft's tensors for Python.
#pragma once

#include <tvm/ffi/container/tensor.h>

#include "weft/tensor.h"

namespace weft::binding {

// A view of the same memory, which somebody else keeps alive.
tvm::ffi::Tensor view_of(const Tensor& tensor);

}  // namespace weft::binding
