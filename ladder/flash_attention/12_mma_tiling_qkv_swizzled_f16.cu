// Attention on tensor cores, all three operands by slices of the head, swizzled.
//
// Idea        A row of a slice is two chunks, four rows fill the banks: every four rows the two change places, and the
//             eight chunks of an ldmatrix are in all banks.
// Change      11 with Banks::swizzled.
// Prediction  As fast as padded, in two thirds of its room.
#include "ladder/flash_attention/slices.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) { return decline_attention(op, 256); },
    +[](const Attention& op, Context& context) {
        launch_by_slices<true, Banks::swizzled>(kRung.name(), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
