// dequantize: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/dequantize/dequantize.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(Dequantize, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("dequantize x=bf16[4,8] out=bf16[4,8]"), HasSubstr("dequantize.x: expected dtype"));
    EXPECT_THAT(rejection("dequantize x=fp8_e4m3[4,8] out=int8[4,8]"),
                HasSubstr("dequantize.out: expected dtype"));
    EXPECT_THAT(rejection("dequantize x=fp8_e4m3[4,8] out=bf16[4,8] scale=fp32[1] token_scale=fp32[4]"),
                HasSubstr("dequantize.token_scale: expected scale or token_scale, got both"));
    EXPECT_THAT(rejection("dequantize x=fp8_e4m3[4,8] out=bf16[4,8] scale=fp32[2]"),
                HasSubstr("dequantize.scale: expected"));
    EXPECT_THAT(rejection("dequantize x=fp8_e4m3[4,8] out=bf16[4,9]"), HasSubstr("dequantize.out: expected"));
}

TEST(Dequantize, EveryCodeExactly) {
    for (const DType dtype : {DType::fp8_e4m3, DType::fp8_e5m2}) {
        HostTensor codes(DType::uint8, {256});
        for (int i = 0; i < 256; ++i) codes.set(i, i);
        for (const Device device : test::host_devices()) {
            Tensor x = codes.on(device);
            x.dtype = dtype;
            for (const DType to : {DType::fp32, DType::bf16, DType::fp16}) {
                HostTensor out(to, {256});
                run(Dequantize{.x = x, .out = out.on(device)});
                for (int i = 0; i < 256; ++i) {
                    const double value = decode(dtype, static_cast<std::uint64_t>(i));
                    if (std::isnan(value)) {
                        EXPECT_TRUE(std::isnan(out[i]));
                    } else {
                        EXPECT_EQ(out[i], value) << i;
                    }
                }
            }
        }
    }
}

}  // namespace
}  // namespace weft
