// top_k on the GPU and in the emulator: policy and launch.
#include "ops/top_k/top_k.h"

#include <algorithm>
#include <bit>

#include "kit/launch.h"
#include "ops/top_k/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr std::int64_t kRoom = 4096;  // 32 KiB of ranks

unsigned room(const TopK& op) {
    return std::bit_ceil(static_cast<unsigned>(std::clamp<std::int64_t>(op.scores.dim(-1), 2, kRoom)));
}
unsigned threads(const TopK& op) { return std::clamp(room(op) / 2, 32u, 256u); }

void launch(const TopK& op, Context& context) {
    const TopKParams p{.scores = op.scores.data,
                       .bias = op.bias ? op.bias.data : nullptr,
                       .values = op.values.data,
                       .indices = op.indices.data,
                       .stride = fold_rows(op.scores)->stride,
                       .values_stride = fold_rows(op.values)->stride,
                       .indices_stride = fold_rows(op.indices)->stride,
                       .dtype = op.scores.dtype,
                       .bias_dtype = op.bias ? op.bias.dtype : DType::fp32,
                       .values_dtype = op.values.dtype,
                       .indices_dtype = op.indices.dtype,
                       .n = static_cast<unsigned>(op.scores.dim(-1)),
                       .k = static_cast<unsigned>(op.k),
                       .groups = static_cast<unsigned>(op.groups),
                       .top_groups = static_cast<unsigned>(op.top_groups),
                       .group_top = static_cast<unsigned>(op.group_top),
                       .room = room(op)};
    const kit::LaunchShape shape{.grid = dim3(static_cast<unsigned>(fold_rows(op.scores)->rows)),
                                 .block = dim3(threads(op)),
                                 .dynamic_shared = p.room * sizeof(std::uint64_t),
                                 .dependent = true};
    kit::launch("top_k", top_k, shape, context.stream(), p);
}

const char* decline(const TopK& op, const DeviceInfo&) {
    const std::int64_t n = op.scores.dim(-1);
    if (n >> 31 != 0 || fold_rows(op.scores)->rows >> 31 != 0)
        return "2^31 rows, or elements of one, or more";
    if (n <= kRoom) return nullptr;
    if (op.groups > 1) return "groups of a row of more than 4096 elements";
    return op.k <= kRoom / 2 ? nullptr : "more than 2048 of a row of more than 4096 elements";
}

const RegisterImplementations<TopK> kKernels{kit::kTarget,
                                             {{"sort", decline,
                                               +[](const TopK& op, const DeviceInfo&) {
                                                   return "threads=" + std::to_string(threads(op)) +
                                                          " a row, room=" + std::to_string(room(op));
                                               },
                                               launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
