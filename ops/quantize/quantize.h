// Real numbers to fp8, with one scale a tensor or one a token.
#pragma once

#include "weft/contract.h"

namespace weft {

// out = x / scale, rounded to nearest even and saturated; NaN stays NaN. `1/scale` is computed in fp32.
//
// The field that is present says where the scale comes from:
//   scale         one for the tensor, read (static quantisation)
//   tensor_scale  one for the tensor, written: amax / max (dynamic quantisation)
//   token_scale   one a row, written: the row's amax / max
// Without any of the three the scale is 1: a cast.
// A written scale is 1 where the amax is 0, and at least 2⁻¹²⁶, so that its reciprocal is finite. NaN does
// not count towards the amax, and stays NaN in its own code. Nothing waits for the host, so a captured graph
// quantises whatever it finds when it is replayed.
struct Quantize {
    static constexpr std::string_view kName = "quantize";

    Tensor x{}, out{}, scale{}, tensor_scale{}, token_scale{};

    static const Contract& contract();
};

inline const Contract& Quantize::contract() {
    using Op = Quantize;
    static const Contract contract =
        Describe<Op>(std::string(kName), "out = saturate(x / scale)")
            .in("x", &Op::x, "... dim", kFloat, "what to quantise")
            .out("out", &Op::out, "... dim", kFp8, "the codes; times the scale they are x again")
            .in("scale", &Op::scale, "1", DType::fp32, "the tensor's scale, given")
            .optional()
            .fill(Fill::scale())
            .out("tensor_scale", &Op::tensor_scale, "1", DType::fp32, "the tensor's scale, found: amax / max")
            .optional()
            .excludes("scale")
            .out("token_scale", &Op::token_scale, "...", DType::fp32, "each row's scale, found: amax / max")
            .optional()
            .excludes("scale")
            .excludes("tensor_scale")
            .layout(Layout::dense)
            .independent({"..."})
            .tolerance("written scales: ε₃₂·scale; codes: the rounding of x/scale ± 3·ε₃₂·|x/scale|")
            .sizes("dim", {1, 7, 16, 100, 256, 1000, 4096, 16500})
            .source(
                "OCP 8-bit floating point; quantize_fp8*, cast_fp16_fp8, scaled_fp8_quant, "
                "dynamic_per_token_scaled_fp8_quant");
    return contract;
}

}  // namespace weft
