// Attention whose products are those of fp8: tensor maps and launches.
#include "ops/attention/fp8.cuh"
#include "ops/attention/fp8_launch.h"
#include "ops/attention/wgmma_arguments.cuh"
#include "ops/attention/wgmma_kernel.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

void transpose_values(const Attention& op, const attention::TransposedValues& values, Context& context) {
    TransposeParams p = {};
    p.from = static_cast<const Code*>(op.v.data), p.to = static_cast<Code*>(values.codes.data);
    p.stride = strides(op.v, 1, 2);
    if (op.kv_lengths) p.kv_lengths = op.kv_lengths.as<std::int32_t>();
    if (op.key_mask) p.key_mask = op.key_mask.as<std::uint8_t>(), p.mask_stride = op.key_mask.stride[0];
    p.tokens = static_cast<int>(op.v.dim(1)), p.padded = static_cast<int>(values.codes.dim(3));
    p.columns = static_cast<int>(op.v.dim(3)), p.heads = static_cast<int>(op.v.dim(2));
    const std::int64_t tiles = values.codes.dim(3) / attention::kTransposedKeys;
    p.by_tiles = kit::Divisor::of(tiles), p.by_heads = kit::Divisor::of(p.heads);
    p.codes = codes_of(op), p.factors = values.factors;
    const dim3 grid(static_cast<unsigned>(tiles * op.v.dim(0) * op.v.dim(2)),
                    static_cast<unsigned>((p.columns + kTransposeColumns - 1) / kTransposeColumns));
    kit::launch("attention_transpose", attention_transpose,
                kit::LaunchShape{.grid = grid, .block = kTransposeThreads, .dependent = true},
                context.stream(), p);
}

template <class T>
void launch_fp8_as(const AttentionParams& p, const Attention& op, const Tensor& values,
                   const attention::WgmmaConfig& config, Context& context) {
    const kit::TensorMap q = box_map(op.q, p.group, config.rows / p.group, p.splits);
    const kit::TensorMap k = box_map(op.k, 1, config.tile.keys(), p.row_blocks),
                         v = box_map(values, config.tile.v_dim(), 1, p.row_blocks);
    const kit::LaunchShape shape = wgmma_shape(p, config, context.info());
    const auto as = [&](auto kernel) {
        kit::launch("attention_wgmma", kernel, shape, context.stream(), p, q, k, v);
    };
    if (config.tile.head_dim == 128) return as(attention_wgmma<T, 128, 2, false, false>);
    const bool three = config.tile.warpgroups == 3;
    as(three ? attention_wgmma<T, 64, 3, false, false> : attention_wgmma<T, 64, 2, false, false>);
}

}  // namespace

void launch_attention_fp8(const Attention& op, const attention::WgmmaConfig& config,
                          const attention::TransposedValues& values, float* partials, Context& context) {
    transpose_values(op, values, context);
    const attention::Problem problem(op);
    AttentionParams p = wgmma_parameters(op, problem, config, partials, values.factors, context.info());
    p.hides_values = false;  // they are zeros by now
    p.out_dtype = op.out.dtype;
    (op.v.dtype == DType::fp8_e4m3 ? launch_fp8_as<kit::e4m3> : launch_fp8_as<kit::e5m2>)(p, op, values.codes,
                                                                                          config, context);
}

}  // namespace weft::inline WEFT_TARGET
