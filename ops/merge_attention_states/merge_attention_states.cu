// merge_attention_states on the GPU and in the emulator: policy and launch.
#include "ops/merge_attention_states/merge_attention_states.h"

#include "ops/merge_attention_states/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

struct Plan {
    kit::VectorRows a, b, out;
    kit::RowTiles tiles;
    bool vectors;   // all are whole
    int steps = 1;  // of a block, each over as many rows as it has threads for

    kit::LaunchShape shape() const {
        kit::LaunchShape shape = tiles.shape();
        shape.grid.y = static_cast<unsigned>(kit::divide_up(tiles.row_blocks, steps));
        return shape;
    }
};

// A block works out the shares of several rows at once where rows are many; of vectors, whose blocks have more rows side by
// side, for two steps.
int steps_of(const kit::RowTiles& tiles, bool vectors, const DeviceInfo& device) {
    constexpr std::int64_t kBlocks = 8;  // of a multiprocessor at least
    const std::int64_t blocks = std::int64_t{tiles.row_blocks} * tiles.layers * tiles.column_blocks;
    const int most = std::min(vectors ? 2 : 8, 1 << tiles.lanes_log2);
    int steps = 1;
    while (steps < most && blocks >= kBlocks * device.sms * 2 * steps) steps *= 2;
    return steps;
}

Plan plan_of(const MergeAttentionStates& op, const DeviceInfo& device) {
    Plan plan{.a = kit::input_rows(op.a, kWidth, device),
              .b = kit::input_rows(op.b, kWidth, device),
              .out = kit::vector_rows(op.out, kWidth),
              .tiles = kit::tile_tensors({&op.out, &op.a, &op.b}, kWidth, false, device),
              .vectors = false};
    plan.vectors = kit::whole_vectors(plan.tiles, kWidth, {plan.a, plan.b, plan.out});
    if (!plan.vectors) plan.tiles = kit::tile_rows(plan.tiles.rows, plan.tiles.dim, 1, kApart, device);
    plan.steps = steps_of(plan.tiles, plan.vectors, device);
    return plan;
}

Lse lse_of(const Tensor& t) {
    return t ? Lse{t.as<float>(), {t.stride[1], t.stride[2], t.stride[0]}} : Lse{};
}

void launch(const MergeAttentionStates& op, Context& context) {
    const Plan plan = plan_of(op, context.info());
    MergeParams p{.a = plan.a,
                  .b = plan.b,
                  .out = plan.out,
                  .lse_a = lse_of(op.lse_a),
                  .lse_b = lse_of(op.lse_b),
                  .lse = lse_of(op.lse),
                  .rows = {}};
    for (const int axis : {2, 1, 0}) p.rows.add(op.out.dim(axis));
    const auto go = [&](const char* name, auto kernel) {
        kit::launch(name, kernel, plan.shape(), context.stream(), p, plan.tiles, plan.steps);
    };
    if (plan.vectors) {
        return kit::with_wide_type(op.a.dtype, [&](auto* type) {
            go("merge_attention_states", &merge_attention_states<std::remove_pointer_t<decltype(type)>>);
        });
    }
    const char* const name = "merge_attention_states_apart";
    bits(op.a.dtype) == 16 ? go(name, &merge_attention_states_apart<unsigned short>)
                           : go(name, &merge_attention_states_apart<unsigned>);
}

const RegisterImplementations<MergeAttentionStates> kKernels{
    kit::kTarget,
    {{"vectors", +[](const MergeAttentionStates&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const MergeAttentionStates& op, const DeviceInfo& device) {
          const Plan plan = plan_of(op, device);
          return plan.tiles.describe() + " steps=" + std::to_string(plan.steps) +
                 (plan.vectors ? "" : ", by elements");
      },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
