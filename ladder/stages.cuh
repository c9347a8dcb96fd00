// A ring of stages in shared memory that cp.async fills ahead of the computation.
#pragma once

#include "kit/ptx/cp_async.cuh"
#include "ladder/rung.h"

namespace weft::inline WEFT_TARGET {

// `bring(stage, step)` begins the copies of a step, `use(stage)` computes on what has come. kStages - 1 steps are under
// way at a time; one barrier a step, behind which everybody's copies are there and nobody reads what is filled next.
template <int kStages, class Stage, class Bring, class Use>
__device__ __forceinline__ void for_stages(Stage* stages, std::int64_t steps, Bring bring, Use use) {
    for (int i = 0; i < kStages - 1; ++i) {
        if (i < steps) bring(stages[i], i);
        kit::cp_async_commit();
    }
    for (std::int64_t step = 0; step < steps; ++step) {
        kit::cp_async_wait<kStages - 2>();
        __syncthreads();
        const std::int64_t next = step + kStages - 1;
        if (next < steps) bring(stages[next % kStages], next);
        kit::cp_async_commit();  // of nothing, in the end: groups are counted
        use(stages[step % kStages]);
    }
}

}  // namespace weft::inline WEFT_TARGET
