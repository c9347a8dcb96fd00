// Ops that do what others do one after the other.
#include <gmock/gmock.h>

#include "ops/qk_norm_rope/qk_norm_rope.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "tests/ops/support.h"
#include "weft/op.h"

namespace weft {
namespace {

using test::HostTensor;

// In fp32, where the rounding between them is small: the norm, then the rotation.
TEST(Compositions, QkNormRopeIsTheNormAndThenTheRotation) {
    HostTensor q(DType::fp32, {5, 3, 24}), weight(DType::fp32, {24});
    for (int i = 0; i < 5 * 3 * 24; ++i) q.set(i, i * 37 % 101 / 50.0 - 1);
    for (int i = 0; i < 24; ++i) weight.set(i, i * 29 % 31 / 15.0 - 1);
    for (const Device device : test::host_devices()) {
        for (const auto pairs : {QkNormRope::Pairs::half, QkNormRope::Pairs::interleaved}) {
            HostTensor normed(DType::fp32, {5, 3, 24}), turned(DType::fp32, {5, 3, 24}),
                both(DType::fp32, {5, 3, 24});
            run(RmsNorm{.x = q.on(device),
                        .weight = weight.on(device),
                        .out = normed.on(device),
                        .eps = 1e-5f,
                        .weight_offset = 1});
            run(Rope{.x = normed.on(device),
                     .out = turned.on(device),
                     .pairs = static_cast<Rope::Pairs>(pairs),
                     .rotary_dim = 16,
                     .start = 7});
            run(QkNormRope{.q = q.on(device),
                           .q_out = both.on(device),
                           .q_weight = weight.on(device),
                           .eps = 1e-5f,
                           .weight_offset = 1,
                           .pairs = pairs,
                           .rotary_dim = 16,
                           .start = 7});
            for (int i = 0; i < 5 * 3 * 24; ++i) EXPECT_NEAR(both[i], turned[i], 1e-6) << i;
        }
    }
}

}  // namespace
}  // namespace weft
