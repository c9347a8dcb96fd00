// Attention's kernels of wide rows, launched.
#include "kit/launch.h"
#include "ops/attention/arguments.cuh"
#include "ops/attention/wide_kernel.cuh"
#include "ops/attention/wide_launch.h"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T>
void launch_wide_as(const AttentionParams& p, const AttentionCodes& codes,
                    const attention::WideConfig& config, const kit::LaunchShape& shape, Stream stream) {
    const auto launch = [&](auto of_512, auto of_1024) {
        kit::launch("attention_wide", config.tile.columns == 512 ? of_512 : of_1024, shape, stream, p, codes);
    };
    config.tile.stored_bits == 16 ? launch(attention_wide<T, T, 512>, attention_wide<T, T, 1024>)
                                  : launch(attention_wide<T, Code, 512>, attention_wide<T, Code, 1024>);
}

}  // namespace

void launch_attention_wide(const Attention& op, const attention::WideConfig& config, float* partials,
                           Context& context) {
    const attention::Problem problem(op);
    AttentionParams p = parameters(op, problem, config.tile.rows(), config.splits);
    if (partials != nullptr) set_partials(p, partials);
    p.slots = config.slots;
    const kit::LaunchShape shape{
        .grid = static_cast<unsigned>(attention::blocks(problem, config.tile.rows()) * config.splits),
        .block = WideTile::kThreads,
        .dynamic_shared = static_cast<std::size_t>(config.shared_bytes())};
    op.out.dtype == DType::bf16 ? launch_wide_as<kit::bf16>(p, codes_of(op), config, shape, context.stream())
                                : launch_wide_as<kit::half>(p, codes_of(op), config, shape, context.stream());
}

}  // namespace weft::inline WEFT_TARGET
