// scale_layout: what generated cases don't say.
#include "ops/scale_layout/scale_layout.h"

#include <gmock/gmock.h>

#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(ScaleLayout, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("scale_layout"), HasSubstr("scale_layout.linear: expected linear or swizzled"));
    EXPECT_THAT(rejection("scale_layout linear=fp8_e4m3[4,8]"),
                HasSubstr("scale_layout.linear: expected to_swizzled beside it"));
    EXPECT_THAT(rejection("scale_layout linear=fp8_e4m3[4,8] to_swizzled=ue8m0[128,8]"),
                HasSubstr("scale_layout.to_swizzled: expected linear's dtype"));
    EXPECT_THAT(rejection("scale_layout linear=fp8_e4m3[4,9] to_swizzled=fp8_e4m3[128,9]"),
                HasSubstr("scale_layout.to_swizzled: expected"));
    EXPECT_THAT(rejection("scale_layout linear=fp32[4,8] to_swizzled=fp32[128,8]"),
                HasSubstr("scale_layout.linear: expected dtype"));
}

// The first bytes of a tile, spelt out: 16 bytes are four groups of rows 0, 32, 64 and 96.
TEST(ScaleLayout, ATileIsFourRowsABySixteenBytes) {
    HostTensor linear(DType::uint8, {130, 5});
    for (int r = 0; r < 130; ++r) {
        for (int g = 0; g < 5; ++g) linear.set(r * 5 + g, (r + 40 * g) % 256);
    }
    for (const Device device : test::host_devices()) {
        HostTensor tiles(DType::uint8, {256, 8}), back(DType::uint8, {130, 5});
        run(ScaleLayout{.linear = linear.on(device), .to_swizzled = tiles.on(device)});
        for (int i = 0; i < 16; ++i) EXPECT_EQ(tiles[i], linear[i / 4 * 32 * 5 + i % 4]) << i;
        EXPECT_EQ(tiles[16], linear[5]);   // row 1
        EXPECT_EQ(tiles[512], linear[4]);  // the next four groups, of which there is one
        EXPECT_EQ(tiles[513], 0);
        EXPECT_EQ(tiles[1024], linear[128 * 5]);  // the next 128 rows, of which there are two
        EXPECT_EQ(tiles[1024 + 32], 0);
        run(ScaleLayout{.swizzled = tiles.on(device), .to_linear = back.on(device)});
        EXPECT_EQ(back, linear);
    }
}

TEST(ScaleLayout, PolicyCoversTheTiles) {
    const std::string config = test::configuration("scale_layout linear=ue8m0[300,40] to_swizzled=ue8m0");
    if (config.empty()) GTEST_SKIP() << "no kernels";
    EXPECT_THAT(config, HasSubstr("words: grid=2x12"));
}

}  // namespace
}  // namespace weft
