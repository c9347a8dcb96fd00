// softmax: rows to weights that sum to 1.
#pragma once

#include "weft/contract.h"

namespace weft {

// out = exp(scale·x − max) / Σ exp(scale·x − max), over the last axis; max is the row's largest scale·x.
//
// A row whose logits are all −∞ has no key to attend to and gives zeros. NaN, and +∞, make the whole row NaN.
struct Softmax {
    static constexpr std::string_view kName = "softmax";

    Tensor x, out;
    float scale = 1.0f;

    static const Contract& contract();
};

inline const Contract& Softmax::contract() {
    using Op = Softmax;
    static const Contract contract =
        Describe<Op>(std::string(kName), "out = exp(scale·x - max) / sum(exp(scale·x - max))")
            .in("x", &Op::x, "... dim", kFloat, "logits")
            .layout(Layout::inner)
            .fill(Fill::normal(0, 4))
            .out("out", &Op::out, "... dim", kFloat, "weights")
            .layout(Layout::inner)
            .in_place_of("x")
            .option("scale", &Op::scale, -65536.0f, 65536.0f, "multiplies the logits", {1, 0.125, -0.5})
            .flops(+[](const Op& op) { return 6.0 * static_cast<double>(op.x.numel()); })
            .independent({"..."})
            .tolerance(
                "y·ε₃₂·(k + 4·t + 4·T) + 2⁻¹²⁵, t = |scale·x − max| the element's exponent, T its mean over "
                "the row "
                "weighted by y, k = 150 + dim/256: what an approximate exponential (4·ε₃₂ each), the "
                "additions of "
                "the sum in and between threads, each of which may rescale, and the last two roundings may "
                "err")
            .sizes("dim", {1, 2, 7, 8, 31, 64, 100, 256, 968, 1000, 2048, 3001, 4096, 8200})
            .source("softmax, online softmax (arXiv:1805.02867); torch.softmax(x * scale, -1)");
    return contract;
}

}  // namespace weft
