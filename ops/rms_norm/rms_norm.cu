// rms_norm on the GPU and in the emulator: the policy and the launch.
#include "ops/rms_norm/rms_norm.h"

#include <algorithm>
#include <bit>

#include "kit/row_norm_launch.h"
#include "ops/rms_norm/eager.cuh"
#include "ops/rms_norm/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// A bias is a shift: that of a modulation, or in fp32 a mixed kernel's.
constexpr RowKernels kForms{
    .biased_fp8 = false, .beside = true, .wide = true, .modulated = true, .any = true};

void launch(const RmsNorm& op, Context& context) {
    kit::launch_norm<kForms>("rms_norm", op, context, [](auto* type, auto width, auto vectors, auto form) {
        return rms_norm_kernel<std::remove_pointer_t<decltype(type)>, width(), vectors(), decltype(form)>;
    });
}

// The threads that share a row in PyTorch's reduction of a contiguous fp32 [rows, dim], as rows of `width` (they
// decide the sum's order): as many rows of the tensor side by side in a block as 512 threads allow; where a row is
// long, all of the block's threads.
struct EagerThreads {
    int width, all;
};
EagerThreads eager_threads(const RowProblem& rows) {
    const auto floor_pow2 = [](std::int64_t n) {
        return static_cast<int>(
            std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(n, 1, 512))));
    };
    const int across = floor_pow2(rows.dim / 4), down = floor_pow2(rows.rows);
    const int height = std::min(down, 512 / std::min(across, 32));
    const int width = std::min(across, 512 / height);
    const std::int64_t each = (rows.dim + width - 1) / width;
    return {width, each >= std::min(16 * height, 256) ? width * height : width};
}

const char* decline_eager(const RmsNorm& op, const DeviceInfo&) {
    if (op.rounding == Rounding::fused) return "only for rounding=eager and eager_cast";
    const RowProblem rows = kit::norm_problem(op, {}, kit::RowsBy::strides);
    if (rows.dim % 4 != 0 || rows.dim < 128 || rows.dim > 130560) {
        return "PyTorch's order of summation is reproduced for dim a multiple of 4 from 128 to 130560";
    }
    if (rows.rows * rows.dim > std::int64_t{1} << 29)
        return "PyTorch cuts a sum of more than 2^29 elements in pieces";
    return kit::decline_eager_rows(op);
}

void launch_eager(const RmsNorm& op, Context& context) {
    const RowProblem rows = kit::norm_problem(op, {}, kit::RowsBy::strides);
    const EagerThreads threads = eager_threads(rows);
    const RowPlan plan{.width = 4, .lanes = threads.all, .rows = 1, .cluster = 1};
    const kit::MixedNorm p = kit::norm_params(kit::bind_norm(op), op, rows, plan);
    // 1/dim as PyTorch computes it: outputs over inputs, both rounded.
    const float factor = static_cast<float>(rows.rows) / static_cast<float>(rows.rows * rows.dim);
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        kit::launch("rms_norm_eager", rms_norm_eager_kernel<std::remove_pointer_t<decltype(type)>>,
                    kit::row_launch(plan, rows), context.stream(), p, static_cast<unsigned>(threads.width),
                    factor, op.rounding == Rounding::eager_cast && op.weight);
    });
}

const RegisterImplementations<RmsNorm> kKernels{
    kit::kTarget,
    {{"rows",
      [](const RmsNorm& op, const DeviceInfo&) -> const char* {
          return op.rounding == Rounding::fused ? kit::decline_norm(op) : "only for rounding=fused";
      },
      kit::norm_config<kForms, RmsNorm>, launch},
     {"eager", decline_eager,
      [](const RmsNorm& op, const DeviceInfo&) {
          return "lanes=" +
                 std::to_string(eager_threads(kit::norm_problem(op, {}, kit::RowsBy::strides)).all);
      },
      launch_eager}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
