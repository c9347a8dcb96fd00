// Attention on tensor cores, all three operands through the same memory.
//
// Idea        Once the queries are in registers, the place that they came through is free: it is a tile of the ring.
// Change      The queries come through the ring's last tile, which is filled only after the first has been used.
// Prediction  Two tiles in place of three: at a head of 128, 34 KiB a block, so that registers, not memory, bound how
//             many blocks an SM holds.
#include "ladder/flash_attention/split_q.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) { return decline_attention(op, 128); },
    +[](const Attention& op, Context& context) {
        launch_by_ring<2, true, Banks::padded>(kRung.name(), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
