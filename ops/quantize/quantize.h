// Real numbers to fewer bits: fp8, int8, NVFP4 and the MX formats, with their scales.
#pragma once

#include "weft/families.h"

namespace weft {

// out = x · channel_multiplier / scale, rounded to nearest even and saturated. `1/scale` is computed in fp32.
//
// The field that is present says where the scale comes from:
//   scale           one for the tensor, read (static quantisation)
//   tensor_scale    one for the tensor, written: amax / max (dynamic quantisation)
//   token_scale     one a row, written: the row's amax / max
//   group_scale     one for neighbouring columns of a row, written. Its dtype says the format: fp32 for 128 columns of
//                   fp8; fp8_e4m3 for 16 columns of fp4_e2m1 (NVFP4); ue8m0 for 32 columns of fp8 or fp4_e2m1 (MXFP8,
//                   MXFP4). It may be column-major
//   swizzled_scale  the same, in the tiles of 128 rows by 4 groups that block-scaled matrix instructions read; what a
//                   tile has beyond the tensor is 0
//   block_scale     one for each 128 rows by 128 columns of fp8, written
// Without any of them the scale is 1: a cast (fp4_e2m1 has always groups).
//
// A scale in fp32 is amax / max, at least 2⁻¹²⁶, so that its reciprocal is finite, and 1 where the amax is 0. A group's
// in ue8m0 is the power of two from amax / max on, so that nothing saturates. A group's in fp8_e4m3 is amax / 6 over the
// tensor's scale, rounded to nearest; that scale is `scale`, or `tensor_scale`, which is then amax / (6 · 448), or 1.
// Where it rounds to 0 the codes are 0.
//
// NaN does not count towards the amax of fp8, and stays NaN in its own code. fp4_e2m1 and int8 have no NaN: there the
// scale that is written is NaN, and all of its codes are 0. Nothing waits for the host, so a captured graph quantises
// whatever it finds when it is replayed.
struct Quantize {
    static constexpr std::string_view kName = "quantize";

    Tensor x{}, out{}, scale{}, tensor_scale{}, token_scale{}, group_scale{}, swizzled_scale{}, block_scale{};
    Tensor channel_multiplier{};

    static const Contract& contract();
};

inline const Contract& Quantize::contract() {
    using Op = Quantize;
    static const Contract contract =
        Describe<Op>(std::string(kName), "out = saturate(x · channel_multiplier / scale)")
            .in("x", &Op::x, "... dim", kFloat, "what to quantise")
            .out("out", &Op::out, "... dim", kNarrow, "the codes; times their scales they are x again")
            .with(family::narrow_scales<Op, &Op::out>, "out", "dim", Role::out)
            .out("tensor_scale", &Op::tensor_scale, "1", DType::fp32, "the tensor's scale, found: amax / max")
            .optional()
            .excludes("scale")
            .excludes("token_scale")
            .with(family::block_scale<Op>, "out", Role::out)
            .excludes("tensor_scale")
            .with(family::channel_multiplier<Op>, "dim")
            .require(+[](const Op& op) -> std::optional<Violation> {
                const Tensor& groups = op.group_scale ? op.group_scale : op.swizzled_scale;
                if (!op.tensor_scale || !groups || groups.dtype == DType::fp8_e4m3) return {};
                return Violation{"tensor_scale",
                                 "expected none beside groups, unless their scales are fp8_e4m3 (NVFP4)"};
            })
            .independent({"..."})
            .tolerance("none: the fp32 operations are the reference's own, in its order")
            .sizes("dim", {1, 7, 16, 48, 64, 100, 256, 1000, 4096, 16500})
            .source(
                "OCP 8-bit floating point and microscaling formats, NVFP4; quantize_fp8*, cast_fp16_fp8, "
                "quantize_bf16_to_nvfp4*, quantize_fp4_dynamic*, scaled_fp8_quant, "
                "dynamic_per_token_scaled_fp8_quant, "
                "scaled_int8_quant, per_token_group_quant_8bit, scaled_fp4_quant, mxfp8_quantize");
    return contract;
}

}  // namespace weft
