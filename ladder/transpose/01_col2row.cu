// A transposed matrix, reading along rows.
//
// Idea        Thread i takes element i of the input: reads are coalesced. It writes where the element belongs, and the
//             lanes of a warp write into 32 different rows of the output.
// Change      The first rung.
// Prediction  Each write of 4 bytes moves a line of 32 at least: an eighth of the bandwidth, less what L2 gathers.
#include "ladder/transpose/turn.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void transpose(const float* x, float* out, std::int64_t rows, std::int64_t columns) {
    const std::int64_t i = thread_in_grid();
    if (i >= rows * columns) return;
    const std::int64_t row = i / columns, column = i % columns;
    out[column * rows + row] = x[i];
}

const RegisterRung<Copy> kRung{
    +[](const Copy& op, const DeviceInfo&) { return decline_transpose(op); },
    +[](const Copy& op, Context& context) { launch_line(kRung.name(), transpose, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
