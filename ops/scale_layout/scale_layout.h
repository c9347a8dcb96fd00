// The scales of groups between their two layouts.
#pragma once

#include <optional>

#include "weft/contract.h"
#include "weft/narrow.h"

namespace weft {

// Copies scales of groups from rows (`linear`: [..., groups], any strides) to the tiles of 128 rows by 4 groups that
// block-scaled matrix instructions read (`to_swizzled`), or back (`swizzled` to `to_linear`).
//
// In tiles the scale of row r and group g is byte (r/128·⌈groups/4⌉ + g/4)·512 + r%32·16 + r%128/32·4 + g%4; what a
// tile has beyond the rows and groups is written as 0, and not read. A tensor of tiles has ⌈rows/128⌉·⌈groups/4⌉·512
// bytes.
struct ScaleLayout {
    static constexpr std::string_view kName = "scale_layout";

    Tensor linear{}, swizzled{}, to_swizzled{}, to_linear{};

    static const Contract& contract();
};

inline const Contract& ScaleLayout::contract() {
    using Op = ScaleLayout;
    constexpr const char *kLinear = "... groups", *kTiles = "pad(...,128) pad(groups,4)";
    static const DTypeSet kScales{DType::fp8_e4m3, DType::ue8m0, DType::uint8};
    static const Contract contract =
        Describe<Op>(std::string(kName), "to_swizzled = tiles of linear, or to_linear = rows of swizzled")
            .in("linear", &Op::linear, kLinear, kScales, "the scales of rows")
            .optional()
            .layout(Layout::strided)
            .needs("to_swizzled")
            .in("swizzled", &Op::swizzled, kTiles, kScales, "the scales in tiles")
            .optional()
            .layout(Layout::dense)
            .needs("to_linear")
            .excludes("linear")
            .out("to_swizzled", &Op::to_swizzled, kTiles, kScales, "linear in tiles, padded by 0")
            .optional()
            .layout(Layout::dense)
            .needs("linear")
            .like("linear")
            .out("to_linear", &Op::to_linear, kLinear, kScales, "swizzled by rows, without the padding")
            .optional()
            .layout(Layout::strided)
            .needs("swizzled")
            .like("swizzled")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (!op.linear && !op.swizzled)
                    return Violation{"linear", "expected linear or swizzled, got neither"};
                const Tensor& rows = op.linear ? op.linear : op.to_linear;
                if (leading_stride(rows, 1)) return {};
                return Violation{op.linear ? "linear" : "to_linear",
                                 "the leading axes must fold into rows of one stride"};
            })
            .sizes("groups", {1, 2, 3, 4, 5, 8, 31, 32, 33, 64, 269})
            .tolerance("none: bytes are copied")
            .source(
                "reshape_linear_scales_to_sfa, sfa_size_bytes, swizzle_blockscale, "
                "nvfp4_block_scale_interleave");
    return contract;
}

}  // namespace weft
