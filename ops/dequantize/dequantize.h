// fp8 back to real numbers.
#pragma once

#include <optional>

#include "weft/contract.h"

namespace weft {

// out = x · scale in fp32, rounded once. `scale` is one for the tensor, `token_scale` one a row; without
// either the scale is 1: a cast, exact in every output dtype but for fp16's smaller range.
struct Dequantize {
    static constexpr std::string_view kName = "dequantize";

    Tensor x{}, out{}, scale{}, token_scale{};

    static const Contract& contract();
};

inline const Contract& Dequantize::contract() {
    using Op = Dequantize;
    static const Contract contract =
        Describe<Op>(std::string(kName), "out = x · scale")
            .in("x", &Op::x, "... dim", kFp8, "the codes")
            .out("out", &Op::out, "... dim", kFloat, "the real values")
            .in("scale", &Op::scale, "1", DType::fp32, "the tensor's scale")
            .optional()
            .fill(Fill::scale())
            .in("token_scale", &Op::token_scale, "...", DType::fp32, "each row's scale")
            .optional()
            .excludes("scale")
            .layout(Layout::dense)
            .fill(Fill::scale())
            .independent({"..."})
            .tolerance("ε₃₂·|x·scale| (the fp32 product)")
            .sizes("dim", {1, 7, 16, 100, 256, 1000, 4096})
            .source("OCP 8-bit floating point");
    return contract;
}

}  // namespace weft
