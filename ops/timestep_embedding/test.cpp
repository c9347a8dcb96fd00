// timestep_embedding: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/timestep_embedding/timestep_embedding.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(TimestepEmbedding, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("timestep_embedding t=fp32[4] out=fp32[4,64] dim=32"),
                HasSubstr("timestep_embedding.out: expected [batch=4, dim=32], got [4, 64]"));
    EXPECT_THAT(rejection("timestep_embedding t=fp32[4] out=fp32[4,2] dim=2 downscale=1"),
                HasSubstr("timestep_embedding.downscale: expected less than half of dim=2"));
}

TEST(TimestepEmbedding, OrderDownscaleAndOddWidth) {
    for (const Device device : test::host_devices()) {
        HostTensor t(DType::int64, {2}, {0, 3}), sines(DType::fp32, {2, 5}), cosines(DType::fp32, {2, 5});
        run(TimestepEmbedding{.t = t.on(device), .out = sines.on(device), .dim = 5, .downscale = 1});
        run(TimestepEmbedding{
            .t = t.on(device), .out = cosines.on(device), .dim = 5, .downscale = 1, .cos_first = true});
        EXPECT_EQ(sines[0], 0);
        EXPECT_EQ(sines[2], 1);
        EXPECT_NEAR(sines[5], std::sin(3.0), 1e-6);
        EXPECT_NEAR(sines[6], std::sin(3e-4), 1e-9);  // the last wavelength is the longest: half − 1 below it
        EXPECT_NEAR(sines[7], std::cos(3.0), 1e-6);
        EXPECT_EQ(sines[9], 0);
        for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(sines[5 + i], cosines[7 + i]);
            EXPECT_EQ(sines[7 + i], cosines[5 + i]);
        }
    }
}

}  // namespace
}  // namespace weft
