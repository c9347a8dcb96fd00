// channel_rms_norm: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/channel_rms_norm/channel_rms_norm.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::configuration;
using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(ChannelRmsNorm, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("channel_rms_norm x=bf16[1,12,64] weight=bf16[64] out=bf16[1,12,64]"),
                HasSubstr("channel_rms_norm.weight: expected [channels=12], got [64]"));
    EXPECT_THAT(rejection("channel_rms_norm x=bf16[1,12,64] out=bf16[1,12,63]"),
                HasSubstr("channel_rms_norm.out"));
}

TEST(ChannelRmsNorm, EpsIsAFloorOfTheLength) {
    for (const Device device : test::host_devices()) {
        // Places (3, 4) and (0, 0), channels first.
        HostTensor x(DType::fp32, {1, 2, 2}, {3, 0, 4, 0}), out(DType::fp32, {1, 2, 2});
        run(ChannelRmsNorm{.x = x.on(device), .out = out.on(device)});
        EXPECT_NEAR(out[0], 0.6 * std::sqrt(2.0), 1e-6);
        EXPECT_NEAR(out[2], 0.8 * std::sqrt(2.0), 1e-6);
        EXPECT_EQ(out[1], 0);  // not 0/0
        run(ChannelRmsNorm{.x = x.on(device), .out = out.on(device), .eps = 10});
        EXPECT_NEAR(out[0], 0.3 * std::sqrt(2.0), 1e-6);
    }
}

// A length that is given divides x, and eps has no part in it. The numbers of eager are those on which the rounding of
// each step shows: neither mode passes for the other.
TEST(ChannelRmsNorm, ALengthMayBeGiven) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::bf16, {1, 4, 1}, {1.0078125, 0, 0, 0}),
            length(DType::bf16, {1, 1, 1}, {1.0390625}), weight(DType::bf16, {4}, {1.4140625, 1, 1, 1});
        for (const auto rounding : {Rounding::fused, Rounding::eager}) {
            HostTensor out(DType::bf16, {1, 4, 1});
            run(ChannelRmsNorm{.x = x.on(device),
                               .weight = weight.on(device),
                               .length = length.on(device),
                               .out = out.on(device),
                               .eps = 100,
                               .rounding = rounding});
            EXPECT_EQ(out[0], rounding == Rounding::eager ? 2.734375 : 2.75);
            EXPECT_EQ(out[1], 0);
        }
    }
    // Without a bias nothing is added: not even 0, which would make 0 of -0.
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::bf16, {1, 2, 1}, {-0.0, 1}), length(DType::bf16, {1, 1, 1}, {1}),
            out(DType::bf16, {1, 2, 1});
        run(ChannelRmsNorm{.x = x.on(device),
                           .length = length.on(device),
                           .out = out.on(device),
                           .rounding = Rounding::eager});
        EXPECT_TRUE(out[0] == 0 && std::signbit(out[0]));
    }
    EXPECT_THAT(rejection("channel_rms_norm x=bf16[1,4,3] out=bf16[1,4,3] rounding=eager"),
                HasSubstr("channel_rms_norm.rounding: expected fused without length"));
    EXPECT_THAT(rejection("channel_rms_norm x=bf16[1,4,3] out=bf16[1,4,3] length=fp32[1,1,3] rounding=eager"),
                HasSubstr("channel_rms_norm.length: expected out's dtype with rounding=eager, got fp32"));
    EXPECT_THAT(rejection("channel_rms_norm x=fp32[1,4,3] out=bf16[1,4,3] length=bf16[1,1,3] rounding=eager"),
                HasSubstr("channel_rms_norm.x: expected out's dtype with rounding=eager, got fp32"));
}

TEST(ChannelRmsNorm, PolicyFollowsTheLayout) {
    if (configuration("channel_rms_norm x=bf16[1,8,4] out=bf16[1,8,4]").empty()) GTEST_SKIP() << "no kernels";
    EXPECT_THAT(
        configuration("channel_rms_norm x=bf16[1,96,4096]{393216,1,96} out=bf16[1,96,4096]{393216,1,96}"),
        HasSubstr("channels_last: lanes=4 a place, blocks=64 whole vectors"));
    EXPECT_THAT(
        configuration("channel_rms_norm x=bf16[1,96,4096]{393216,1,96} out=fp32[1,96,4096]{393216,1,96}"),
        HasSubstr("channels_last: lanes=4 a place, blocks=256 vectors"));
    EXPECT_THAT(configuration("channel_rms_norm x=bf16[1,96,4096] out=bf16[1,96,4096]"),
                HasSubstr("channels_apart: threads=256 lanes=4 a channel, blocks=128 whole vectors"));
    EXPECT_THAT(configuration("channel_rms_norm x=bf16[1,96,4096] out=fp32[1,96,4096]"),
                HasSubstr("channels_apart: a thread a place, blocks=64"));
}

}  // namespace
}  // namespace weft
