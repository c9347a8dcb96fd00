// The largest magnitude, kept over many calls: what calibration of static scales reads.
#pragma once

#include "weft/contract.h"

namespace weft {

// amax = max(amax, max |x|), in place, so that one pass over a model's activations, and then over many
// inputs, leaves each tensor's range. Exact. Set `amax` to 0 before the first call (a negative value counts
// as 0); NaN in x gives NaN. An empty x leaves it as it is.
struct Amax {
    static constexpr std::string_view kName = "amax";

    Tensor x{}, amax{};

    static const Contract& contract();
};

inline const Contract& Amax::contract() {
    using Op = Amax;
    static const Contract contract = Describe<Op>(std::string(kName), "amax = max(amax, max |x|)")
                                         .in("x", &Op::x, "... dim", kFloat, "any activation")
                                         .inout("amax", &Op::amax, "1", DType::fp32, "the running maximum")
                                         .fill(Fill::uniform(0, 2))
                                         .tolerance("exact")
                                         .sizes("dim", {1, 7, 16, 100, 256, 1000, 4096})
                                         .source("calibration of static fp8 scales; absmax reductions");
    return contract;
}

}  // namespace weft
