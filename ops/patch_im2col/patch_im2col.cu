// patch_im2col on the GPU and in the emulator: policy and launch.
#include "ops/patch_im2col/patch_im2col.h"

#include "ops/patch_im2col/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

kit::RowTiles tiles(const PatchIm2col& op, const DeviceInfo& device) {
    return kit::tile_rows(op.out.dim(0), op.out.dim(1), kWidth, 1, device);
}

template <class T>
void launch_as(const PatchIm2col& op, Context& context) {
    const kit::RowTiles t = tiles(op, context.info());
    const Tensor& from = op.image;
    const Image<T> image{.data = from.as<const T>(),
                         .view_stride = from.stride[0],
                         .y_stride = from.stride[1],
                         .x_stride = from.stride[2],
                         .channel_stride = from.stride[3],
                         .rows = from.shape[1] / op.patch,
                         .cols = from.shape[2] / op.patch,
                         .patch = static_cast<unsigned>(op.patch),
                         .channels = static_cast<unsigned>(from.shape[3])};
    const PatchOut out{op.out.data,  fold_rows(op.out)->stride,
                       op.out.dtype, kit::rows_aligned(op.out, kWidth),
                       op.scale,     op.shift};
    kit::launch("patch_im2col", patch_im2col<T>, t.shape(), context.stream(), image, out, t);
}

void launch(const PatchIm2col& op, Context& context) {
    switch (op.image.dtype) {
        case DType::bf16: return launch_as<kit::bf16>(op, context);
        case DType::fp16: return launch_as<kit::half>(op, context);
        case DType::fp32: return launch_as<float>(op, context);
        default: return launch_as<std::uint8_t>(op, context);
    }
}

const RegisterImplementations<PatchIm2col> kKernels{
    kit::kTarget,
    {{"vectors",
      +[](const PatchIm2col& op, const DeviceInfo&) -> const char* {
          return op.out.dim(1) >> 31 == 0 ? nullptr : "a patch has 2^31 elements or more";
      },
      +[](const PatchIm2col& op, const DeviceInfo& device) { return tiles(op, device).describe(); },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
