// A product of matrices on tensor cores, blocks in an order for L2.
//
// Idea        Some hundred blocks run at once. In rows of tiles they read all of B for few rows of A; in groups of eight
//             rows, column by column, they read a square's two sides.
// Change      The place that the number of a block stands for.
// Prediction  Nothing where both operands fit L2; beyond, L2 hits rise (ncu: lts__t_sector_hit_rate) and the largest
//             products get closer to the speed of the small ones.
#include "ladder/hgemm/staged.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_staged<4, Banks::swizzled, false, by_groups>(kRung.name(), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
