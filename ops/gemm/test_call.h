// A call of gemm for tests that need no memory.
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "ops/gemm/gemm.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

namespace weft::test {

// use(the call of a case line without the op's name); its tensors are where nothing can be read.
template <class Use>
void with_gemm(const std::string& operands, Use use) {
    Case c = Case::parse("gemm " + operands);
    c.infer();
    c.with_call(kCuda, [&](const void* call) { use(*static_cast<const Gemm*>(call)); });
}

// What decline(call) says of the call of a case line.
template <class Decline>
std::string declines(const std::string& operands, Decline decline) {
    std::string why;
    with_gemm(operands, [&](const Gemm& op) {
        const char* said = decline(op);
        why = said == nullptr ? "takes it" : said;
    });
    return why;
}

// What one of gemm's kernels says of it on an H200.
inline std::string on_h200(const std::string& operands,
                           const char* (*decline)(const Gemm&, const DeviceInfo&)) {
    return declines(operands, [&](const Gemm& op) { return decline(op, *find_device("h200")); });
}

#if WEFT_HAS_EMULATOR
// Right by `unpacked`, on a card of one multiprocessor, which has too few tokens seldom.
inline void expect_unpacked(const std::string& operands, const std::string& config,
                            Values values = Values::usual) {
    Case c = Case::parse("gemm " + operands);
    c.infer();
    DeviceInfo info = *find_device("h200");
    info.type = DeviceType::emulator;
    info.sms = 1;
    for (const std::uint64_t order : kOrders) {
        Context context(kEmulator);
        context.set_info(info);
        const Outcome outcome = attempt(Trial{c, 7 + order, values, order, ""}, context);
        EXPECT_TRUE(outcome.passed) << operands << "\n" << outcome.why;
        EXPECT_THAT(outcome.implementation, testing::HasSubstr("unpacked")) << operands;
        EXPECT_THAT(outcome.implementation, testing::HasSubstr(config)) << operands;
    }
}
#endif

}  // namespace weft::test
