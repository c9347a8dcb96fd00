// scale_layout on the GPU and in the emulator: policy and launch.
#include "ops/scale_layout/scale_layout.h"

#include <algorithm>

#include "kit/launch.h"
#include "ops/scale_layout/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

const Tensor& tiles_of(const ScaleLayout& op) { return op.linear ? op.to_swizzled : op.swizzled; }

kit::LaunchShape shape(const ScaleLayout& op) {
    const Tensor& tiles = tiles_of(op);
    const std::int64_t words = tiles.dim(1) / 4;
    return {.grid = dim3(static_cast<unsigned>((words + kWordsAcross - 1) / kWordsAcross),
                         static_cast<unsigned>(std::min<std::int64_t>(tiles.dim(0) / 32, 65535))),
            .block = dim3(kThreads),
            .dependent = true};
}

void launch(const ScaleLayout& op, Context& context) {
    const Tensor &rows = op.linear ? op.linear : op.to_linear, &tiles = tiles_of(op);
    GroupScales linear{.data = rows.data,
                       .dtype = rows.dtype,
                       .groups = rows.dim(-1),
                       .row_stride = *leading_stride(rows, 1),
                       .group_stride = rows.stride[rows.rank - 1]};
    linear.rows = rows.numel() / std::max<std::int64_t>(1, linear.groups);
    const GroupScales swizzled{.data = tiles.data,
                               .dtype = tiles.dtype,
                               .swizzled = true,
                               .padded_rows = tiles.dim(0),
                               .padded_groups = tiles.dim(1)};
    kit::launch("scale_layout", op.linear ? scale_layout<true> : scale_layout<false>, shape(op),
                context.stream(), linear, swizzled, kit::rows_aligned(tiles, 4));
}

const RegisterImplementations<ScaleLayout> kKernels{
    kit::kTarget,
    {{"words", +[](const ScaleLayout&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const ScaleLayout& op, const DeviceInfo&) {
          const kit::LaunchShape s = shape(op);
          return "grid=" + std::to_string(s.grid.x) + "x" + std::to_string(s.grid.y);
      },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
