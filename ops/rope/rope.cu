// rope on the GPU and in the emulator: policy and launch.
#include "ops/rope/rope.h"

#include "kit/launch.h"
#include "ops/rope/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

struct RopePlan {
    int block_tokens;
    unsigned threads, blocks, head_blocks;
    std::int64_t launches;
};

RopePlan plan(const Rope& op, const DeviceInfo& device) {
    const std::int64_t head_dim = op.x.dim(-1), heads = op.x.dim(-2), tokens = op.tokens();
    const kit::Rotation r = kit::rotation_of(op, head_dim, op.start, 0);
    RopePlan plan{};
    plan.block_tokens = kit::tokens_a_block(tokens, device);
    const std::int64_t work = std::min<std::int64_t>(heads, 256) * kit::head_units(r) * plan.block_tokens;
    plan.threads = static_cast<unsigned>(std::clamp<std::int64_t>((work + 31) / 32 * 32, 64, 256));
    plan.blocks = static_cast<unsigned>((tokens + plan.block_tokens - 1) / plan.block_tokens);
    plan.head_blocks = static_cast<unsigned>(std::clamp<std::int64_t>((heads + 255) / 256, 1, 65535));
    plan.launches = kit::turn_launches(op.rotated());
    return plan;
}

RopeParams parameters(const Rope& op, const RopePlan& plan) {
    RopeParams p{};
    const int axes = op.x.rank - 2;
    for (int i = 0; i < kLeading; ++i) {
        const int axis = axes - kLeading + i;  // the tokens are the last of the four
        const bool there = axis >= 0;
        p.size[i] = there ? op.x.shape[axis] : 1;
        p.x_strides.axis[i] = there ? op.x.stride[axis] : 0;
        p.out_strides.axis[i] = there ? op.out.stride[axis] : 0;
        p.position_stride[i] = there && op.positions ? op.positions.stride[axis] : 0;
    }
    p.x_strides.head = op.x.stride[axes];
    p.out_strides.head = op.out.stride[axes];
    p.x = op.x.data;
    p.out = op.out.data;
    p.heads = op.x.dim(-2);
    p.tokens = op.tokens();
    p.block_tokens = plan.block_tokens;
    p.in_place = op.x.data == op.out.data;
    p.aligned = kit::heads_aligned(op.x, op.rotated()) && kit::heads_aligned(op.out, op.rotated());
    return p;
}

template <class T>
void launch_as(const Rope& op, Context& context) {
    const RopePlan planned = plan(op, context.info());
    const RopeParams p = parameters(op, planned);
    const kit::LaunchShape shape{
        .grid = dim3(planned.blocks, planned.head_blocks), .block = dim3(planned.threads), .dependent = true};
    for (std::int64_t i = 0; i < planned.launches; ++i) {
        kit::Rotation r = kit::rotation_of(op, op.x.dim(-1), op.start, i * kit::kTurnPairs);
        kit::set_frequencies(r, op.base, context);
        kit::launch("rope", rope<T>, shape, context.stream(), r, p);
    }
}

void launch(const Rope& op, Context& context) {
    switch (op.x.dtype) {
        case DType::bf16: return launch_as<kit::bf16>(op, context);
        case DType::fp16: return launch_as<kit::half>(op, context);
        default: return launch_as<float>(op, context);
    }
}

const RegisterImplementations<Rope> kKernels{
    kit::kTarget,
    {{"vectors",
      +[](const Rope& op, const DeviceInfo&) -> const char* {
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
