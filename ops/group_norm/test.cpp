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
using ::testing::Not;

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
// A warp merges a group's pieces, of which a large device has more than it has lanes, and than the loads in flight bring.
TEST(GroupNorm, MergesMorePiecesThanAWarpHasLanes) {
    const auto line = [](const std::string& tensor, const std::string& groups) {
        return "group_norm x=" + tensor + " out=" + tensor + " groups=" + groups;
    };
    const std::pair<std::string, const char*> cases[] = {
        {line("bf16[1,2048,260]{532480,1,2048}", "8"), "channels last width=8 pieces=65x4 ahead=65"},
        {line("fp32[1,2,140000]", "1"), "channels first width=8 pieces=137x256 ahead=137"}};
    for (const auto& [text, config] : cases) {
        EXPECT_THAT(configuration(text), HasSubstr(config));
        const Outcome outcome = test::verify_as(text, "h200");
        EXPECT_TRUE(outcome.passed) << text << "\n" << outcome.why;
    }
}

// Results between the moments of later sets, and behind all of them; from a set's last piece on where L2 is small.
TEST(GroupNorm, TakesTurnsOfMomentsAndResults) {
    test::expect_right("group_norm x=bf16[4,8,40960] out=@x groups=4", "moments",
                       "channels first width=8 pieces=5x2048 ahead=17");
    test::expect_right("group_norm x=bf16[4,8,65536] out=@x groups=4", "moments",
                       "channels first width=8 pieces=8x2048 ahead=20 backwards");
    test::expect_right("group_norm x=bf16[2,8,40961] out=fp32[2,8,40961] groups=4", "moments",
                       "channels first width=1 pieces=6x2048 ahead=18");
    test::expect_right("group_norm x=bf16[2,4608,40]{184320,1,4608} out=bf16[2,4608,40]{184320,1,4608}",
                       "moments", "channels last width=8 pieces=");
    test::expect_right("group_norm x=fp16[3,80,200]{16000,1,80} out=fp16[3,80,200]{16000,1,80} groups=8",
                       "moments", "channels last width=2 pieces=");
}

// Channels of one vector each: a piece has as many as there is room for, and most groups here are two.
TEST(GroupNorm, PiecesOfManyChannels) {
    test::expect_right("group_norm x=bf16[12,1100,8] weight=bf16[1100] bias=fp32[1100] out=@x groups=1",
                       "moments", "channels first width=8 pieces=2x1023 ahead=14");
}

// Of few vectors a warp has a group; of more than two a lane, a block.
TEST(GroupNorm, GroupsOfFewVectors) {
    for (const char* call :
         {"x=fp32[3,64,24] weight=fp32[64] bias=fp32[64] out=fp32[3,64,24] activation=silu groups=16",
          "x=bf16[2,64,128] out=@x groups=16", "x=fp16[5,4,8] weight=fp16[4] out=fp16[5,4,8] groups=4"})
        test::expect_right("group_norm " + std::string(call), "moments", "width=8 pieces=1 threads=32");
    EXPECT_THAT(configuration("group_norm x=bf16[2,64,136] out=bf16[2,64,136] groups=16"),
                Not(HasSubstr("threads")));
}

// Channels that lie apart by no whole vectors, or consist of none, are fetched one by one.
TEST(GroupNorm, ChannelsThatAreNoWholeVectors) {
    for (const char* x : {"bf16[1,4,12]{64,16,1}", "fp32[1,4,8]{64,12,1}"}) {
        test::expect_right("group_norm x=" + std::string(x) + " out=" + x + " groups=2", "moments",
                           "channels first width=1");
    }
}
#endif

TEST(GroupNorm, PolicyFollowsTheLayoutAndCutsLargeGroups) {
    if (configuration("group_norm x=bf16[1,32,64] out=bf16[1,32,64]").empty()) GTEST_SKIP() << "no kernels";
    EXPECT_THAT(configuration("group_norm x=fp16[1,512,1048576] out=fp16[1,512,1048576]"),
                HasSubstr("channels first width=8 pieces=1024x2048"));
    EXPECT_THAT(
        configuration("group_norm x=bf16[1,512,4096]{2097152,1,512} out=bf16[1,512,4096]{2097152,1,512}"),
        HasSubstr("channels last width=8 pieces=256x16"));
    EXPECT_THAT(configuration("group_norm x=bf16[4,512,1] out=bf16[4,512,1]"),
                HasSubstr("channels last width=8 pieces=1"));
    for (const char* line : {"group_norm x=bf16[1,32,64] weight=bf16[32]+1 bias=bf16[32]+1 out=bf16[1,32,64]",
                             "group_norm x=bf16[1,512,64]{32768,1,512} out=bf16[1,512,64]{32768,1,512}",
                             "group_norm x=bf16[1,512,64]{32768,1,512} weight=bf16[512] bias=bf16[512] "
                             "out=bf16[1,512,64]{32768,1,512}"}) {
        EXPECT_THAT(configuration(line), Not(HasSubstr("scalar"))) << "a vector of it is fetched, or none";
    }
}

}  // namespace
}  // namespace weft
