// activation on the GPU and in the emulator: policy and launches.
#include "ops/activation/activation.h"

#include "kit/affine_launch.h"
#include "ops/activation/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// What the threads of a call do: x's rows, and beside them those of what goes in front of the results.
struct Plan {
    kit::RowTiles own, front{.column_blocks = 0};
    ActivateParams params;
    bool known = false;           // all inputs but a bias are of x's dtype, in whole vectors
    kit::MixedAffineRows rows{};  // of a call that is not: what is moved in pieces

    bool pieces() const { return rows.piece > 0; }
    kit::LaunchShape shape() const {
        kit::LaunchShape shape = own.shape();
        shape.grid.x += front.column_blocks;
        return shape;
    }
    std::string describe() const {
        std::string all = own.describe();
        if (pieces()) all += " pieces=" + std::to_string(rows.piece);
        return front.column_blocks == 0 ? all : all + ", front " + std::to_string(front.column_blocks);
    }
};

// out's columns that hold the results, and those before them.
Tensor results(const Activate& op) {
    return op.front ? op.out.slice(-1, op.front.dim(-1), op.out.dim(-1)) : op.out;
}
Tensor before_results(const Activate& op) { return op.out.slice(-1, 0, op.front.dim(-1)); }

// Calls use(Types<In, Out>(), whether the code is long) with those that the kernel is compiled for and that a call of such
// dtypes needs, if there are any.
template <class Use>
bool with_compiled(const ActivateParams& p, Use use) {
    const bool is_long = kit::has_long_code(p.activation, p.eager);
    return kit::with_wide<kit::bf16, kit::half, float>(
               p.x.dtype, p.out.dtype,
               [&](auto types) { is_long ? use(types, std::true_type{}) : use(types, std::false_type{}); }) ||
           (!is_long && kit::with_narrow<kit::bf16, kit::half>(
                            p.x.dtype, p.out.dtype, [&](auto types) { use(types, std::false_type{}); }));
}
bool compiled(const ActivateParams& p) {
    return with_compiled(p, [](auto, auto) {});
}

// Of x and what goes in front of it those say how many threads share a row that have more of them.
Plan plan(const Activate& op, const DeviceInfo& device) {
    const Tensor out = results(op), none;
    const kit::RowTiles own = kit::tile_tensors({&op.x, &op.add, &out}, kWidth, !op.bias, device);
    Plan made{.own = own,
              .params = {.x = kit::input_rows(op.x, kWidth, device, own),
                         .add = kit::input_rows(op.add, kWidth, device, own),
                         .bias = kit::shared_vector(op.bias, kWidth),
                         .out = kit::vector_rows(out, kWidth, own),
                         .scale = op.scale ? op.scale.as<const float>() : nullptr,
                         .activation = op.activation,
                         .alpha = op.alpha,
                         .eager = op.rounding == Rounding::eager}};
    const ActivateParams& p = made.params;
    const auto same = [&](const Tensor& t) { return !t || t.dtype == op.x.dtype; };
    made.known = same(op.add) && kit::is_shared(p.bias, op.x.dtype) && same(op.front) && compiled(p) &&
                 kit::whole_vectors(own, kWidth, {p.x, p.add, p.bias, p.out});
    if (!made.known) {
        kit::AffineTensors call{op.x, op.add, none, op.bias, out, p.eager};
        call.known = false;
        const kit::AffinePlan rows = kit::affine_plan(call, device);
        made.rows = rows.params;
        if (made.pieces()) made.own = rows.tiles;
    }
    if (!op.front || op.front.numel() == 0) return made;
    const Tensor before = before_results(op);
    made.front = kit::tile_tensors({&op.front, &before}, kWidth, false, device);
    if (made.front.lanes_log2 > made.own.lanes_log2) {
        made.own = kit::tiles_like(made.front, op.x.dim(-1), kWidth);
    } else {
        made.front = kit::tiles_like(made.own, made.front.dim, kWidth);
    }
    return made;
}

template <class T, class Out, bool kLong>
void launch_as(const ActivateParams& p, const Plan& plan, const Front& front, Context& context) {
    kit::launch("activation", activation<T, Out, kLong>, plan.shape(), context.stream(), p, plan.own, front);
}

void launch(const Activate& op, Context& context) {
    const DeviceInfo& device = context.info();
    const Plan made = plan(op, device);
    const ActivateParams& p = made.params;
    Front front;
    front.tiles = made.front;
    if (made.front.column_blocks > 0) {
        front.in = kit::input_rows(op.front, kWidth, device, made.front);
        front.out = kit::vector_rows(before_results(op), kWidth, made.front);
    }
    if (made.pieces()) {
        const auto kernel =
            made.rows.batch == 1 ? &activation_pieces<1> : &activation_pieces<kit::kMixedBatch>;
        return kit::launch(
            "activation", kernel, made.shape(), context.stream(),
            PiecesParams{.rows = made.rows, .scale = p.scale, .activation = p.activation, .alpha = p.alpha},
            made.own, front);
    }
    if (!made.known) return launch_as<kit::Any, kit::Any, true>(p, made, front, context);
    with_compiled(p, [&](auto types, auto is_long) {
        launch_as<typename decltype(types)::In, typename decltype(types)::Out, is_long()>(p, made, front,
                                                                                          context);
    });
}

const RegisterImplementations<Activate> kKernels{
    kit::kTarget,
    {{"vectors", +[](const Activate&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Activate& op, const DeviceInfo& device) { return plan(op, device).describe(); }, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
