// timestep_embedding on the GPU and in the emulator: policy and launch.
#include "ops/timestep_embedding/timestep_embedding.h"

#include <algorithm>
#include <cmath>

#include "kit/launch.h"
#include "ops/timestep_embedding/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Rows of a thread: several, which share its wavelength, where the card has no thread for each.
int rows_of(const TimestepEmbedding& op, const DeviceInfo& device) {
    constexpr int kRows = 4;
    const bool threads = op.t.dim(0) <= 65535 && op.t.dim(0) * op.dim / 2 <= std::int64_t{2048} * device.sms;
    return threads ? 1 : kRows;
}

kit::LaunchShape shape(const TimestepEmbedding& op, const DeviceInfo& device) {
    const std::int64_t columns = op.dim / 2 + op.dim % 2, rows = rows_of(op, device);
    return {.grid = dim3(static_cast<unsigned>((columns + kThreads - 1) / kThreads),
                         static_cast<unsigned>((op.t.dim(0) + rows - 1) / rows)),
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
                            .odd = op.dim % 2 != 0,
                            .rows = rows_of(op, context.info())};
    kit::launch("timestep_embedding", timestep_embedding, shape(op, context.info()), context.stream(), p);
}

const RegisterImplementations<TimestepEmbedding> kKernels{
    kit::kTarget,
    {{"wavelengths",
      +[](const TimestepEmbedding& op, const DeviceInfo& device) -> const char* {
          return shape(op, device).grid.y > 65535 ? "more than 262140 rows" : nullptr;
      },
      +[](const TimestepEmbedding& op, const DeviceInfo& device) {
          const dim3 grid = shape(op, device).grid;
          return "threads=" + std::to_string(kThreads) + " rows=" + std::to_string(rows_of(op, device)) +
                 " grid=" + std::to_string(grid.x) + "x" + std::to_string(grid.y);
      },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
