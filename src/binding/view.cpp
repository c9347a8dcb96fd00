// A view carries its own shape and strides.
#include "binding/view.h"

#include "weft/dlpack.h"

namespace weft::binding {
namespace {

struct View {
    DLManagedTensor managed{};
    std::int64_t shape[kMaxRank], stride[kMaxRank];
};

}  // namespace

tvm::ffi::Tensor view_of(const Tensor& tensor) {
    auto* view = new View;
    to_dlpack(tensor, view->managed.dl_tensor, view->shape, view->stride);
    view->managed.manager_ctx = view;
    view->managed.deleter = [](DLManagedTensor* self) { delete static_cast<View*>(self->manager_ctx); };
    return tvm::ffi::Tensor::FromDLPack(&view->managed);
}

}  // namespace weft::binding
