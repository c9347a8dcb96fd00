// concat_pad: what generated cases don't say.
#include <gmock/gmock.h>

#include "ops/concat_pad/concat_pad.h"
#include "tests/ops/emulated.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::configuration;
using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(ConcatPad, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("concat_pad x=bf16[1,4,2,3,5] out=bf16[1,4,3,3,5] front=2"),
                HasSubstr("concat_pad.out: expected [batch=1, channels=4, front+cache_frames+frames=4"));
    EXPECT_THAT(rejection("concat_pad x=bf16[1,4,2,3,5] cache=fp16[1,4,2,3,5] out=bf16[1,4,4,3,5]"),
                HasSubstr("concat_pad.cache: expected x's dtype"));
}

TEST(ConcatPad, ChannelsLastIsTheSameThroughOtherStrides) {
    constexpr std::int64_t kChannels = 16, kFrames = 2, kHeight = 3, kWidth = 5, kOut = kChannels * 4 * 5 * 6;
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::bf16, {1, kChannels, kFrames, kHeight, kWidth}),
            last(DType::bf16, {kFrames, kHeight, kWidth, kChannels}),
            out(DType::bf16, {1, kChannels, 4, 5, 6}), out_last(DType::bf16, {4, 5, 6, kChannels});
        constexpr std::int64_t kFrame = kFrames * kHeight * kWidth;
        for (std::int64_t c = 0; c < kChannels; ++c) {
            for (std::int64_t i = 0; i < kFrame; ++i) {
                x.set(c * kFrame + i, static_cast<double>(c * 10 + i % 8 + 1));
                last.set(i * kChannels + c, static_cast<double>(c * 10 + i % 8 + 1));
            }
        }
        const auto view = [&](HostTensor& t, std::int64_t f, std::int64_t h, std::int64_t w) {
            const std::int64_t shape[] = {1, kChannels, f, h, w};
            const std::int64_t stride[] = {f * h * w * kChannels, 1, h * w * kChannels, w * kChannels,
                                           kChannels};
            return Tensor(t.on(device).data, DType::bf16, shape, stride, device);
        };
        ConcatPad op{.x = x.on(device), .out = out.on(device), .front = 2, .top = 1, .bottom = 1, .right = 1};
        run(op);
        op.x = view(last, kFrames, kHeight, kWidth);
        op.out = view(out_last, 4, 5, 6);
        run(op);
        for (std::int64_t c = 0; c < kChannels; ++c) {
            for (std::int64_t i = 0; i < kOut / kChannels; ++i)
                ASSERT_EQ(out[c * (kOut / kChannels) + i], out_last[i * kChannels + c]);
        }
        EXPECT_EQ(out[2 * 30 + 6], x[0]);
        EXPECT_EQ(out[0], 0);
    }
}

TEST(ConcatPad, PolicyMovesChannelsLastByWholeVectors) {
    if (configuration("concat_pad x=bf16[1,4,2,3,5] out=bf16[1,4,2,3,5]").empty())
        GTEST_SKIP() << "no kernels";
    EXPECT_THAT(
        configuration("concat_pad x=bf16[1,96,4,60,104]{2396160,1,599040,9984,96} "
                      "out=bf16[1,96,4,62,106]{2523648,1,630912,10176,96} top=1 bottom=1 left=1 right=1"),
        HasSubstr("words of 16"));
    EXPECT_THAT(configuration(
                    "concat_pad x=bf16[1,96,4,60,104] out=bf16[1,96,4,62,106] top=1 bottom=1 left=1 right=1"),
                HasSubstr("units of 4 of elements of 2"));
    EXPECT_THAT(
        configuration("concat_pad x=bf16[1,96,4,60,5] out=bf16[1,96,4,62,7] top=1 bottom=1 left=1 right=1"),
        HasSubstr("words of 2,"));
}

#if WEFT_HAS_EMULATOR
// Units of out that are put together from rows of x, of the cache and of zeros: rows that begin at every place of a unit,
// ends of two of them in one, sources at odd addresses, an end that is no whole unit, several blocks; elements of each size.
TEST(ConcatPad, UnitsOfElements) {
    for (const char* call :
         {"x=bf16[1,3,2,5,31] cache=bf16[1,3,1,5,31] out=bf16[1,3,4,8,33] front=1 top=1 bottom=2 left=1 "
          "right=1",
          "x=bf16[2,3,4,9,70]+1 out=bf16[2,3,4,9,71] right=1",
          "x=fp32[1,2,3,4,60] cache=fp32[1,2,2,4,60] out=fp32[1,2,5,5,65] top=1 left=3 right=2",
          "x=fp8_e4m3[1,2,3,4,45] out=fp8_e4m3[1,2,3,4,51] left=4 right=2",
          "x=fp8_e5m2[1,2,3,4,45]+1 cache=fp8_e5m2[1,2,1,4,45] out=fp8_e5m2[1,2,4,4,45]",
          "x=bf16[1,40,4,9,64]{40960,1024,256,28,1} out=bf16[1,40,4,9,97] left=33"}) {
        test::expect_right("concat_pad " + std::string(call), "words", "units of 4 of elements");
    }
}
#endif

}  // namespace
}  // namespace weft
