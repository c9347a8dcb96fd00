// Fewer bits back to real numbers.
#pragma once

#include "weft/families.h"

namespace weft {

// out = x · scale in fp32, rounded once. The scale is one for the tensor, one a row (`token_scale`), one for a group of a
// row's columns (`group_scale`, or `swizzled_scale` in tiles of 128 rows by 4 groups) or one for each 128 rows by 128
// columns (`block_scale`); without any it is 1: a cast, exact in every output dtype but for fp16's smaller range. A
// group's scale in fp8_e4m3 (NVFP4) is multiplied by `scale`, where that is there, in fp32.
struct Dequantize {
    static constexpr std::string_view kName = "dequantize";

    Tensor x{}, out{}, scale{}, token_scale{}, group_scale{}, swizzled_scale{}, block_scale{};

    static const Contract& contract();
};

inline const Contract& Dequantize::contract() {
    using Op = Dequantize;
    static const Contract contract = Describe<Op>(std::string(kName), "out = x · scale")
                                         .in("x", &Op::x, "... dim", kNarrow, "the codes")
                                         .out("out", &Op::out, "... dim", kFloat, "the real values")
                                         .with(family::narrow_scales<Op, &Op::x>, "x", "dim", Role::in)
                                         .with(family::block_scale<Op>, "x", Role::in)
                                         .independent({"..."})
                                         .tolerance("ε₃₂·|x·scale| (the fp32 product)")
                                         .sizes("dim", {1, 7, 16, 48, 64, 100, 256, 1000, 4096})
                                         .source(
                                             "OCP 8-bit floating point and microscaling formats, NVFP4; "
                                             "dequantize_fp4_to_fp16, per_block_dequant");
    return contract;
}

}  // namespace weft
