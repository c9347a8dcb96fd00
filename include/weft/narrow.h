// Tensors stored in fewer bits: how many values share a scale, and where the scales of groups lie.
#pragma once

#include <cstdint>
#include <optional>

#include "weft/tensor.h"

namespace weft {

// Columns of a row that share a scale, by what that scale is stored as: fp8's own groups have fp32 scales, NVFP4's
// ue4m3 (the codes of fp8_e4m3 that are not negative), the MX formats' powers of two. 0: no group's scale.
constexpr int group_columns(DType scales) {
    switch (scales) {
        case DType::fp32: return 128;
        case DType::fp8_e4m3: return 16;
        case DType::ue8m0: return 32;
        default: return 0;
    }
}

// Where the scale of a group of a row lies. Linear: by two strides, so that a column-major tensor is one too.
// Swizzled: in tiles of 128 rows by 4 groups, as block-scaled tensor-core instructions read them; what a tile has
// beyond the tensor's rows and groups is padding, and 0.
struct GroupScales {
    void* data = nullptr;  // null: there are none
    DType dtype = DType::fp32;
    bool swizzled = false;
    std::int64_t rows = 0, groups = 0;                // of the tensor
    std::int64_t padded_rows = 0, padded_groups = 0;  // with the padding
    std::int64_t row_stride = 0, group_stride = 1;    // where linear, in elements

    // In elements from `data`.
    constexpr std::int64_t at(std::int64_t row, std::int64_t group) const {
        if (!swizzled) return row * row_stride + group * group_stride;
        const auto r = static_cast<std::uint64_t>(row), g = static_cast<std::uint64_t>(group);
        const std::uint64_t tile = r / 128 * (static_cast<std::uint64_t>(padded_groups) / 4) + g / 4;
        return static_cast<std::int64_t>(tile * 512 + r % 32 * 16 + r % 128 / 32 * 4 + g % 4);
    }
};

// The one stride of a tensor's leading axes, all but `trailing` of them; nothing where they have no such stride.
std::optional<std::int64_t> leading_stride(const Tensor& tensor, int trailing);

// The scales of a tensor of `rows` rows, that is, of the field that is there: a linear one (whose leading axes fold),
// or a swizzled one (dense).
GroupScales group_scales(const Tensor& linear, const Tensor& swizzled, std::int64_t rows, std::int64_t dim);

}  // namespace weft
