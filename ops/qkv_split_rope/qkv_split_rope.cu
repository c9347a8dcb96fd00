// qkv_split_rope on the GPU and in the emulator: policy and launch.
#include "ops/qkv_split_rope/qkv_split_rope.h"

#include "ops/qkv_split_rope/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// A unit a thread, where a block takes several tokens.
constexpr kit::UnitLimits kLimits{.threads = 512, .units = 256};

struct SplitPlan {
    int block_tokens;
    unsigned threads, blocks;
    std::int64_t launches;
};

SplitPlan plan(const QkvSplitRope& op, const DeviceInfo& device) {
    const std::int64_t tokens = op.qkv.dim(0), head_dim = op.q.dim(-1), q_heads = op.q.dim(1),
                       kv_heads = op.k_cache.dim(1);
    const kit::Rotation r = kit::rotation_of(op, head_dim, 0, 0);
    const std::int64_t units =
        (q_heads + kv_heads) * kit::head_units(r) + kv_heads * kit::copy_units(r.head_dim);
    SplitPlan plan{};
    plan.block_tokens = kit::tokens_a_block(tokens, units, r.count, kLimits, device);
    plan.threads = kit::unit_threads(units * plan.block_tokens, r.count * plan.block_tokens, kLimits);
    plan.blocks = static_cast<unsigned>(kit::divide_up(tokens, plan.block_tokens));
    plan.launches = kit::turn_launches(op.rotated());
    return plan;
}

HeadsOut heads_out(const Tensor& tensor) { return {tensor.data, tensor.stride[0], tensor.stride[1]}; }

// Whether every head of the packed rows is one of whole vectors, like those of the outputs: whole heads are multiples of
// two vectors, as V is copied by.
bool all_whole(const QkvSplitRope& op) {
    return kit::heads_whole(op.q.dim(-1), op.rotated()) && kit::rows_aligned(op.qkv, kit::kTurnWidth) &&
           kit::rows_aligned(op.q, kit::kTurnWidth) && kit::rows_aligned(op.k_cache, kit::kTurnWidth) &&
           kit::rows_aligned(op.v_cache, kit::kTurnWidth);
}

// `r` is the launch's: V goes with the first.
SplitParams parameters(const QkvSplitRope& op, const kit::Rotation& r, int block_tokens) {
    const std::int64_t q_heads = op.q.dim(1), kv_heads = op.k_cache.dim(1);
    const std::int64_t head_units = kit::head_units(r),
                       value_units = r.is_first() ? kit::copy_units(r.head_dim) : 0;
    return {.qkv = op.qkv.data,
            .tokens = static_cast<unsigned>(op.qkv.dim(0)),
            .qkv_stride = op.qkv.stride[0],
            .q = heads_out(op.q),
            .k = heads_out(op.k_cache),
            .v = heads_out(op.v_cache),
            .cache_tokens = op.k_cache.dim(0),
            .cache_offset = op.cache_offset,
            .cache_offset_add = op.cache_offset_add ? op.cache_offset_add.data : nullptr,
            .wide_offset_add = op.cache_offset_add.dtype == DType::int64,
            .position_stride = op.positions ? op.positions.stride[0] : 0,
            .q_heads = static_cast<unsigned>(q_heads),
            .turned_heads = static_cast<unsigned>(q_heads + kv_heads),
            .head_units = kit::Divisor::of(head_units),
            .value_units = kit::Divisor::of(std::max<std::int64_t>(1, value_units)),
            .token_units = kit::Divisor::of((q_heads + kv_heads) * head_units + kv_heads * value_units),
            .block_tokens = static_cast<unsigned>(block_tokens)};
}

template <class T>
void launch_as(const QkvSplitRope& op, Context& context) {
    if (op.qkv.numel() == 0) return;  // the caches are outputs that stay as they are
    const SplitPlan planned = plan(op, context.info());
    const kit::LaunchShape shape{
        .grid = dim3(planned.blocks), .block = dim3(planned.threads), .dependent = true};
    const bool whole = all_whole(op);
    for (std::int64_t i = 0; i < planned.launches; ++i) {
        kit::Rotation r = kit::rotation_of(op, op.q.dim(-1), 0, i * kit::kTurnPairs);
        kit::set_frequencies(r, op.base, context);
        kit::launch("qkv_split_rope", whole ? qkv_split_rope<T, true> : qkv_split_rope<T, false>, shape,
                    context.stream(), r, parameters(op, r, planned.block_tokens));
    }
}

void launch(const QkvSplitRope& op, Context& context) {
    kit::with_wide_type(op.qkv.dtype,
                        [&](auto* type) { launch_as<std::remove_pointer_t<decltype(type)>>(op, context); });
}

const RegisterImplementations<QkvSplitRope> kKernels{
    kit::kTarget,
    {{"vectors",
      +[](const QkvSplitRope& op, const DeviceInfo&) -> const char* {
          if (op.qkv.dim(0) >> 30 != 0) return "2^30 tokens or more";
          return op.qkv.dim(1) < (1 << 26) ? nullptr : "a row has 2^26 elements or more";
      },
      +[](const QkvSplitRope& op, const DeviceInfo& device) {
          const SplitPlan p = plan(op, device);
          return "tokens=" + std::to_string(p.block_tokens) + " threads=" + std::to_string(p.threads) +
                 " blocks=" + std::to_string(p.blocks) + " launches=" + std::to_string(p.launches);
      },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
