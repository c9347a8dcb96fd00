// activation's kernel.
#pragma once

#include "kit/activation.cuh"
#include "kit/affine.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input

struct ActivateParams {
    kit::VectorRows x, add, bias, out;  // the bias is one row for all
    const float* scale;                 // null: 1
    Activation activation;
    float alpha;
    bool eager;  // PyTorch's roundings and forms
};

// Columns that are copied in front of the results, by blocks beside those that have x.
struct Front {
    kit::VectorRows in{}, out{};
    kit::RowTiles tiles{};
};

// `values` plus what came of an operand, if it is there, rounded as PyTorch's sum where `eager`.
template <class Held>
__device__ __forceinline__ void plus(float (&values)[kWidth], const kit::VectorRows& in, const Held& held,
                                     bool eager, DType dtype) {
    if (in.data == nullptr) return;
    float term[kWidth];
    held.widen(in, term);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
        values[i] += term[i];
        if (eager) values[i] = kit::round_as(dtype, values[i]);
    }
}

template <class Out>
constexpr bool kScaled = !std::is_same_v<Out, kit::Wide>;

// Whether the block's columns are the front's, which it copies.
template <class T, class Out>
__device__ __forceinline__ bool copies_front(const float* scale, const kit::RowTiles& tiles,
                                             const Front& front) {
    if (blockIdx.x < tiles.column_blocks) return false;
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_part<kWidth>(front.tiles,
                               [&](const kit::PartVector& at) {
                                   float values[kWidth];
                                   kit::load_row<T>(front.in, at, values);
                                   if constexpr (kScaled<Out>) {
                                       const float inverse = 1.0f / (scale != nullptr ? *scale : 1.0f);
#pragma unroll
                                       for (float& value : values) value *= inverse;
                                   }
                                   kit::store_row<Out>(front.out, at, values);
                               },
                               {blockIdx.x - tiles.column_blocks, front.tiles.column_blocks});
    return true;
}

// What     out = [front, act(x + add + bias)] / scale
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh); the last blocks of a row have the front's
// Traffic  x, add, front and out once: bound by memory; the bias stays in L1. The activation is chosen once a vector
// Needs    out may be x's or add's memory: a thread reads its vectors before it writes there. T, where it is not
//          Any, is the dtype of all inputs but a bias of fp32; all vectors are whole then. kLong where has_long_code says so
template <class T, class Out, bool kLong>
__global__ void __launch_bounds__(256) activation(ActivateParams p, kit::RowTiles tiles, Front front) {
    if (copies_front<T, Out>(p.scale, tiles, front)) return;
    kit::for_each_vector<kWidth, Out>(tiles, [&](const auto& at) {
        // The scale is asked for first: it is divided by while the vectors are under way.
        [[maybe_unused]] const float scale = kScaled<Out> && p.scale != nullptr ? *p.scale : 1.0f;
        kit::Fetched<T, kWidth> x, add;
        kit::Shared<T, kWidth> bias;
        x.load(p.x, at);
        if (p.add.data != nullptr) add.load(p.add, at);
        if (p.bias.data != nullptr) bias.load(p.bias, at);
        float y[kWidth];
        x.widen(p.x, y);
        plus(y, p.add, add, p.eager, p.x.dtype);
        plus(y, p.bias, bias, p.eager, p.x.dtype);
        kit::with_activation<kLong>(p.activation, p.alpha, p.eager, [&](auto act) {
#pragma unroll
            for (float& value : y) value = act(value);
        });
        if constexpr (kScaled<Out>) {
            const float inverse = 1.0f / scale;
#pragma unroll
            for (float& value : y) value *= inverse;
        }
        kit::store_row<Out>(p.out, at, y);
    });
}

struct PiecesParams {
    kit::MixedAffineRows rows{};   // whose bias is `add`, and whose shift is the bias
    kit::MixedAffineRows front{};  // whose x is what goes in front, if anything does
    unsigned front_pieces = 0;  // of whole squads of threads, which have the front's; the next ones have x's
    const float* scale = nullptr;
    Activation activation{};
    float alpha = 0;
};

// Calls use(rows, the thread's pieces of them), if it has any: of the front's rows or of x's.
template <int kPiece, int kBatch, bool kFront, class Use>
__device__ __forceinline__ void with_own_pieces(const PiecesParams& p, const kit::RowTiles& tiles, Use use) {
    kit::WholeVector first = kit::first_of_batch<kPiece, kBatch>(tiles);
    if (kFront && first.vector < p.front_pieces) {
        return kit::with_tile_part<kPiece>(p.front, first, [&](auto part) { use(p.front, part); });
    }
    if (kFront) first.vector -= p.front_pieces;
    kit::with_tile_part<kPiece>(p.rows, first, [&](auto part) { use(p.rows, part); });
}

// What     the same, of any dtypes and rows; rounding=fused
// Mapping  a thread owns as much as kBatch vectors of a row, in pieces of 8, 4, 2 or 1 elements, the largest that all operands
//          allow (kit/affine.cuh); where kFront, the first threads of a row have what goes in front. The activation has one
//          copy of its code for all of them
// Traffic  as above
// Needs    as above
template <int kBatch, bool kFront>
__global__ void __launch_bounds__(256)
    activation_pieces(const __grid_constant__ PiecesParams p, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    const float scale = p.scale != nullptr ? *p.scale : 1.0f;
    kit::SideSlice<kBatch> y;
    y.fill(0.0f);
    bool copied = false;
    kit::with_piece(p.rows.piece, [&]<int kPiece>(std::integral_constant<int, kPiece>) {
        with_own_pieces<kPiece, kBatch, kFront>(p, tiles, [&](const auto& rows, kit::TilePart<kPiece>& part) {
            copied = kFront && &rows == &p.front;
            const auto sums = kit::affine_results<kBatch>(rows, part);
            memcpy(y.at, sums.at, sizeof(y.at));
        });
    });
    const float inverse = 1.0f / scale;
    if (copied) {
        y.change([&](float value) { return value * inverse; });
    } else {
        kit::with_activation<true>(p.activation, p.alpha, false, [&](auto act) {
            y.change([&](float value) { return act(value) * inverse; });
        });
    }
    kit::with_piece(p.rows.piece, [&]<int kPiece>(std::integral_constant<int, kPiece>) {
        with_own_pieces<kPiece, kBatch, kFront>(p, tiles, [&](const auto& rows, kit::TilePart<kPiece>& part) {
            kit::SideSlice<kBatch, kPiece> results;
            memcpy(results.at, y.at, sizeof(y.at));
            const std::int64_t begin = part.offset(rows.out);
            kit::with_one_of<kit::bf16, kit::half, kit::e4m3, kit::e5m2, float>(
                rows.out.dtype, [&](auto* type) {
                    kit::store_pieces<std::remove_pointer_t<decltype(type)>>(
                        part, rows.out, begin, results, [](float value) { return value; });
                });
        });
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
