// A product of matrices on tensor cores, in stages that cp.async fills.
//
// Idea        A ring of four stages: three slices are under way while one is multiplied, copied in vectors of 16 bytes
//             past the registers. One barrier a slice serves both directions (ladder/stages.cuh).
// Change      cp.async, four stages; tiles of 128 by 128 with 64 by 32 outputs a warp, slices of 32 along k.
// Prediction  Several times 13: fewer instructions to bring a slice, more arithmetic for it, and nothing waits for
//             memory. Padding costs a quarter of the room of A's slices.
#include "ladder/hgemm/staged.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_staged<4, Banks::padded, false, by_rows>(kRung.name(), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
