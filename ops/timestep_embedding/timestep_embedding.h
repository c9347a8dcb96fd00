// timestep_embedding: sines and cosines of a number at many wavelengths.
#pragma once

#include <optional>
#include <string>

#include "weft/contract.h"

namespace weft {

// Row b is [sin θ, cos θ], θ_i = scale · t[b] · e^(−ln(max_period) · i / (half − downscale)), half = ⌊dim/2⌋; an odd
// dim's last column is 0. The fp32 operations are those of PyTorch's eager chain on a GPU, in its order.
struct TimestepEmbedding {
    static constexpr std::string_view kName = "timestep_embedding";

    Tensor t{}, out{};
    std::int64_t dim = 256;
    float scale = 1, max_period = 10000, downscale = 0;
    bool cos_first = false;

    static const Contract& contract();
};

inline const Contract& TimestepEmbedding::contract() {
    using Op = TimestepEmbedding;
    static const Contract contract =
        Describe<Op>(std::string(kName),
                     "out = [sin θ, cos θ], θ_i = scale · t · max_period^(−i / (half − downscale))")
            .in("t", &Op::t, "batch", kFloat | kIndex, "the numbers")
            .layout(Layout::strided)
            .fill(Fill::uniform(0, 1000))
            .out("out", &Op::out, "batch dim", kFloat, "one row a number")
            .option("dim", &Op::dim, 0, 1 << 24, "columns of out", {1, 2, 7, 32, 64, 256, 257, 1024})
            .option("scale", &Op::scale, -1e6, 1e6, "multiplies every angle", {1, 1000})
            .option("max_period", &Op::max_period, 1, 1e12, "the longest wavelength, over 2π", {10000, 1e4})
            .option("downscale", &Op::downscale, -1e6, 1e6, "taken from the number of wavelengths", {0, 1})
            .option("cos_first", &Op::cos_first, "cosines before sines")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.dim < 2 || static_cast<double>(op.dim / 2) > static_cast<double>(op.downscale))
                    return {};
                return Violation{"downscale", "expected less than half of dim=" + std::to_string(op.dim) +
                                                  ", got " + std::to_string(op.downscale)};
            })
            .flops(+[](const Op& op) { return 30.0 * static_cast<double>(op.out.numel()); })
            .independent({"batch"})
            .tolerance("ε₃₂·((10 + 5·|ln(max_period)·i/(half − downscale)|)·|θ| + 4)")
            .sizes("batch", {1, 2, 5, 33, 129})
            .source("get_timestep_embedding of diffusers; timestep_embedding of SGLang's diffusion kernels");
    return contract;
}

}  // namespace weft
