// Attention on tensor cores, all three operands through the same memory, swizzled.
//
// Idea        What 07 and 08 save together: two tiles of 64 rows, without padding, hold all of a block.
// Change      07 with Banks::swizzled.
// Prediction  32 KiB a block at a head of 128: level with 07 where registers are the bound.
#include "ladder/flash_attention/split_q.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) { return decline_attention(op, 128); },
    +[](const Attention& op, Context& context) {
        launch_by_ring<2, true, Banks::swizzled>(kRung.name(), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
