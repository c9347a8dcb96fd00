// top_k: the largest elements of each row, perhaps of its best groups alone.
#pragma once

#include <optional>
#include <string>

#include "weft/contract.h"

namespace weft {

// values[…, j] and indices[…, j]: the j-th largest of scores + bias; of equal ones the lower index comes first, NaN counts
// as the largest. `values` are the scores without the bias, which only chooses.
//
// With groups > 1 a row is that many groups of neighbours, of which the `top_groups` best take part: those whose
// `group_top` largest elements have the largest sum (equal ones: the lower group).
struct TopK {
    static constexpr std::string_view kName = "top_k";

    Tensor scores{}, bias{}, values{}, indices{};
    std::int64_t k = 1, groups = 1, top_groups = 1, group_top = 1;

    static const Contract& contract();
};

inline const Contract& TopK::contract() {
    using Op = TopK;
    static const Contract contract =
        Describe<Op>(std::string(kName),
                     "values, indices = the k largest of scores + bias, of the best groups")
            .in("scores", &Op::scores, "... n", kFloat, "what is compared")
            .in("bias", &Op::bias, "n", kFloat,
                "added where elements are compared, not to what is given back")
            .optional()
            .out("values", &Op::values, "... k", kFloat, "the scores of the chosen, the best one first")
            .like("scores")
            .out("indices", &Op::indices, "... k", kIndex, "where they are in their row")
            .option("k", &Op::k, 0, 1 << 30, "how many", {1, 2, 6, 8, 20})
            .option("groups", &Op::groups, 1, 1024, "groups of a row", {1, 1, 2, 4})
            .option("top_groups", &Op::top_groups, 1, 1024, "groups that take part", {1, 1, 2})
            .option("group_top", &Op::group_top, 1, 2, "elements whose sum is a group's score", {1, 2})
            .require(+[](const Op& op) -> std::optional<Violation> {
                const std::int64_t n = op.scores.dim(-1);
                if (n % op.groups != 0)
                    return Violation{"groups", "expected a divisor of n=" + std::to_string(n) + ", got " +
                                                   std::to_string(op.groups)};
                if (op.top_groups > op.groups)
                    return Violation{"top_groups", "expected at most groups=" + std::to_string(op.groups) +
                                                       ", got " + std::to_string(op.top_groups)};
                const std::int64_t choice = n / op.groups * op.top_groups;
                if (op.k <= choice) return {};
                return Violation{"k", "expected at most the " + std::to_string(choice) +
                                          " elements to choose from, got " + std::to_string(op.k)};
            })
            .independent({"..."})
            .tolerance("exact: scores + bias is one fp32 sum, and so is a group's score")
            .sizes("n", {1, 7, 8, 32, 60, 128, 200, 1000})
            .source(
                "torch.topk; group_limited_topk of mixtures of experts; the choice of key blocks by their "
                "means in sparse attention");
    return contract;
}

}  // namespace weft
