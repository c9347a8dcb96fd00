// Attention over codes made into 16 bits: which calls.
#include <limits>

#include "ops/attention/wgmma.h"
#include "ops/attention/wide.h"
#include "ops/attention/widen.h"

namespace weft::attention {
namespace {

constexpr std::size_t kAlignment = 128;

bool whole_eights(const Tensor& t) {
    if (reinterpret_cast<std::uintptr_t>(t.data) % 8 != 0 || t.dim(3) % 8 != 0) return false;
    for (int axis = 0; axis < 3; ++axis) {
        if (t.dim(axis) > 1 && t.stride[axis] % 8 != 0) return false;
    }
    return true;
}

}  // namespace

Widened::Widened(const Attention& of, void* at) : op(of) {
    const auto take = [&](std::size_t size) {
        void* taken = static_cast<char*>(at) + bytes;
        bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
        return taken;
    };
    for (Tensor* t : {&op.q, &op.k, &op.v}) {
        if (!is_fp8(t->dtype)) continue;
        t->dtype = of.out.dtype;
        t->data = take(2 * static_cast<std::size_t>(t->numel()));
        std::int64_t stride = 1;
        for (int axis = 3; axis >= 0; --axis) t->stride[axis] = stride, stride *= t->shape[axis];
    }
    factors = static_cast<float*>(take(2 * sizeof(float) * static_cast<std::size_t>(op.k.dim(2))));
    op.q_scale = op.k_scale = op.v_scale = {};
}

const char* decline_widened(const Attention& op, const DeviceInfo& device) {
    if (const char* why = decline_wide(op, device))
        return why;  // so that flash_wide takes whatever this one takes
    if (!is_fp8(op.k.dtype)) return "keys and values have 16 bits as they are";
    if (op.k.dtype == DType::fp8_e5m2 && op.out.dtype == DType::fp16)
        return "scores of e5m2 may be larger than flash_wgmma's weights in fp16 bear";
    if (op.block_table) return "of a cache in pages more might be made than is read";
    for (const Tensor* t : {&op.q, &op.k, &op.v}) {
        if (!is_fp8(t->dtype)) continue;
        if (!whole_eights(*t)) return "codes must be whole eights, aligned so";
        if (t->numel() / 8 > std::numeric_limits<std::int32_t>::max())
            return "more than 2^31 eights of codes";
    }
    const Widened widened(op, nullptr);
    if (widened.op.cu_seqlens_q || widened.op.v.dim(3) != widened.op.q.dim(3))
        return "packed sequences, and values of another width than keys, have no factors in flash_wgmma";
    return decline_wgmma(widened.op, device);
}

}  // namespace weft::attention
