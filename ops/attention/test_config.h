// What attention's tests ask of its policy.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "ops/attention/policy.h"
#include "tests/ops/emulated.h"
#include "verify/verify.h"
#include "weft/case.h"

namespace weft::test {

// How flash_mma cuts the call on a device that weft knows.
inline attention::Config config_of(const std::string& line, const char* device) {
    Case c = Case::parse(line);
    c.infer();
    attention::Config config;
    c.with_call(kCuda, [&](const void* call) {
        config =
            attention::choose(attention::Problem(*static_cast<const Attention*>(call)), *find_device(device));
    });
    return config;
}

// Why a kernel declines a call, or "accepts".
inline std::string reason_of(const char* (*decline)(const Attention&, const DeviceInfo&),
                             const std::string& line, const char* device) {
    Case c = Case::parse(line);
    c.infer();
    std::string why;
    c.with_call(kCuda, [&](const void* call) {
        const char* said = decline(*static_cast<const Attention*>(call), *find_device(device));
        why = said == nullptr ? "accepts" : said;
    });
    return why;
}

// flash_decode leaves calls that fill the card to another: here none does.
inline Context context_of(Device device, const std::string& implementation) {
    Context context = context_for(*find_op("attention"), device, implementation);
    if (implementation == "flash_decode") {
        static const DeviceInfo kRoomy = [&] {
            DeviceInfo info = context.info();
            info.sms = 1 << 20;
            return info;
        }();
        context.set_info(kRoomy);
    }
    return context;
}

// Where calls are tried: the CPU, and in the emulator every implementation by its name.
struct Place {
    Device device;
    std::string implementation;

    Context context() const { return context_of(device, implementation); }
};
inline std::vector<Place> places() {
#if WEFT_HAS_EMULATOR
    return {{kCpu, ""},
            {kEmulator, "flash_decode"},
            {kEmulator, "flash_wgmma"},
            {kEmulator, "flash_mma"},
            {kEmulator, "flash_wide"}};
#else
    return {{kCpu, ""}};
#endif
}

#if WEFT_HAS_EMULATOR
// The case by flash_mma, as it cuts the call on a device that weft knows: of Hopper's kernels it is not the first. With
// `sms`, on one that has so few multiprocessors.
inline Outcome verify_mma_as(const std::string& line, const char* device, Values values = Values::usual,
                             int sms = 0) {
    Case c = Case::parse(line);
    c.infer();
    DeviceInfo info = *find_device(device);
    info.type = DeviceType::emulator;
    if (sms > 0) info.sms = sms;
    Context context = context_for(c.op(), kEmulator, "flash_mma");
    context.set_info(info);
    return verify(c, context, 7, values);
}

inline void expect_mma_right(const std::string& line, const char* device, const std::string& config,
                             Values values = Values::usual, int sms = 0) {
    const Outcome outcome = verify_mma_as(line, device, values, sms);
    EXPECT_TRUE(outcome.passed) << device << ": " << line << "\n" << outcome.why;
    EXPECT_THAT(outcome.implementation, testing::HasSubstr(config)) << device << ": " << line;
}

// Right by flash_wgmma on one multiprocessor and on three, where blocks go on with other sequences.
inline void expect_right_on_few(const char* line) {
    Case c = Case::parse(line);
    c.infer();
    for (const int sms : {1, 3}) {
        if (kSeesRaces && sms > 1) break;  // a race is between threads of a block, and one shows it
        DeviceInfo info = *find_device("h200");
        info.type = DeviceType::emulator, info.sms = sms;
        Context context = context_for(c.op(), kEmulator, "flash_wgmma");
        context.set_info(info);
        const Outcome outcome = verify(c, context, 7, Values::special);
        EXPECT_TRUE(outcome.passed) << line << "\n" << outcome.why;
    }
}
#endif

}  // namespace weft::test
