// An op of which a test says what it computes, what the reference says of that, and what it costs.
#pragma once

#include <gmock/gmock.h>

#include <functional>

#include "core/elements.h"
#include "verify/comparison.h"
#include "weft/op.h"

namespace weft::test {

struct Judged {
    static constexpr std::string_view kName = "judged";
    Tensor x{}, table{}, packed{}, out{}, kept{}, some{};

    static inline double flops_of_a_call = 0;
    static inline std::function<void(const Judged&, Oracle&)> says;
    static inline std::function<void(const Judged&)> does;

    static const Contract& contract() {
        using Op = Judged;
        static const Contract c = Describe<Op>(std::string(kName), "out = what a test says")
                                      .in("x", &Op::x, "... dim", kFloat, "the rows")
                                      .layout(Layout::strided)
                                      .in("table", &Op::table, "size", kFloat, "whole in every part")
                                      .optional()
                                      .in("packed", &Op::packed, "... dim", DType::fp4_e2m1, "pairs")
                                      .optional()
                                      .layout(Layout::dense)
                                      .out("out", &Op::out, "... dim", kFloat | kFp8, "the result")
                                      .layout(Layout::strided)
                                      .in_place_of("x")
                                      .inout("kept", &Op::kept, "... dim", DType::fp32, "read and written")
                                      .optional()
                                      .out("some", &Op::some, "... dim", DType::fp32, "written in part")
                                      .optional()
                                      .partial()
                                      .flops(+[](const Op&) { return flops_of_a_call; })
                                      .independent({"..."})
                                      .tolerance("as said")
                                      .source("nothing");
        return c;
    }
};

inline void reference(const Judged& op, Oracle& oracle) {
    if (Judged::says) return Judged::says(op, oracle);
    for_each_offset(op.out, [&](std::int64_t i) { oracle.store(op.out, i, 0); });
}
inline const RegisterReference<Judged> kReference{reference};
inline const RegisterImplementations<Judged> kList{
    DeviceType::cpu,
    {{"doing", +[](const Judged&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Judged&, const DeviceInfo&) { return std::string(); },
      +[](const Judged& op, Context&) {
          if (Judged::does) return Judged::does(op);
          for_each_offset(op.out, [&](std::int64_t i) { store_element(op.out.dtype, op.out.data, i, 0); });
      }}}};

struct ComparisonTest : testing::Test {
    ~ComparisonTest() override {
        Judged::says = nullptr, Judged::does = nullptr, Judged::flops_of_a_call = 0;
    }
};

}  // namespace weft::test
