// qkv_split_rope's executable specification.
#include "kit/rotary.h"
#include "ops/qkv_split_rope/qkv_split_rope.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const QkvSplitRope& op, Oracle& oracle) {
    const std::int64_t tokens = op.qkv.shape[0], q_heads = op.q.shape[1], kv_heads = op.k_cache.shape[1];
    const std::int64_t head_dim = op.q.shape[2];
    std::int64_t first = op.cache_offset;
    if (op.cache_offset_add) first += load_integer(op.cache_offset_add.dtype, op.cache_offset_add.data, 0);
    for (std::int64_t token = 0; token < tokens; ++token) {
        const std::int64_t position =
            op.positions ? load_integer(op.positions.dtype, op.positions.data, token * op.positions.stride[0])
                         : first + token;
        const auto rotate = [&](std::int64_t packed_head, const Tensor& to, std::int64_t row,
                                std::int64_t head) {
            const std::int64_t source = token * op.qkv.stride[0] + packed_head * head_dim;
            const std::int64_t target = row * to.stride[0] + head * to.stride[1];
            kit::rotate_head(
                op, head_dim, position,
                [&](std::int64_t i) { return load_element(op.qkv.dtype, op.qkv.data, source + i); },
                [&](std::int64_t i, double value, double error) {
                    oracle.store(to, target + i, value, error);
                });
        };
        for (std::int64_t head = 0; head < q_heads; ++head) rotate(head, op.q, token, head);
        const std::int64_t row = first + token;
        if (row < 0 || row >= op.k_cache.shape[0]) continue;
        for (std::int64_t head = 0; head < kv_heads; ++head) {
            rotate(q_heads + head, op.k_cache, row, head);
            const std::int64_t source = token * op.qkv.stride[0] + (q_heads + kv_heads + head) * head_dim;
            const std::int64_t target = row * op.v_cache.stride[0] + head * op.v_cache.stride[1];
            for (std::int64_t i = 0; i < head_dim; ++i) {
                oracle.store(op.v_cache, target + i, load_element(op.qkv.dtype, op.qkv.data, source + i));
            }
        }
    }
}

const RegisterReference<QkvSplitRope> kReference{reference};

}  // namespace
}  // namespace weft
