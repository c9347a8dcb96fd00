// merge_attention_states: two partial attention results as one.
#pragma once

#include <optional>

#include "weft/contract.h"

namespace weft {

// Of two sets of keys, a and b, each with its output and the logarithm of the sum of its exponentials:
//
//   out = (e^lse_a · a + e^lse_b · b) / (e^lse_a + e^lse_b),   lse = ln(e^lse_a + e^lse_b)
//
// A state without keys has lse −∞; +∞ counts as that. Its values are not used, whatever they are. Two such states give
// zeros and −∞.
struct MergeAttentionStates {
    static constexpr std::string_view kName = "merge_attention_states";

    Tensor a{}, lse_a{}, b{}, lse_b{}, out{}, lse{};

    static const Contract& contract();
};

inline const Contract& MergeAttentionStates::contract() {
    using Op = MergeAttentionStates;
    static const Contract contract =
        Describe<Op>(std::string(kName), "out = (e^lse_a · a + e^lse_b · b) / (e^lse_a + e^lse_b)")
            .in("a", &Op::a, "batch tokens heads head_dim", kFloat, "one state's output")
            .in("lse_a", &Op::lse_a, "batch heads tokens", DType::fp32, "its log-sum-exp")
            .layout(Layout::strided)
            .fill(Fill::normal(0, 3))
            .in("b", &Op::b, "batch tokens heads head_dim", kFloat, "the other state's output")
            .like("a")
            .in("lse_b", &Op::lse_b, "batch heads tokens", DType::fp32, "its log-sum-exp")
            .layout(Layout::strided)
            .fill(Fill::normal(0, 3))
            .out("out", &Op::out, "batch tokens heads head_dim", kFloat, "the output over both sets of keys")
            .in_place_of("a")
            .in_place_of("b")
            .out("lse", &Op::lse, "batch heads tokens", DType::fp32, "its log-sum-exp")
            .optional()
            .layout(Layout::strided)
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (!op.lse || op.a.dim(-1) > 0) return {};
                return Violation{"lse", "expected heads of at least one element beside it, got none"};
            })
            .flops(+[](const Op& op) { return 3.0 * static_cast<double>(op.out.numel()); })
            .independent({"batch", "tokens", "heads"})
            .tolerance("(12 + |lse_a − lse_b|)·ε₃₂·(|p_a·a| + |p_b·b|), p the weights; lse: ε₃₂·(|lse| + 10)")
            .sizes("batch", {1, 1, 2})
            .sizes("tokens", {1, 3, 16, 33})
            .sizes("heads", {1, 2, 5, 16})
            .sizes("head_dim", {1, 7, 32, 64, 100, 128, 256})
            .source("merge_attn_states of vLLM and teaching libraries; merge_state of FlashInfer");
    return contract;
}

}  // namespace weft
