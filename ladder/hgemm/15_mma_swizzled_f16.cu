// A product of matrices on tensor cores, swizzled in shared memory.
//
// Idea        In place of padding, a chunk of 16 bytes lies where its number, by exclusive or with that of its row,
//             says (ladder/half_tile.cuh): the eight chunks of an ldmatrix are in all 32 banks, and no byte is left
//             empty.
// Change      Banks::swizzled for Banks::padded.
// Prediction  As fast as 14 with 64 KiB of shared memory in place of 76: room for another stage, or more blocks.
#include "ladder/hgemm/staged.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_staged<4, Banks::swizzled, false, by_rows>(kRung.name(), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
