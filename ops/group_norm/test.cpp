// group_norm: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/group_norm/group_norm.h"
#include "tests/ops/emulated.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::configuration;
using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(GroupNorm, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("group_norm x=bf16[1,12,64] out=bf16[1,12,64] groups=5"),
                HasSubstr("group_norm.groups: expected a divisor of channels=12, got 5"));
    EXPECT_THAT(rejection("group_norm x=bf16[1,12,64] weight=bf16[11] out=bf16[1,12,64] groups=4"),
                HasSubstr("group_norm.weight: expected [channels=12], got [11]"));
    // Of the functions that ops share a contract takes those that it lists.
    HostTensor x(DType::fp32, {1, 4, 8}), out(DType::fp32, {1, 4, 8});
    const Device cpu{};
    const GroupNorm relu{.x = x.on(cpu), .out = out.on(cpu), .groups = 2, .activation = Activation::relu};
    EXPECT_THAT([&] { run(relu); }, ::testing::ThrowsMessage<Error>(
                                        HasSubstr("group_norm.activation: expected one of none, silu")));
}

// E[x²] − mean² of numbers near 4096 that differ by 1/16 has no digit left.
TEST(GroupNorm, ALargeMeanDoesNotSwallowTheVariance) {
    constexpr std::int64_t kChannels = 8, kPlaces = 40;
    for (const Device device : test::host_devices()) {
        for (const bool last : {false, true}) {
            HostTensor x(DType::fp32, {1, kChannels, kPlaces}), out(DType::fp32, {1, kChannels, kPlaces});
            for (std::int64_t i = 0; i < kChannels * kPlaces; ++i)
                x.set(i, 4096 + (i % 2 == 0 ? 0.0625 : -0.0625));
            const std::int64_t shape[] = {1, kChannels, kPlaces},
                               stride[] = {kChannels * kPlaces, 1, kChannels};
            const auto view = [&](HostTensor& t) {
                return last ? Tensor(t.on(device).data, DType::fp32, shape, stride, device) : t.on(device);
            };
            run(GroupNorm{.x = view(x), .out = view(out), .groups = 2, .eps = 0});
            for (std::int64_t i = 0; i < kChannels * kPlaces; ++i)
                ASSERT_NEAR(out[i], i % 2 == 0 ? 1 : -1, 0.01) << i << " channels last: " << last;
        }
    }
}

#if WEFT_HAS_EMULATOR
// A warp merges a group's pieces, of which a large device has more than it has lanes.
TEST(GroupNorm, MergesMorePiecesThanAWarpHasLanes) {
    for (const char* line : {"group_norm x=bf16[1,8,1100]{8800,1,8} out=bf16[1,8,1100]{8800,1,8} groups=2",
                             "group_norm x=fp32[1,2,140000] out=fp32[1,2,140000] groups=1"}) {
        const Outcome outcome = test::verify_as(line, "h200");
        EXPECT_TRUE(outcome.passed) << line << "\n" << outcome.why;
    }
    EXPECT_THAT(configuration("group_norm x=bf16[1,8,1100]{8800,1,8} out=bf16[1,8,1100]{8800,1,8} groups=2"),
                HasSubstr("channels last pieces=65"));
    EXPECT_THAT(configuration("group_norm x=fp32[1,2,140000] out=fp32[1,2,140000] groups=1"),
                HasSubstr("channels first pieces=68"));
}
#endif

TEST(GroupNorm, PolicyFollowsTheLayoutAndCutsLargeGroups) {
    if (configuration("group_norm x=bf16[1,32,64] out=bf16[1,32,64]").empty()) GTEST_SKIP() << "no kernels";
    EXPECT_THAT(configuration("group_norm x=fp16[1,512,1048576] out=fp16[1,512,1048576]"),
                HasSubstr("channels first pieces=17"));
    EXPECT_THAT(
        configuration("group_norm x=bf16[1,512,4096]{2097152,1,512} out=bf16[1,512,4096]{2097152,1,512}"),
        HasSubstr("channels last pieces=256"));
    EXPECT_THAT(configuration("group_norm x=bf16[4,512,1] out=bf16[4,512,1]"),
                HasSubstr("channels last pieces=1"));
}

}  // namespace
}  // namespace weft
