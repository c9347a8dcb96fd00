// rope's executable specification.
#include "kit/rotary.h"
#include "ops/rope/rope.h"
#include "weft/op.h"

namespace weft {
namespace {

// Where element `index` (row-major) of the first `axes` axes begins.
std::int64_t offset_of(const Tensor& t, int axes, std::int64_t index) {
    std::int64_t offset = 0;
    for (int axis = axes - 1; axis >= 0; --axis) {
        offset += index % t.shape[axis] * t.stride[axis];
        index /= t.shape[axis];
    }
    return offset;
}

void reference(const Rope& op, Oracle& oracle) {
    if (op.x.numel() == 0) return;
    const std::int64_t head_dim = op.x.dim(-1), heads = op.x.dim(-2), tokens = op.x.dim(-3);
    const int axes = op.x.rank - 2;
    for (std::int64_t token = 0; token < op.tokens(); ++token) {
        const std::int64_t position = op.positions ? load_integer(op.positions.dtype, op.positions.data,
                                                                  offset_of(op.positions, axes, token))
                                                   : op.start + token % tokens;
        for (std::int64_t head = 0; head < heads; ++head) {
            const std::int64_t from = offset_of(op.x, axes, token) + head * op.x.stride[axes];
            const std::int64_t to = offset_of(op.out, axes, token) + head * op.out.stride[axes];
            const auto load = [&](std::int64_t i) { return load_element(op.x.dtype, op.x.data, from + i); };
            const auto store = [&](std::int64_t i, double value, double error) {
                oracle.store(op.out, to + i, value, error);
            };
            if (op.rounding == Rounding::fused) {
                kit::rotate_head(op, head_dim, position, load, store);
            } else {
                const auto round = [&](double y) { return round_to(op.cos.dtype, round_to(DType::fp32, y)); };
                kit::rotate_head(op, head_dim, position, load, store, round);
            }
        }
    }
}

const RegisterReference<Rope> kReference{reference};

}  // namespace
}  // namespace weft
