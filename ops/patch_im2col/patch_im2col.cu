// patch_im2col on the GPU and in the emulator: policy and launches.
#include "ops/patch_im2col/patch_im2col.h"

#include "ops/patch_im2col/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr unsigned kRunThreads = 128,
                   kManyThreads = 1024;  // of a block; of a multiprocessor, to keep its memory busy

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

const char* decline_runs(const PatchIm2col& op, const DeviceInfo&) {
    const Tensor& image = op.image;
    if (image.stride[3] != 1 || image.stride[2] != image.shape[3])
        return "the pixels of a row are not neighbours";
    if (image.shape[0] > 1 && image.stride[0] != image.shape[1] * image.stride[1])
        return "the views are not evenly spaced";
    if (image.stride[1] < 0 || image.numel() >> 30 != 0 || fold_rows(op.out)->stride >> 29 != 0)
        return "an image of 2^30 elements or more";
    return run_width(op) != 0 ? nullptr : "a patch's rows are not whole, aligned vectors";
}

// How an image is shared out: vectors of `width` elements, `each` of a thread. Many are on their way together where there
// are threads for all of the card without that; else two of short ones.
struct RunPlan {
    int width, each;
    unsigned blocks;
};

RunPlan run_plan(const PatchIm2col& op, const DeviceInfo& device) {
    RunPlan plan{.width = run_width(op), .each = 4, .blocks = 1};
    const std::int64_t vectors = op.image.numel() / plan.width;
    if (vectors < std::int64_t{kManyThreads} * 4 * device.sms) plan.each = plan.width == 8 ? 1 : 2;
    plan.blocks = static_cast<unsigned>(
        std::max<std::int64_t>(1, kit::divide_up(vectors, std::int64_t{kRunThreads} * plan.each)));
    return plan;
}

template <int kRun, int kEach>
void launch_runs_of(const PatchIm2col& op, const RunPlan& plan, Context& context) {
    const Tensor& image = op.image;
    const std::int64_t row = image.shape[2] * image.shape[3], run = op.patch * image.shape[3];
    const Runs runs{.image = image.data,
                    .pitch = weft::bytes(image.dtype, image.stride[1]),
                    .vectors = static_cast<unsigned>(image.numel() / kRun),
                    .row = kit::Divisor::of(row / kRun),
                    .run = kit::Divisor::of(run / kRun),
                    .patch = kit::Divisor::of(op.patch),
                    .patches = static_cast<unsigned>(image.shape[2] / op.patch)};
    kit::with_one_of<std::uint8_t, kit::bf16, kit::half, float>(image.dtype, [&](auto* type) {
        const kit::LaunchShape shape{
            .grid = dim3(plan.blocks), .block = dim3(kRunThreads), .dependent = true};
        kit::launch("patch_im2col_runs",
                    patch_im2col_runs<std::remove_pointer_t<decltype(type)>, kRun, kEach>, shape,
                    context.stream(), runs, patch_out(op, kRun));
    });
}

void launch_runs(const PatchIm2col& op, Context& context) {
    const RunPlan plan = run_plan(op, context.info());
    const bool many = plan.each == 4;
    if (plan.width == 8)
        return many ? launch_runs_of<8, 4>(op, plan, context) : launch_runs_of<8, 1>(op, plan, context);
    many ? launch_runs_of<2, 4>(op, plan, context) : launch_runs_of<2, 2>(op, plan, context);
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
      +[](const PatchIm2col& op, const DeviceInfo& device) {
          const RunPlan plan = run_plan(op, device);
          return "width=" + std::to_string(plan.width) + " each=" + std::to_string(plan.each) +
                 " threads=" + std::to_string(kRunThreads) + " blocks=" + std::to_string(plan.blocks);
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
