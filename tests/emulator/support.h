// What the emulator's tests share: runs that are expected to fault, in several orders.
#pragma once

#define WEFT_EMULATOR 1

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "kit/launch.h"
#include "weft/error.h"

namespace weft::test {

#if WEFT_ASAN
inline constexpr bool kAsan = true;
#else
inline constexpr bool kAsan = false;
#endif
#if WEFT_TSAN
inline constexpr bool kTsan = true;
#else
inline constexpr bool kTsan = false;
#endif

// A test that begins with this is skipped in the other builds, which cannot see its fault.
#define ONLY_IN(build) \
    if (!(build)) GTEST_SKIP() << "needs another sanitizer build"

// Whether a kernel has its planted fault.
enum Fault { kNone, kPlanted };

struct Floats {
    float values[32];
};

struct First {
    int value;
};

// Messages that say whose kernel, block and thread it was, and what.
inline auto names(const char* kernel, const char* what) {
    using testing::HasSubstr;
    return testing::AllOf(HasSubstr(std::string("kernel '") + kernel + "', block ("), HasSubstr("thread ("),
                          HasSubstr(what));
}

inline auto races(const char* kernel) {
    return testing::AllOf(testing::HasSubstr(kernel), testing::HasSubstr("data races"));
}

// The message of the fault that `run` throws, or an empty string.
inline std::string fault_of(const std::function<void()>& run) {
    try {
        run();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::emulator_fault) << error.what();
        return error.what();
    }
    return "";
}

// Sets the order and the poison back when a test ends.
class Emulator : public testing::Test {
   protected:
    ~Emulator() override {
        emulator::set_order(0);
        emulator::set_poison(0xff);
    }
};

// Calls `run` in the natural order and in some random ones.
inline void in_several_orders(const std::function<void()>& run) {
    for (const uint64_t seed : {0, 1, 2, 77}) {
        SCOPED_TRACE("order " + std::to_string(seed));
        emulator::set_order(seed);
        run();
    }
    emulator::set_order(0);
}

// What `run` returns with either poison.
template <typename Run>
auto with_two_poisons(Run run) {
    emulator::set_poison(0xff);
    auto first = run();
    emulator::set_poison(0x2a);
    auto second = run();
    return std::pair(first, second);
}

}  // namespace weft::test
