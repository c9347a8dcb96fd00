// A product of matrices on tensor cores, of A with rows of B ("TN").
//
// Idea        Weights mostly lie as [n, k], a row an output. Then both operands run along k, as mma wants them: B's
//             fragments come as A's, and ldmatrix transposes nothing.
// Change      The layout of B, and its calls: another view of the same product.
// Prediction  Level with 16: transposing in ldmatrix costs nothing either.
#include "ladder/hgemm/staged.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product<true>(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_staged<4, Banks::swizzled, true, by_groups>(kRung.name(), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
