// rope on the GPU and in the emulator: policy and launch.
#include "ops/rope/rope.h"

#include "ops/rope/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Two units a thread: twice the bytes for one wait for angles, in blocks of which several fit on a multiprocessor.
constexpr kit::UnitLimits kLimits{.threads = 320, .units = 640};

struct RopePlan {
    int block_tokens;
    std::int64_t heads;  // of a block
    unsigned threads, blocks, head_blocks;
    std::int64_t launches;
};

// A block takes as many heads as have 512 units at most, fewer where the blocks would not occupy every
// multiprocessor, but enough that no thread works out two angles.
RopePlan plan(const Rope& op, const DeviceInfo& device) {
    const std::int64_t head_dim = op.x.dim(-1), heads = op.x.dim(-2), tokens = op.tokens();
    const kit::Rotation r = kit::rotation_of(op, head_dim, op.start, 0);
    const std::int64_t units = std::max(1, kit::head_units(r)), fewest = std::max(64, r.count);
    const std::int64_t most = std::max(std::max<std::int64_t>(1, 512 / units), kit::divide_up(heads, 65535));
    RopePlan plan{};
    plan.heads = std::max<std::int64_t>(
        1, kit::divide_up(heads, std::max<std::int64_t>(1, kit::divide_up(heads, most))));
    plan.block_tokens = kit::tokens_a_block(tokens, plan.heads * units, r.count, kLimits, device);
    const std::int64_t blocks = kit::divide_up(tokens, plan.block_tokens);
    while (blocks * kit::divide_up(heads, plan.heads) < device.sms && plan.heads / 2 * units >= fewest)
        plan.heads = kit::divide_up(plan.heads, 2);
    plan.threads =
        kit::unit_threads(plan.heads * units * plan.block_tokens, r.count * plan.block_tokens, kLimits);
    plan.blocks = static_cast<unsigned>(blocks);
    plan.head_blocks = static_cast<unsigned>(std::max<std::int64_t>(1, kit::divide_up(heads, plan.heads)));
    plan.launches = kit::turn_launches(op.rotated());
    return plan;
}

RopeParams parameters(const Rope& op, const RopePlan& plan, const DeviceInfo& device) {
    RopeParams p{};
    const int axes = op.x.rank - 2;
    p.one_axis = true;
    for (int i = 0; i < kLeading; ++i) {
        const int axis = axes - kLeading + i;  // the tokens are the last of the four
        const bool there = axis >= 0;
        p.size[i] = kit::Divisor::of(there ? op.x.shape[axis] : 1);
        p.x_strides.axis[i] = there ? op.x.stride[axis] : 0;
        p.out_strides.axis[i] = there ? op.out.stride[axis] : 0;
        p.position_stride[i] = there && op.positions ? op.positions.stride[axis] : 0;
        if (i + 1 < kLeading && p.size[i].divisor != 1) p.one_axis = false;
    }
    p.x_strides.head = op.x.stride[axes];
    p.out_strides.head = op.out.stride[axes];
    p.x = op.x.data;
    p.out = op.out.data;
    p.heads = static_cast<unsigned>(op.x.dim(-2));
    p.heads_a_block = static_cast<unsigned>(plan.heads);
    p.tokens = static_cast<unsigned>(op.tokens());
    p.block_tokens = static_cast<unsigned>(plan.block_tokens);
    p.keep = l2_keeps_input(bytes(op.x.dtype, op.x.numel()), device);
    p.wide_tables = op.cos && op.cos.dtype == DType::fp32;
    return p;
}

template <class T>
void launch_as(const Rope& op, Context& context) {
    const RopePlan planned = plan(op, context.info());
    RopeParams p = parameters(op, planned, context.info());
    const bool whole = kit::heads_whole(op.x.dim(-1), op.rotated()) &&
                       kit::rows_aligned(op.x, kit::kTurnWidth) && kit::rows_aligned(op.out, kit::kTurnWidth);
    const bool steps = op.rounding == Rounding::eager;
    const auto kernel = steps ? (whole ? rope<T, true, true> : rope<T, false, true>)
                              : (whole ? rope<T, true, false> : rope<T, false, false>);
    const kit::LaunchShape shape{
        .grid = dim3(planned.blocks, planned.head_blocks), .block = dim3(planned.threads), .dependent = true};
    for (std::int64_t i = 0; i < planned.launches; ++i) {
        kit::Rotation r = kit::rotation_of(op, op.x.dim(-1), op.start, i * kit::kTurnPairs);
        kit::set_frequencies(r, op.base, context);
        // In place, the elements that do not turn are where they belong.
        const int units = op.x.data == op.out.data ? kit::turn_units(r) : kit::head_units(r);
        p.head_units = kit::Divisor::of(units);
        p.token_units = kit::Divisor::of(units * planned.heads);
        kit::launch("rope", kernel, shape, context.stream(), r, p);
    }
}

void launch(const Rope& op, Context& context) {
    kit::with_wide_type(op.x.dtype,
                        [&](auto* type) { launch_as<std::remove_pointer_t<decltype(type)>>(op, context); });
}

const RegisterImplementations<Rope> kKernels{
    kit::kTarget,
    {{"vectors",
      +[](const Rope& op, const DeviceInfo&) -> const char* {
          if (op.tokens() >> 30 != 0 || op.x.dim(-2) >> 30 != 0) return "2^30 tokens or heads, or more";
          return op.x.dim(-1) <= 65536 ? nullptr : "head_dim is above 65536";
      },
      +[](const Rope& op, const DeviceInfo& device) {
          const RopePlan p = plan(op, device);
          return "tokens=" + std::to_string(p.block_tokens) + " threads=" + std::to_string(p.threads) +
                 " blocks=" + std::to_string(p.blocks) + "x" + std::to_string(p.head_blocks) +
                 " launches=" + std::to_string(p.launches);
      },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
