// A product of matrices, without bank conflicts.
//
// Idea        A thread's columns are every eighth ones: at each step neighbouring threads read neighbouring elements.
//             What the transposed store of A does to the banks, a skew of 4 elements a row takes away.
// Change      The same 64 outputs a thread, dealt out differently; and padded rows.
// Prediction  Loads of B in one turn in place of four (ncu: l1tex__data_bank_conflicts_pipe_lsu_mem_shared goes to
//             about 0).
#include "ladder/sgemm/thread_tile.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gemm(const float* a, const float* b, float* c, Sizes s) {
    Slices<4>& slices = kit::block_shared<Slices<4>>();
    const Origin origin = origin_of(s);
    const Share rows{static_cast<int>(threadIdx.x) / 8, 8}, columns{static_cast<int>(threadIdx.x) % 8, 8};
    float sums[kEach][kEach] = {};
    for (std::int64_t k = 0; k < s.k; k += kSlice) {
        Fetched fetched;
        fetch(fetched, a, b, s, origin, k);
        keep(slices, fetched);
        __syncthreads();
        multiply(sums, slices, rows, columns);
        __syncthreads();
    }
    store(sums, c, s, origin, rows, columns);
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp32, DType::fp32); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, kTile, kTile, dim3(kThreads), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
