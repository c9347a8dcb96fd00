// histogram: how often each value occurs.
#pragma once

#include "weft/contract.h"

namespace weft {

// counts[v] = how many elements of x are v, for v in [0, bins); other values are an error on the CPU and not counted on
// a GPU. Counts are integers, so the order of additions does not matter. A count beyond 2³¹ − 1 wraps around.
struct Histogram {
    static constexpr std::string_view kName = "histogram";

    Tensor x{}, counts{};
    std::int64_t bins = 256;

    static const Contract& contract();
};

inline const Contract& Histogram::contract() {
    using Op = Histogram;
    static const Contract contract =
        Describe<Op>(std::string(kName), "counts[v] = number of elements of x that are v")
            .in("x", &Op::x, "... dim", kIndex | DType::uint8, "the values, each in [0, bins)")
            .fill(Fill::index("bins").outside_is_defined())
            .out("counts", &Op::counts, "bins", DType::int32, "one a value")
            .layout(Layout::dense)
            .option("bins", &Op::bins, 0, 1 << 30, "how many values there are",
                    {1, 10, 256, 256, 1000, 5000, 40000})
            .tolerance("exact")
            .sizes("dim", {1, 7, 16, 100, 256, 1000, 4096})
            .source("torch.bincount; histogram_i32 of teaching libraries");
    return contract;
}

}  // namespace weft
