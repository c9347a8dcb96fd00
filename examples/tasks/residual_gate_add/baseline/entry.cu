// The task's entry over SGLang's kernel: its launcher takes outputs first, and tensors that are flat.
#define SGL_CUDA_ARCH 900  // what its own builder passes for sm_90
#include <sgl_kernel/tensor.h>
#include <tvm/ffi/function.h>

#include "sglang/kernels/kda_kernels/csrc/diffusion/residual_gate_add.cuh"

namespace {

using tvm::ffi::TensorView;

// All elements of a dense tensor along one axis.
struct Flat {
    explicit Flat(const TensorView& tensor) : size(tensor.numel()) {
        flat.data = tensor.data_ptr();
        flat.device = tensor.device();
        flat.dtype = tensor.dtype();
        flat.ndim = 1;
        flat.shape = &size;
        flat.strides = &step;
        flat.byte_offset = 0;
    }
    TensorView view() const { return TensorView(&flat); }
    int64_t size, step = 1;
    DLTensor flat{};
};

void run(TensorView residual, TensorView update, TensorView gate, TensorView out) {
    const Flat r(residual), u(update), g(gate), o(out);
    constexpr int64_t kRowForAll = 1;
    sglang::residual_gate_add::ResidualGateAddKernel<__nv_bfloat16>::run(
        o.view(), r.view(), u.view(), g.view(), residual.size(-1), kRowForAll);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run)
