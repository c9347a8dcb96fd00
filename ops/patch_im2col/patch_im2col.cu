// patch_im2col on the GPU and in the emulator: policy and launches.
#include "ops/patch_im2col/patch_im2col.h"

#include "ops/patch_im2col/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr unsigned kRunThreads = 128;

PatchOut patch_out(const PatchIm2col& op, int width) {
    return {kit::vector_rows(op.out, width), op.scale, op.shift};
}

// The vectors that runs are moved by: 8 pixels' channels, else 2, where the runs and their places allow it.
int run_width(const PatchIm2col& op) {
    const Tensor& image = op.image;
    for (const int width : {8, 2}) {
        const std::int64_t bytes = weft::bytes(image.dtype, width);
        if (op.patch * image.shape[3] % width == 0 && image.stride[1] % width == 0 &&
            reinterpret_cast<std::uintptr_t>(image.data) % static_cast<std::uintptr_t>(bytes) == 0 &&
            kit::rows_aligned(op.out, width))
            return width;
    }
    return 0;
}

bool known_types(DType in, DType out) {
    return in == DType::uint8 ? out == DType::bf16 || out == DType::fp16
                              : in == out && (in == DType::bf16 || in == DType::fp16);
}

const char* decline_runs(const PatchIm2col& op, const DeviceInfo&) {
    const Tensor& image = op.image;
    if (!known_types(image.dtype, op.out.dtype)) return "the dtypes are not those that images come in";
    if (image.stride[3] != 1 || image.stride[2] != image.shape[3])
        return "the pixels of a row are not neighbours";
    if (image.shape[0] > 1 && image.stride[0] != image.shape[1] * image.stride[1])
        return "the views are not evenly spaced";
    if (image.stride[1] < 0 || image.numel() >> 30 != 0 || fold_rows(op.out)->stride >> 29 != 0)
        return "an image of 2^30 elements or more";
    return run_width(op) != 0 ? nullptr : "a patch's rows are not whole, aligned vectors";
}

unsigned run_blocks(const PatchIm2col& op) {
    const int width = run_width(op);
    return static_cast<unsigned>(std::max<std::int64_t>(
        1, kit::divide_up(op.image.numel() / width, kRunThreads * run_vectors(width))));
}

template <int kRun>
void launch_runs_of(const PatchIm2col& op, Context& context) {
    using kit::bf16, kit::half, kit::Types;
    const Tensor& image = op.image;
    const std::int64_t row = image.shape[2] * image.shape[3], run = op.patch * image.shape[3];
    const Runs runs{.image = image.data,
                    .pitch = weft::bytes(image.dtype, image.stride[1]),
                    .vectors = static_cast<unsigned>(image.numel() / kRun),
                    .row = kit::Divisor::of(row / kRun),
                    .run = kit::Divisor::of(run / kRun),
                    .patch = kit::Divisor::of(op.patch),
                    .patches = static_cast<unsigned>(image.shape[2] / op.patch)};
    kit::with_types<Types<std::uint8_t, bf16>, Types<std::uint8_t, half>, Types<bf16>, Types<half>>(
        image.dtype, op.out.dtype, [&](auto types) {
            using Pair = decltype(types);
            const kit::LaunchShape shape{
                .grid = dim3(run_blocks(op)), .block = dim3(kRunThreads), .dependent = true};
            kit::launch("patch_im2col_runs", patch_im2col_runs<typename Pair::In, typename Pair::Out, kRun>,
                        shape, context.stream(), runs, patch_out(op, kRun));
        });
}

void launch_runs(const PatchIm2col& op, Context& context) {
    run_width(op) == 8 ? launch_runs_of<8>(op, context) : launch_runs_of<2>(op, context);
}

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
    kit::launch("patch_im2col", patch_im2col<T>, t.shape(), context.stream(), image, patch_out(op, kWidth),
                t);
}

void launch(const PatchIm2col& op, Context& context) {
    kit::with_one_of<kit::bf16, kit::half, float, std::uint8_t>(
        op.image.dtype, [&](auto* type) { launch_as<std::remove_pointer_t<decltype(type)>>(op, context); });
}

const RegisterImplementations<PatchIm2col> kKernels{
    kit::kTarget,
    {{"runs", decline_runs,
      +[](const PatchIm2col& op, const DeviceInfo&) {
          return "width=" + std::to_string(run_width(op)) + " threads=" + std::to_string(kRunThreads) +
                 " blocks=" + std::to_string(run_blocks(op));
      },
      launch_runs},
     {"vectors",
      +[](const PatchIm2col& op, const DeviceInfo&) -> const char* {
          return op.out.dim(1) >> 31 == 0 ? nullptr : "a patch has 2^31 elements or more";
      },
      +[](const PatchIm2col& op, const DeviceInfo& device) { return tiles(op, device).describe(); },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
