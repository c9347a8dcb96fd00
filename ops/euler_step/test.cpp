// euler_step: what generated cases don't say.
#include <gmock/gmock.h>

#include "ops/euler_step/euler_step.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(EulerStep, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("euler_step velocity=bf16[4,8] conditional=fp16[4,8] out=bf16[4,8]"),
                HasSubstr("euler_step.conditional: expected velocity's dtype bf16"));
    EXPECT_THAT(rejection("euler_step sample=bf16[4,8] out=bf16[4,8]"),
                HasSubstr("euler_step.velocity: is required"));
    EXPECT_THAT(rejection("euler_step velocity=bf16[4,8] sample=fp32[4,7] out=fp32[4,8]"),
                HasSubstr("euler_step.sample: expected"));
}

TEST(EulerStep, ReadsAVelocityAtAnOffset) {
    for (const Device device : test::host_devices()) {
        HostTensor velocity(DType::fp16, {3, 4}, {9, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8}),
            x(DType::fp32, {2, 4});
        run(EulerStep{.sample = x.on(device),
                      .velocity = velocity.on(device).slice(0, 1, 3),
                      .out = x.on(device),
                      .step = -0.5f});
        for (int i = 0; i < 8; ++i) EXPECT_EQ(x[i], -0.5 * (i + 1));
    }
}

// 1.0078125 and its neighbours in bf16 at 1: a step of 2^-8 is a tie.
TEST(EulerStep, RoundsOnceOrAfterEachOperation) {
    for (const Device device : test::host_devices()) {
        HostTensor sample(DType::bf16, {1}, {1}), velocity(DType::bf16, {1}, {1}),
            conditional(DType::bf16, {1}, {1.0078125});
        const auto result = [&](Rounding rounding) {
            HostTensor out(DType::bf16, {1});
            run(EulerStep{.sample = sample.on(device),
                          .velocity = velocity.on(device),
                          .conditional = conditional.on(device),
                          .out = out.on(device),
                          .step = 0x1p-8f,
                          .guidance = 0.5f,
                          .rounding = rounding});
            return out[0];
        };
        // v = 1 + 2^-8, which bf16 rounds to 1: then 1 + 2^-8, a tie, is 1; unrounded it lies above the tie.
        EXPECT_EQ(result(Rounding::fused), 1.0078125);
        EXPECT_EQ(result(Rounding::eager), 1);
    }
}

}  // namespace
}  // namespace weft
