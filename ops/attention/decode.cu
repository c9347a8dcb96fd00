// Attention's kernels of few rows, launched.
#include <algorithm>

#include "kit/launch.h"
#include "ops/attention/arguments.cuh"
#include "ops/attention/decode_kernel.cuh"
#include "ops/attention/decode_launch.h"

namespace weft::inline WEFT_TARGET {

void launch_attention_decode(const Attention& op, const attention::DecodeConfig& config, float* partials,
                             Context& context) {
    const attention::Problem problem(op);
    AttentionParams p = parameters(op, problem, DecodeTile::kRows, config.splits);
    if (partials != nullptr) set_partials(p, partials);
    p.clustered = config.clustered;
    p.page_keys = attention::box_keys(op, DecodeTile::keys());
    const kit::TensorMap keys = box_map(op.k, 1, p.page_keys, p.row_blocks),
                         values = box_map(op.v, 1, p.page_keys, p.row_blocks);
    p.blocks = static_cast<unsigned>(attention::blocks(problem, DecodeTile::kRows) * config.splits);
    // A cluster works once; a block alone goes on with other rows.
    const bool goes_on = config.tile.goes_on() && !config.clustered;
    const kit::LaunchShape shape{
        .grid = goes_on ? std::min(p.blocks, static_cast<unsigned>(context.info().sms)) : p.blocks,
        .block = DecodeTile::kThreads,
        .cluster = config.clustered ? static_cast<unsigned>(config.splits) : 1,
        .dynamic_shared = static_cast<std::size_t>(config.tile.shared_bytes()),
        .dependent = true};
    const auto launch = [&](auto as_bf16, auto as_half) {
        kit::launch("attention_decode", op.out.dtype == DType::bf16 ? as_bf16 : as_half, shape,
                    context.stream(), p, codes_of(op), keys, values);
    };
    using kit::bf16, kit::half;
    if (config.tile.stored_bits == 8) {
        const auto of_codes = config.tile.head_dim == 128 ? attention_decode<half, Code, 128>
                                                          : attention_decode<half, Code, 256>;
        return launch(of_codes, of_codes);
    }
    switch (config.tile.head_dim) {
        case 64: return launch(attention_decode<bf16, bf16, 64>, attention_decode<half, half, 64>);
        case 128: return launch(attention_decode<bf16, bf16, 128>, attention_decode<half, half, 128>);
        default: return launch(attention_decode<bf16, bf16, 256>, attention_decode<half, half, 256>);
    }
}

}  // namespace weft::inline WEFT_TARGET
