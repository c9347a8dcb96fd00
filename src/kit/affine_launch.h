// The host side of kit/affine.cuh: rows without gaps as one long row, the choice of an instantiation.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "kit/affine.cuh"
#include "kit/row_launch.h"

namespace weft::inline WEFT_TARGET::kit {

// What a call of an op over kit::affine_rows is: the tensors of the operands, absent ones too.
struct AffineTensors {
    const Tensor &x, &bias, &scale, &shift, &out;
    bool eager;
    const Tensor *scale_picks = nullptr, *shift_picks = nullptr;
    bool known = true;  // the op has kernels of uniform calls
    bool parts = true;  // and one that moves rows as vectors whose last may be a part
};

struct AffinePlan {
    MixedAffineRows params{};
    RowTiles tiles{};
    bool uniform = false;  // rows of one dtype and whole vectors

    std::string describe() const {
        return tiles.describe() + (params.piece > 0 ? " pieces=" + std::to_string(params.piece) : "");
    }
};

// Whether each vector has a thread, which takes `batch` of them.
inline bool cover(const RowTiles& tiles, int batch) {
    return tiles.rows >> 31 == 0 &&
           (std::int64_t{tiles.column_blocks} * batch) << tiles.lanes_log2 >= tiles.vectors &&
           std::int64_t{tiles.row_blocks} * tiles.layers * (tiles.threads >> tiles.lanes_log2) >= tiles.rows;
}

// The most elements that may be moved at once of all of a call's rows; of `dense` rows, which are one, where that begins
// counts.
inline int affine_piece(const AffineTensors& call, std::int64_t dim, bool dense) {
    const auto allow = [&](int piece) {
        const auto allows = [&](const Tensor* t) {
            if (!*t || (t->dim(-1) == 1 && call.x.dim(-1) != 1)) return true;
            return dense ? begins_aligned(*t, piece) : rows_aligned(*t, piece);
        };
        const Tensor* all[] = {&call.x, &call.bias, &call.scale, &call.shift, &call.out};
        return dim % piece == 0 && std::all_of(std::begin(all), std::end(all), allows);
    };
    return allow(8) ? 8 : allow(4) ? 4 : allow(2) ? 2 : 1;
}

// How many squads of threads share out a row, each thread `batch` vectors' worth of it in pieces.
inline std::int64_t squads(std::int64_t dim, int piece, int batch) {
    return divide_up(dim, std::int64_t{affine_squad(piece)} * kAffineWidth * batch);
}

// How many vectors' worth of elements a thread takes of rows in pieces: two, but one where no more threads are needed then than
// the card has, or than have room beside each other where pieces are small; or where rows are so short that a second would
// mostly lie beyond their end. `dims`: the columns that squads of their own share out.
inline int affine_batch(std::int64_t rows, std::initializer_list<std::int64_t> dims, int piece,
                        const DeviceInfo& device) {
    const std::int64_t threads = piece == kAffineWidth ? 2048 : affine_blocks<Any>() * 256;
    const std::int64_t together = device.sms * threads * kAffineWidth;
    std::int64_t all = 0, reach[2] = {};
    for (const std::int64_t dim : dims) {
        all += dim;
        for (int batch = 1; batch <= kMixedBatch; ++batch)
            reach[batch - 1] += squads(dim, piece, batch) * batch;
    }
    return rows * all <= together || (piece < kAffineWidth && reach[0] * 3 <= reach[1] * 2) ? 1 : kMixedBatch;
}

// Whether rows are stored alike, and may be moved as vectors. The bias, which must be one row for all, and the result may have
// another dtype; but steps that are rounded have one. `all(holds)`: of the operands that are there.
template <class All>
bool uniform(const MixedAffineRows& p, All all) {
    const auto stored = [&](const RowOperand& o) {
        return o.dtype == p.x.dtype ||
               (!p.eager && (&o == &p.out || (&o == &p.bias && o.dtype == DType::fp32)));
    };
    const bool one_bias = p.bias.data == nullptr || (p.bias.stride == 0 && p.bias.run_stride == 0);
    return p.shape.by == RowsBy::strides && one_bias &&
           all([&](const RowOperand& o) { return stored(o) && !o.single && o.aligned; });
}

inline AffinePlan affine_plan(const AffineTensors& call, const DeviceInfo& device) {
    AffinePlan plan;
    MixedAffineRows& p = plan.params;
    bind_rows(p.shape, p.places, call.x,
              {{&call.x, &p.x},
               {&call.bias, &p.bias},
               {&call.scale, &p.scale, call.scale_picks},
               {&call.shift, &p.shift, call.shift_picks},
               {&call.out, &p.out}},
              kAffineWidth);
    p.eager = call.eager;
    p.shape.rows = row_count(call.x);
    p.shape.dim = call.x.dim(-1);
    const RowOperand* operands[] = {&p.x, &p.bias, &p.scale, &p.shift, &p.out};
    const auto all = [&](auto holds) {
        return std::all_of(std::begin(operands), std::end(operands),
                           [&](const RowOperand* o) { return o->data == nullptr || holds(*o); });
    };
    const std::int64_t dim = p.shape.dim;
    const bool one_stride = p.shape.by == RowsBy::strides && p.places.axes == 1;
    const bool dense = one_stride && all([&](const RowOperand& o) {
                           return !o.single && (o.stride == dim || p.shape.rows == 1);
                       });
    if (dense) {  // then only where the one row begins counts
        p.shape.dim *= p.shape.rows;
        p.shape.rows = 1;
        const std::pair<RowOperand*, const Tensor*> of[] = {{&p.x, &call.x},
                                                            {&p.bias, &call.bias},
                                                            {&p.scale, &call.scale},
                                                            {&p.shift, &call.shift},
                                                            {&p.out, &call.out}};
        for (const auto& [operand, tensor] : of)
            operand->aligned = operand->data != nullptr && begins_aligned(*tensor, kAffineWidth);
    }
    p.keep = l2_keeps_input(bytes(call.x.dtype, call.x.numel()), device);
    plan.tiles = tile_rows(p.shape.rows, p.shape.dim, kAffineWidth, 1, device);
    plan.uniform = call.known && uniform(p, all) && whole_vectors(plan.tiles, kAffineWidth, {});
    if (plan.uniform) return plan;
    if (p.eager || p.shape.by == RowsBy::place) return plan;
    const int piece = affine_piece(call, p.shape.dim, dense);
    // A squad of threads, or of a short row as many as it has pieces.
    const auto pieces = static_cast<std::uint64_t>(std::max<std::int64_t>(p.shape.dim / piece, 1));
    const auto least = static_cast<int>(std::min<std::uint64_t>(affine_squad(piece), std::bit_ceil(pieces)));
    p.batch = affine_batch(p.shape.rows, {p.shape.dim}, piece, device);
    const RowTiles batches =
        tile_rows(p.shape.rows, p.shape.dim, kAffineWidth, p.batch, device, std::int64_t{1} << 30, least);
    if (!cover(batches, p.batch)) return plan;
    // Rows that are aligned but for their end move faster as vectors, the last of which is a part.
    const bool ends =
        call.parts && piece < kAffineWidth && all([](const RowOperand& o) { return o.single || o.aligned; });
    if (ends || (piece < kAffineWidth && p.shape.dim >> 31 != 0)) return plan;
    p.piece = piece;
    plan.tiles = batches;
    return plan;
}

// `kernel(types)` is the instantiation for Types<T>.
template <class Kernel>
void launch_affine(const char* name, const AffinePlan& plan, Context& context, Kernel kernel) {
    const auto launch_as = [&](auto types) {
        using T = typename decltype(types)::In;
        launch(name, kernel(types), plan.tiles.shape(), context.stream(),
               static_cast<const AffineOf<T>&>(plan.params), plan.tiles);
    };
    const DType dtype = plan.params.x.dtype;
    const bool known =
        plan.uniform && with_types<Types<bf16>, Types<half>, Types<float>>(dtype, dtype, launch_as);
    if (!known) launch_as(Types<Any>());
}

}  // namespace weft::inline WEFT_TARGET::kit
