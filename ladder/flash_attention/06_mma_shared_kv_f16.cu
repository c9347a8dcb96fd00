// Attention on tensor cores, keys and values through the same memory, queries in registers.
//
// Idea        Keys and values are tiles of one ring: each product frees a tile that the next but one fills. One barrier a
//             product serves both directions. The queries are read from shared memory once, and stay in registers.
// Change      A ring of two tiles in place of a place for each; half the barriers; fragments of queries that stay.
// Prediction  Above 05: ldmatrix runs for keys and values alone.
#include "ladder/flash_attention/split_q.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) { return decline_attention(op, 128); },
    +[](const Attention& op, Context& context) {
        launch_by_ring<2, false, Banks::padded>(kRung.name(), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
