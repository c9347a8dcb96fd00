// Attention on tensor cores, all three operands by slices of the head.
//
// Idea        The second product gives eight columns of the output for each eight of the values: values come by slices as
//             well. Shared memory no longer knows how long a head is; the output's registers do.
// Change      Slices of the values through the same ring.
// Prediction  12 KiB a block for any head, and more barriers: as many a tile as the head has slices, twice.
#include "ladder/flash_attention/slices.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) { return decline_attention(op, 256); },
    +[](const Attention& op, Context& context) {
        launch_by_slices<true, Banks::padded>(kRung.name(), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
