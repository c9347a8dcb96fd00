// A ring of stages in shared memory that cp.async fills ahead of the computation.
#pragma once

#include "kit/ptx/cp_async.cuh"
#include "ladder/rung.h"

namespace weft::inline WEFT_TARGET {

// `bring(stage, step)` begins the copies of a step. kStages - 1 steps are under way at a time; one barrier a step, behind
// which everybody's copies are there and nobody reads what is filled next.
template <int kStages, class Stage, class Bring>
class Ring {
   public:
    __device__ __forceinline__ Ring(Stage* stages, std::int64_t steps, Bring bring)
        : stages_(stages), steps_(steps), bring_(bring) {
        for (int i = 0; i < kStages - 1; ++i) begin(i);
    }
    // The next step's stage, once it is there; that of the one before is filled anew.
    __device__ __forceinline__ Stage& take() {
        kit::cp_async_wait<kStages - 2>();
        __syncthreads();
        begin(step_ + kStages - 1);
        return stages_[step_++ % kStages];
    }

   private:
    __device__ __forceinline__ void begin(std::int64_t step) {
        if (step < steps_) bring_(stages_[step % kStages], step);
        kit::cp_async_commit();  // of nothing, in the end: groups are counted
    }
    Stage* stages_;
    std::int64_t steps_, step_ = 0;
    Bring bring_;
};

// `use(stage)` computes on each step's.
template <int kStages, class Stage, class Bring, class Use>
__device__ __forceinline__ void for_stages(Stage* stages, std::int64_t steps, Bring bring, Use use) {
    Ring<kStages, Stage, Bring> ring(stages, steps, bring);
    for (std::int64_t step = 0; step < steps; ++step) use(ring.take());
}

}  // namespace weft::inline WEFT_TARGET
