// A product of matrices on tensor cores by WMMA, with two buffers, and fragments of 8 by 32.
//
// Idea        WMMA multiplies in three shapes. By 8 by 32 a warp's tile is eight fragments of A and one of B. (By
//             32 by 8, fragments of B would begin at multiples of 16 bytes, and WMMA takes those of 32.) While a
//             stage is multiplied cp.async fills the other (ladder/stages.cuh).
// Change      Two stages, one barrier a slice; another shape of fragments.
// Prediction  The latency of global memory is hidden for the most part. The shape changes little: the instructions
//             below are the same.
#include "ladder/hgemm/wmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) { launch_wmma<8, 32, 2, by_rows>(kRung.name(), op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
