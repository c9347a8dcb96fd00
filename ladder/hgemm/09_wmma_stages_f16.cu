// A product of matrices on tensor cores by WMMA, four stages, blocks in an order for L2.
//
// Idea        Three slices under way in place of one: copies have the time of three multiplications. And blocks that
//             run at one time form squares of the output, not rows, so that they find each other's operands in L2.
// Change      Four stages; the number of a block is turned into another place.
// Prediction  Where a row of tiles is wide, much less is read from memory. WMMA's own loads from shared memory are what
//             is left: it knows no swizzle.
#include "ladder/hgemm/wmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) { launch_wmma<16, 16, 4, by_groups>(kRung.name(), op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
