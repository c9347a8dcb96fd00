// Attention on tensor cores, keys and values through the same memory, swizzled.
//
// Idea        Chunks of queries, keys and values are exchanged by exclusive or with their row's number, as in
//             hgemm/15_mma_swizzled_f16: no bank conflicts, and no padding.
// Change      06 with Banks::swizzled, and another tile in what that frees and more: two are under way.
// Prediction  As 06 where its copies were hidden, above it where they were not.
#include "ladder/flash_attention/split_q.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) { return decline_attention(op, 128); },
    +[](const Attention& op, Context& context) {
        launch_by_ring<3, false, Banks::swizzled>(kRung.name(), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
