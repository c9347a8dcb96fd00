// merge_attention_states on the GPU and in the emulator: policy and launch.
#include "ops/merge_attention_states/merge_attention_states.h"

#include "ops/merge_attention_states/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

kit::RowTiles tiles(const MergeAttentionStates& op, const DeviceInfo& device) {
    return kit::tile_tensors({&op.out, &op.a, &op.b}, kWidth, false, device);
}

Lse lse_of(const Tensor& t) {
    return t ? Lse{t.as<float>(), {t.stride[1], t.stride[2], t.stride[0]}} : Lse{};
}

void launch(const MergeAttentionStates& op, Context& context) {
    using kit::bf16, kit::half, kit::Types;
    MergeParams p{.a = kit::input_rows(op.a, kWidth, context.info()),
                  .b = kit::input_rows(op.b, kWidth, context.info()),
                  .out = kit::vector_rows(op.out, kWidth),
                  .lse_a = lse_of(op.lse_a),
                  .lse_b = lse_of(op.lse_b),
                  .lse = lse_of(op.lse),
                  .rows = {}};
    for (const int axis : {2, 1, 0}) p.rows.add(op.out.dim(axis));
    const kit::RowTiles t = tiles(op, context.info());
    const auto go = [&](auto* type) {
        kit::launch("merge_attention_states", merge_attention_states<std::remove_pointer_t<decltype(type)>>,
                    t.shape(), context.stream(), p, t);
    };
    const bool whole = kit::whole_vectors(t, kWidth, {p.a, p.b, p.out});
    if (!whole || !kit::with_types<Types<bf16>, Types<half>, Types<float>>(
                      p.a.dtype, p.out.dtype,
                      [&](auto types) { go(static_cast<typename decltype(types)::In*>(nullptr)); }))
        go(static_cast<kit::Any*>(nullptr));
}

const RegisterImplementations<MergeAttentionStates> kKernels{
    kit::kTarget,
    {{"vectors", +[](const MergeAttentionStates&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const MergeAttentionStates& op, const DeviceInfo& device) { return tiles(op, device).describe(); },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
