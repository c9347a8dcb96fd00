// A transposed matrix, writing along rows.
//
// Idea        Thread i writes element i of the output: writes are coalesced, and the reads are scattered.
// Change      The other side is scattered.
// Prediction  Faster than 01: scattered reads go through L1, which keeps a line for the neighbours that follow, and a
//             thread does not wait for what it writes.
#include "ladder/transpose/turn.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void transpose(const float* x, float* out, std::int64_t rows, std::int64_t columns) {
    const std::int64_t i = thread_in_grid();
    if (i >= rows * columns) return;
    const std::int64_t column = i / rows, row = i % rows;
    out[i] = x[row * columns + column];
}

const RegisterRung<Copy> kRung{
    +[](const Copy& op, const DeviceInfo&) { return decline_transpose(op); },
    +[](const Copy& op, Context& context) { launch_line(kRung.name(), transpose, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
