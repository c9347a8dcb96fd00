// gemm's sums that lie in memory: launch.
#include "ops/gemm/apart.cuh"

#include "kit/launch.h"
#include "ops/gemm/apart_launch.h"
#include "ops/gemm/arguments.cuh"

namespace weft::inline WEFT_TARGET {

void launch_gemm_finish(const Gemm& op, const gemm::Apart& parts, Context& context) {
    const gemm::Problem p = gemm::problem(op);
    const std::int64_t fours = gemm::ceil_div(p.n, 4), count = p.m * fours;
    const FinishArguments args{.sums = data_of<float>(parts.product.out),
                               .up = data_of<float>(parts.up.out),
                               .stride = parts.stride,
                               .n = p.n,
                               .fours = kit::Divisor::of(fours),
                               .count = static_cast<unsigned>(count),
                               .epilogue = epilogue_of(op, p)};
    kit::launch("gemm_finish", finish_sums,
                {.grid = static_cast<unsigned>(gemm::ceil_div(count, kFinishThreads)),
                 .block = kFinishThreads,
                 .dependent = true},
                context.stream(), args);
}

}  // namespace weft::inline WEFT_TARGET
