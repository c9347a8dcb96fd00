// Attention's kernel that makes codes into 16 bits, launched.
#include "kit/launch.h"
#include "ops/attention/arguments.cuh"
#include "ops/attention/widen.cuh"
#include "ops/attention/widen_launch.h"

namespace weft::inline WEFT_TARGET {

void launch_attention_widen(const Attention& op, const attention::Widened& widened, Context& context) {
    WidenParams p = {};
    p.codes = codes_of(op), p.factors = widened.factors, p.heads = static_cast<int>(op.k.dim(2));
    const Tensor *from[] = {&op.q, &op.k, &op.v}, *to[] = {&widened.op.q, &widened.op.k, &widened.op.v};
    std::int64_t most = p.heads;
    for (int i = 0; i < 3; ++i) {
        const Tensor& t = *from[i];
        if (!is_fp8(t.dtype)) continue;
        p.tensor[i] = {.from = static_cast<const Code*>(t.data),
                       .to = to[i]->data,
                       .stride = strides(t, 1, 2),
                       .eights = t.numel() / 8,
                       .by_row = kit::Divisor::of(t.dim(3) / 8),
                       .by_heads = kit::Divisor::of(t.dim(2)),
                       .by_tokens = kit::Divisor::of(t.dim(1))};
        most = std::max(most, p.tensor[i].eights);
    }
    const auto blocks = std::min<std::int64_t>((most + kWidenThreads - 1) / kWidenThreads, kWidenBlocks);
    const kit::LaunchShape shape{
        .grid = dim3(static_cast<unsigned>(blocks), 3), .block = kWidenThreads, .dependent = true};
    kit::launch("attention_widen",
                widened.op.k.dtype == DType::bf16 ? attention_widen<kit::bf16> : attention_widen<kit::half>,
                shape, context.stream(), p);
}

}  // namespace weft::inline WEFT_TARGET
