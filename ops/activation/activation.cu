// activation on the GPU and in the emulator: policy and launches.
#include "ops/activation/activation.h"

#include "kit/affine_launch.h"
#include "ops/activation/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// What the threads of a call do: x's rows, and beside them those of what goes in front of the results.
struct Plan {
    kit::RowTiles own;  // in pieces: of both
    Front front{.tiles = {.column_blocks = 0}};
    ActivateParams params;
    bool known = false;     // all inputs but a bias are of x's dtype, in whole vectors
    PiecesParams pieces{};  // of a call that is not: what is moved in pieces, if any piece is given

    bool in_pieces() const { return pieces.rows.piece > 0; }
    kit::LaunchShape shape() const {
        kit::LaunchShape shape = own.shape();
        shape.grid.x += front.tiles.column_blocks;
        return shape;
    }
    std::string describe() const {
        std::string all = own.describe();
        if (in_pieces()) all += " pieces=" + std::to_string(pieces.rows.piece);
        if (pieces.front_pieces > 0) return all + ", front in them";
        return front.tiles.column_blocks == 0 ? all
                                              : all + ", front " + std::to_string(front.tiles.column_blocks);
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

// Rows in pieces, and what goes in front of them, whose columns have squads of threads of their own, before those of x.
void plan_pieces(const Activate& op, const DeviceInfo& device, Plan& made) {
    const Tensor out = results(op), none;
    kit::AffineTensors call{op.x, op.add, none, op.bias, out, made.params.eager};
    const bool front = op.front && op.front.numel() > 0;
    call.known = false;
    call.parts = !front;
    const kit::AffinePlan own = kit::affine_plan(call, device);
    if (own.params.piece == 0) return;
    if (!front) {
        made.own = own.tiles;
        made.pieces.rows = own.params;
        return;
    }
    const Tensor before = before_results(op);
    kit::AffineTensors copy{op.front, none, none, none, before, false};
    copy.known = copy.parts = false;
    const kit::AffinePlan ahead = kit::affine_plan(copy, device);
    if (ahead.params.piece == 0) return;
    const std::int64_t rows = own.params.shape.rows, dim = own.params.shape.dim,
                       ahead_dim = ahead.params.shape.dim;
    const int piece = std::min(own.params.piece, ahead.params.piece), squad = kit::affine_squad(piece);
    const int batch = kit::affine_batch(rows, {ahead_dim, dim}, piece, device);
    // As many threads side by side as the shorter of both has, so that those of a warp do the same.
    kit::RowTiles tiles =
        kit::tile_rows(rows, std::min(ahead_dim, dim), kWidth, batch, device, std::int64_t{1} << 30, squad);
    const auto blocks = [&](std::int64_t columns) {
        return kit::divide_up(kit::squads(columns, piece, batch) * squad,
                              std::int64_t{1} << tiles.lanes_log2);
    };
    tiles.column_blocks = static_cast<unsigned>(blocks(ahead_dim) + blocks(dim));
    made.own = tiles;
    made.pieces.rows = own.params;
    made.pieces.front = ahead.params;
    for (kit::MixedAffineRows* part : {&made.pieces.rows, &made.pieces.front})
        part->piece = piece, part->batch = batch;
    made.pieces.front_pieces =
        static_cast<unsigned>((blocks(ahead_dim) << tiles.lanes_log2) * (kWidth / piece) * batch);
}

// Where there is something in front that is not moved in pieces: of x and of that those say how many threads share a row that
// have more of them.
void plan_front(const Activate& op, const DeviceInfo& device, Plan& made) {
    const Tensor before = before_results(op);
    kit::RowTiles& front = made.front.tiles;
    front = kit::tile_tensors({&op.front, &before}, kWidth, false, device);
    if (front.lanes_log2 > made.own.lanes_log2) {
        made.own = kit::tiles_like(front, op.x.dim(-1), kWidth);
    } else {
        front = kit::tiles_like(made.own, front.dim, kWidth);
    }
    made.front.in = kit::input_rows(op.front, kWidth, device, front);
    made.front.out = kit::vector_rows(before, kWidth, front);
}

Plan plan(const Activate& op, const DeviceInfo& device) {
    const Tensor out = results(op);
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
    if (op.front && op.front.numel() > 0) plan_front(op, device, made);
    const auto same = [&](const Tensor& t) { return !t || t.dtype == op.x.dtype; };
    const Front& front = made.front;
    made.known = same(op.add) && kit::is_shared(p.bias, op.x.dtype) && same(op.front) && compiled(p) &&
                 kit::whole_vectors(own, kWidth, {p.x, p.add, p.bias, p.out}) &&
                 (front.in.data == nullptr || kit::whole_vectors(front.tiles, kWidth, {front.in, front.out}));
    if (!made.known) plan_pieces(op, device, made);
    if (made.in_pieces()) made.front = Front{.tiles = {.column_blocks = 0}};
    return made;
}

template <class T, class Out, bool kLong>
void launch_as(const Plan& plan, Context& context) {
    kit::launch("activation", activation<T, Out, kLong>, plan.shape(), context.stream(), plan.params,
                plan.own, plan.front);
}

void launch_pieces(const Plan& plan, Context& context) {
    PiecesParams p = plan.pieces;
    p.scale = plan.params.scale;
    p.activation = plan.params.activation;
    p.alpha = plan.params.alpha;
    kit::with_flag<true>(p.front_pieces > 0, [&](auto front) {
        const auto kernel = p.rows.batch == 1 ? &activation_pieces<1, front()>
                                              : &activation_pieces<kit::kMixedBatch, front()>;
        kit::launch("activation", kernel, plan.shape(), context.stream(), p, plan.own);
    });
}

void launch(const Activate& op, Context& context) {
    const Plan made = plan(op, context.info());
    if (made.in_pieces()) return launch_pieces(made, context);
    if (!made.known) return launch_as<kit::Any, kit::Any, true>(made, context);
    with_compiled(made.params, [&](auto types, auto is_long) {
        launch_as<typename decltype(types)::In, typename decltype(types)::Out, is_long()>(made, context);
    });
}

const RegisterImplementations<Activate> kKernels{
    kit::kTarget,
    {{"vectors", +[](const Activate&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Activate& op, const DeviceInfo& device) { return plan(op, device).describe(); }, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
