// Attention on tensor cores, queries and keys by slices of the head.
//
// Idea        Tiles of whole rows grow with the head, until none fits. The first product is a sum over the head: queries
//             and keys come by slices of 16 columns, through a ring, and are forgotten. Values are whole rows still.
// Change      Slices of two operands; the queries come again for each tile of keys.
// Prediction  Below 08 at heads of 64 and 128, where rows fit; takes heads of 256, where 08 has no room.
#include "ladder/flash_attention/slices.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) { return decline_attention(op, 256); },
    +[](const Attention& op, Context& context) {
        launch_by_slices<false, Banks::swizzled>(kRung.name(), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
