// Which row of an operand belongs to which row of x. A contract says it by axes that begin with "~..." (weft/axes.h):
// the operand may have x's leading axes, fewer of them, or some of size 1. Kernels and references read it here, as
// strides.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "weft/tensor.h"

namespace weft {

inline constexpr int kMaxRowAxes = kMaxRank;

// The leading axes of x, outermost first, one of which may be cut in two (frames), and an operand's stride along each.
struct RowMap {
    int axes = 0;
    std::int64_t size[kMaxRowAxes] = {};
    std::int64_t stride[kMaxRowAxes] = {};  // elements; 0 along axes whose rows share
    bool single = false;                    // one element stands for all of a row

    // Elements from the operand's first to where the row that belongs to row `row` of x begins.
    std::int64_t offset(std::int64_t row) const;
};

// The product of a tensor's leading axes.
std::int64_t row_count(const Tensor& tensor);

// How many parts ("frames") the last leading axis of x is cut into: [B, F, 1, D] beside an x of [B, S, D] has one row for
// each S / F tokens. 0 where the operand has no such axes.
std::int64_t frames(const Tensor& operand, const Tensor& x);

// The rows of `operand` as those of x find them. Of x [B, S, D] the operand may be
//   [1] or [D]                       one row for all
//   [B, D], [B, 1, D]                one for each index of the first axes
//   [B, S, D], [1, S, D]             one for each row, or the same for all batches
//   [B, F, 1, D]                     one for each of the F frames that S is cut into
// and in each of these the last axis may be 1: one element for the row. Nothing where it is none of these.
std::optional<RowMap> map_rows(const Tensor& operand, const Tensor& x);

// Writes the maps, which are of one x, over the fewest axes that serve all of them. False where they cut x into
// different numbers of frames.
bool fold_maps(std::span<RowMap* const> maps);

}  // namespace weft
