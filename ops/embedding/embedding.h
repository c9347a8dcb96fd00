// Rows of a table by number.
#pragma once

#include <optional>

#include "weft/contract.h"

namespace weft {

// out[…, :] = table[ids[…], :] · scale, the product in fp32 and rounded once. Gemma multiplies by √width
// rounded to the activation's dtype: give that number as `scale` for equal bits. The id -1 is a row of zeros
// (padding). Any other id outside the table is an error on the CPU and a row of zeros on a device, which never reads
// outside the table.
struct Embedding {
    static constexpr std::string_view kName = "embedding";

    Tensor ids{}, table{}, out{};
    float scale = 1.0f;

    static const Contract& contract();
};

inline const Contract& Embedding::contract() {
    using Op = Embedding;
    static const Contract contract =
        Describe<Op>(std::string(kName), "out[…, :] = table[ids[…], :] · scale")
            .in("ids", &Op::ids, "...", kIndex, "row numbers; -1: a row of zeros")
            .layout(Layout::dense)
            .fill(Fill::index("vocab").or_minus_one().outside_is_defined())
            .in("table", &Op::table, "vocab dim", kFloat, "one row a token")
            .out("out", &Op::out, "... dim", kFloat, "the rows")
            .option("scale", &Op::scale, -1e30, 1e30, "what every element is multiplied by", {1, 45.25})
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.table.dim(0) > 0 || op.ids.numel() == 0) return {};
                return Violation{"table", "expected at least one row, got none"};
            })
            .work(+[](const Op& op) {
                // Each row once, as though no id came twice.
                const double elements = static_cast<double>(op.out.numel());
                return Work{.bytes = elements * (bits(op.table.dtype) + bits(op.out.dtype)) / 8 +
                                     static_cast<double>(op.ids.numel()) * bits(op.ids.dtype) / 8,
                            .flops = elements};
            })
            .independent({"..."})
            .tolerance("ε₃₂·|table·scale| (the fp32 product); exact for scale 1")
            .sizes("vocab", {1, 5, 100})
            .sizes("dim", {1, 7, 8, 64, 100, 1000, 2048})
            .source("lookup tables; torch.nn.functional.embedding with Gemma's √width");
    return contract;
}

}  // namespace weft
