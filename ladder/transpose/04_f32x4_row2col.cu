// A transposed matrix, four reads for one write of 16 bytes.
//
// Idea        A thread gathers four elements that are neighbours in the output and writes them as one vector.
// Change      02 with vectors on the side where they fit. An output row that is not whole vectors starts anywhere, so
//             such a matrix is written element by element.
// Prediction  A quarter of the write instructions; the scattered reads remain the bound.
#include "ladder/transpose/turn.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void transpose(const float* x, float* out, std::int64_t rows, std::int64_t columns) {
    const std::int64_t first = 4 * thread_in_grid(), all = rows * columns;
    if (first >= all) return;
    float v[4];
    for (int k = 0; k < 4; ++k) {
        const std::int64_t i = first + k;
        v[k] = i < all ? x[i % rows * columns + i / rows] : 0.0f;
    }
    if (first + 4 <= all) {
        *reinterpret_cast<float4*>(out + first) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
        for (int k = 0; first + k < all; ++k) out[first + k] = v[k];
    }
}

const RegisterRung<Copy> kRung{
    +[](const Copy& op, const DeviceInfo&) {
        return starts_aligned(op.out, 16) ? decline_transpose(op)
                                          : "takes an out that starts at a multiple of 16 bytes";
    },
    +[](const Copy& op, Context& context) { launch_line(kRung.name(), transpose, op, context, 4); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
