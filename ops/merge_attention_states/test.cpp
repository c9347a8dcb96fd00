// merge_attention_states: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <utility>

#include "ops/merge_attention_states/merge_attention_states.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(MergeAttentionStates, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("merge_attention_states a=bf16[1,4,2,8] lse_a=fp32[1,2,4] b=fp16[1,4,2,8] "
                          "lse_b=fp32[1,2,4] out=bf16[1,4,2,8]"),
                HasSubstr("merge_attention_states.b: expected a's dtype"));
    EXPECT_THAT(rejection("merge_attention_states a=bf16[1,4,2,8] lse_a=fp32[1,4,2] b=bf16[1,4,2,8] "
                          "lse_b=fp32[1,2,4] out=bf16[1,4,2,8]"),
                HasSubstr("merge_attention_states.lse_a: expected [batch=1, heads=2, tokens=4]"));
}

// Output and lse of four tokens.
std::pair<HostTensor, HostTensor> merged(HostTensor& a, HostTensor& lse_a, HostTensor& b, HostTensor& lse_b,
                                         std::int64_t dim, Device device) {
    HostTensor out(DType::fp32, {1, 4, 1, dim}), lse(DType::fp32, {1, 1, 4});
    run(MergeAttentionStates{.a = a.on(device),
                             .lse_a = lse_a.on(device),
                             .b = b.on(device),
                             .lse_b = lse_b.on(device),
                             .out = out.on(device),
                             .lse = lse.on(device)});
    return {std::move(out), std::move(lse)};
}

TEST(MergeAttentionStates, StatesWithoutKeysDoNotCount) {
    constexpr double kRubbish = std::numeric_limits<double>::quiet_NaN();
    for (const Device device : test::host_devices()) {
        HostTensor a(DType::fp32, {1, 4, 1, 2}, {kRubbish, kRubbish, 3, 4, kRubbish, kInfinity, 5, 6});
        HostTensor b(DType::fp32, {1, 4, 1, 2}, {1, 2, kRubbish, kRubbish, kRubbish, kRubbish, 7, 8});
        HostTensor lse_a(DType::fp32, {1, 1, 4}, {-kInfinity, 0.5, -kInfinity, 2});
        HostTensor lse_b(DType::fp32, {1, 1, 4}, {0.25, kInfinity, -kInfinity, 2});
        const auto [out, lse] = merged(a, lse_a, b, lse_b, 2, device);
        const double expected[] = {1, 2, 3, 4, 0, 0, 6, 7};
        for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], expected[i]) << i;
        EXPECT_EQ(lse[0], 0.25);
        EXPECT_EQ(lse[1], 0.5);
        EXPECT_EQ(lse[2], -kInfinity);
        EXPECT_NEAR(lse[3], 2 + std::log(2.0), 1e-6);
    }
}

// Also beside a state without keys, which has no say.
TEST(MergeAttentionStates, NanOfEitherStateStays) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    for (const Device device : test::host_devices()) {
        HostTensor a(DType::fp32, {1, 4, 1, 1}, {1, 2, 3, 4}), b(DType::fp32, {1, 4, 1, 1}, {5, 6, 7, 8});
        HostTensor lse_a(DType::fp32, {1, 1, 4}, {kNan, -kInfinity, kNan, 0.5});
        HostTensor lse_b(DType::fp32, {1, 1, 4}, {-kInfinity, kNan, 0.5, kNan});
        const auto [out, lse] = merged(a, lse_a, b, lse_b, 1, device);
        for (int i = 0; i < 4; ++i) {
            EXPECT_TRUE(std::isnan(out[i])) << i << " on " << name(device.type);
            EXPECT_TRUE(std::isnan(lse[i])) << i << " on " << name(device.type);
        }
    }
}

}  // namespace
}  // namespace weft
