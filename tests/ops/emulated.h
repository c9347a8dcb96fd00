// A kernel in the emulator by its name, for the tests of ops that have several.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <iterator>
#include <span>
#include <string>

#include "core/sanitizer.h"
#include "verify/trial.h"
#include "verify/verify.h"
#include "weft/case.h"
#include "weft/device_info.h"

#if WEFT_HAS_EMULATOR
namespace weft::test {

// A race shows in any order, and no address depends on it.
inline constexpr std::uint64_t kAllOrders[] = {2, 0, 1};
inline constexpr std::span kOrders = std::span(kAllOrders).first(kSanitized ? 1 : std::size(kAllOrders));

// The implementation is right in several orders of its threads, and says of itself what is expected.
inline void expect_right(const std::string& line, const char* implementation,
                         const testing::Matcher<const std::string&>& says, Values values = Values::usual) {
    Case c = Case::parse(line);
    c.infer();
    for (const std::uint64_t order : kOrders) {
        const Trial trial{c, 7 + order, values, order, implementation};
        const Outcome outcome = attempt(trial, kEmulator);
        EXPECT_TRUE(outcome.passed) << command(trial, kEmulator) << "\n" << outcome.why;
        EXPECT_THAT(outcome.implementation, says) << line;
    }
}
// These words among others.
inline void expect_right(const std::string& line, const char* implementation, const std::string& config,
                         Values values = Values::usual) {
    expect_right(line, implementation, testing::Matcher<const std::string&>(testing::HasSubstr(config)),
                 values);
}
inline void expect_right(const std::string& line, const char* implementation, const char* config,
                         Values values = Values::usual) {
    expect_right(line, implementation, std::string(config), values);
}

// The case by the configurations of a device: larger than the emulator's own, or with less memory. By the implementation of
// this name, or by whichever takes it.
inline Outcome verify_on(const std::string& line, DeviceInfo info, const char* implementation = "") {
    Case c = Case::parse(line);
    c.infer();
    info.type = DeviceType::emulator;
    Context context = context_for(c.op(), kEmulator, implementation);
    context.set_info(info);
    return verify(c, context, 7, Values::usual);
}
// Of a device that weft knows.
inline Outcome verify_as(const std::string& line, const char* device, const char* implementation = "") {
    return verify_on(line, *find_device(device), implementation);
}

}  // namespace weft::test
#endif
