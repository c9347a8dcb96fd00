// euler_step: a step of a flow, with classifier-free guidance of its velocity.
#pragma once

#include <optional>

#include "weft/contract.h"
#include "weft/rounding.h"

namespace weft {

// out = sample + step · v, v = velocity + guidance · (conditional − velocity).
//
// Without `conditional`, v is the velocity: an Euler step. With it, `velocity` is the unconditional one. Without a
// sample, out = step · v: guidance alone. A velocity that lies somewhere in a longer tensor is a view.
//
// rounding=fused computes in fp32 and rounds once. rounding=eager rounds every product and sum of v and step · v to the
// velocity's dtype, and the last sum to out's, as a chain of PyTorch's eager operators does.
struct EulerStep {
    static constexpr std::string_view kName = "euler_step";

    Tensor sample{}, velocity{}, conditional{}, out{};
    float step = 1, guidance = 1;
    Rounding rounding = Rounding::fused;

    static const Contract& contract();
};

inline const Contract& EulerStep::contract() {
    using Op = EulerStep;
    static const Contract contract =
        Describe<Op>(std::string(kName),
                     "out = sample + step · v, v = velocity + guidance · (conditional − velocity)")
            .in("velocity", &Op::velocity, "... dim", kFloat,
                "the velocity; beside conditional the other one")
            .in("sample", &Op::sample, "... dim", kFloat, "what moves; absent: 0")
            .optional()
            .in("conditional", &Op::conditional, "... dim", kFloat, "the velocity under the condition")
            .optional()
            .like("velocity")
            .out("out", &Op::out, "... dim", kFloat, "where it moves to")
            .in_place_of("sample")
            .in_place_of("velocity")
            .in_place_of("conditional")
            .option("step", &Op::step, -1e30, 1e30, "the length of the step", {1, 0.1, -0.25})
            .option("guidance", &Op::guidance, -1e30, 1e30, "the weight of the condition", {1, 4.5, 7.5})
            .option("rounding", &Op::rounding, {"fused", "eager"}, "once, or after every operation")
            .flops(+[](const Op& op) {
                return static_cast<double>(op.out.numel()) * ((op.conditional ? 3 : 0) + (op.sample ? 2 : 1));
            })
            .independent({"..."})
            .tolerance(
                "ε₃₂ of each product and sum, times what it is multiplied by later; eager: half an ulp of "
                "out")
            .sizes("dim", {1, 7, 8, 32, 100, 256, 1000, 4096})
            .source(
                "gpu_euler_step, cfg_combine_into_residual of VLA engines; flow-matching Euler schedulers "
                "and "
                "classifier-free guidance of diffusers");
    return contract;
}

}  // namespace weft
