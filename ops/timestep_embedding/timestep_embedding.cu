// timestep_embedding on the GPU and in the emulator: policy and launch.
#include "ops/timestep_embedding/timestep_embedding.h"

#include <algorithm>
#include <cmath>

#include "kit/launch.h"
#include "ops/timestep_embedding/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

kit::LaunchShape shape(const TimestepEmbedding& op) {
    const std::int64_t columns = op.dim / 2 + op.dim % 2;
    return {.grid = dim3(static_cast<unsigned>((columns + kThreads - 1) / kThreads),
                         static_cast<unsigned>((op.t.dim(0) + kRows - 1) / kRows)),
            .block = dim3(kThreads),
            .dependent = true};
}

void launch(const TimestepEmbedding& op, Context& context) {
    const std::int64_t half = op.dim / 2;
    const double wavelengths = static_cast<double>(half) - static_cast<double>(op.downscale);
    const EmbeddingParams p{.t = op.t.data,
                            .out = op.out.data,
                            .t_stride = op.t.stride[0],
                            .out_stride = fold_rows(op.out)->stride,
                            .batch = op.t.dim(0),
                            .half = half,
                            .t_dtype = op.t.dtype,
                            .out_dtype = op.out.dtype,
                            .scale = op.scale,
                            .negative_log = static_cast<float>(-std::log(static_cast<double>(op.max_period))),
                            .reciprocal = 1.0f / static_cast<float>(wavelengths),
                            .cos_first = op.cos_first,
                            .odd = op.dim % 2 != 0};
    kit::launch("timestep_embedding", timestep_embedding, shape(op), context.stream(), p);
}

const RegisterImplementations<TimestepEmbedding> kKernels{
    kit::kTarget,
    {{"wavelengths",
      +[](const TimestepEmbedding& op, const DeviceInfo&) -> const char* {
          return shape(op).grid.y > 65535 ? "more than 262140 rows" : nullptr;
      },
      +[](const TimestepEmbedding& op, const DeviceInfo&) {
          return "threads=" + std::to_string(kThreads) + " grid=" + std::to_string(shape(op).grid.x) + "x" +
                 std::to_string(shape(op).grid.y);
      },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
