// activation: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ops/activation/activation.h"
#include "tests/ops/emulated.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;
using ::testing::Not;
using Activation = Activate::Activation;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double of(Device device, Activation activation, DType dtype, double value, float alpha = 1) {
    HostTensor x(dtype, {1}, {value}), out(dtype, {1});
    run(Activate{.x = x.on(device), .out = out.on(device), .activation = activation, .alpha = alpha});
    return out[0];
}

TEST(Activation, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("activation x=bf16[4,8] front=bf16[4,3] out=bf16[4,8]"),
                HasSubstr("activation.out: expected [...=(4), front_dim+dim=11], got [4, 8]"));
    EXPECT_THAT(rejection("activation x=bf16[4,8] out=bf16[4,11]"),
                HasSubstr("activation.out: expected [...=(4), front_dim+dim=8], got [4, 11]"));
    for (const char* other : {"out=fp32[4,8]", "out=bf16[4,8] add=fp32[4,8]", "out=bf16[4,8] bias=fp32[8]"}) {
        EXPECT_THAT(rejection(std::string("activation x=bf16[4,8] rounding=eager ") + other),
                    HasSubstr("activation.rounding: expected add, bias and out of x's dtype for eager"));
    }
    EXPECT_THAT(rejection("activation x=bf16[4,8] out=bf16[4,8] activation=gelu_quick rounding=eager"),
                HasSubstr("activation.activation: expected another than gelu_quick"));
    EXPECT_THAT(rejection("activation x=bf16[4,8] out=bf16[4,8] scale=fp32[1]"),
                HasSubstr("activation.scale: expected none"));
}

// A GELU that forms (e^2u − 1)/(e^2u + 1) in half precision is NaN from about 4 on, and one that clamps its argument to
// the range of e^x is wrong beyond it: what public kernels for teaching do.
TEST(Activation, GeluOfLargeHalvesIsTheArgumentItself) {
    for (const Device device : test::host_devices()) {
        for (const double x : {4.03125, 11.0, 20.0, 100.0, 60000.0}) {
            for (const auto gelu : {Activation::gelu_tanh, Activation::gelu_erf, Activation::gelu_quick}) {
                EXPECT_NEAR(of(device, gelu, DType::fp16, x), x, x * 0x1p-9) << x;
                EXPECT_NEAR(of(device, gelu, DType::fp16, -x), 0, 0.01) << x;
            }
            EXPECT_EQ(of(device, Activation::silu, DType::fp32, x * 1000), x * 1000);
        }
    }
}

TEST(Activation, NanStaysAndInfinityHasItsLimit) {
    for (const Device device : test::host_devices()) {
        for (int i = 0; i <= static_cast<int>(Activation::hardshrink); ++i) {
            const auto act = static_cast<Activation>(i);
            EXPECT_TRUE(std::isnan(of(device, act, DType::bf16, std::nan("")))) << i;
        }
        EXPECT_EQ(of(device, Activation::sigmoid, DType::fp32, -kInfinity), 0);
        EXPECT_EQ(of(device, Activation::sigmoid, DType::fp32, kInfinity), 1);
        EXPECT_EQ(of(device, Activation::tanh, DType::fp32, -kInfinity), -1);
        EXPECT_EQ(of(device, Activation::elu, DType::fp32, -kInfinity, 0.5f), -0.5);
        EXPECT_EQ(of(device, Activation::hardswish, DType::fp32, -kInfinity), 0);
        EXPECT_EQ(of(device, Activation::relu2, DType::fp32, kInfinity), kInfinity);
        EXPECT_EQ(of(device, Activation::hardshrink, DType::fp32, 0.5, 0.5f), 0);
        EXPECT_EQ(of(device, Activation::hardshrink, DType::fp32, -0.75, 0.5f), -0.75);
    }
}

TEST(Activation, EagerRoundsTheSumAndFusedDoesNot) {
    // 1 + 2^-8 is a tie in bf16 that rounds to 1; with 2^-8 more it is 1 + 2^-7.
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::bf16, {1}, {1}), add(DType::bf16, {1}, {0x1p-8}),
            bias(DType::bf16, {1}, {0x1p-8});
        for (const auto rounding : {Rounding::fused, Rounding::eager}) {
            HostTensor out(DType::bf16, {1});
            run(Activate{.x = x.on(device),
                         .add = add.on(device),
                         .bias = bias.on(device),
                         .out = out.on(device),
                         .activation = Activation::relu,
                         .rounding = rounding});
            EXPECT_EQ(out[0], rounding == Rounding::eager ? 1 : 1.0078125);
        }
    }
}

TEST(Activation, FrontIsCopiedBesideTheResults) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::fp16, {2, 3}, {-1, 2, 3, 4, -5, 6}), front(DType::fp16, {2, 2}, {-7, 8, 9, -10}),
            out(DType::fp16, {2, 5});
        run(Activate{.x = x.on(device),
                     .front = front.on(device),
                     .out = out.on(device),
                     .activation = Activation::relu});
        const double expected[] = {-7, 8, 0, 2, 3, 9, -10, 4, 0, 6};
        for (int i = 0; i < 10; ++i) EXPECT_EQ(out[i], expected[i]) << i;
    }
}

// What the kernels of whole vectors know, and what they do not: a configuration names the size of pieces there.
TEST(Activation, KnowsTheDtypesOfMostCalls) {
    const std::string call = "activation x=bf16[100,72] ";
    if (test::configuration(call + "out=bf16[100,72]").empty()) GTEST_SKIP() << "no kernels";
    for (const char* known : {"bias=bf16[72] out=bf16[100,72]", "bias=fp32[72] out=bf16[100,72]",
                              "bias=fp32[72] out=fp32[100,72]", "bias=bf16[72] out=fp8_e5m2[100,72]",
                              "bias=bf16[72] front=bf16[100,8] out=fp32[100,80]"}) {
        EXPECT_THAT(test::configuration(call + known), Not(HasSubstr("pieces"))) << known;
    }
    for (const char* other : {"bias=fp16[72] out=bf16[100,72]", "add=fp32[100,72] out=bf16[100,72]",
                              "out=fp8_e5m2[100,72] activation=tanh"})
        EXPECT_THAT(test::configuration(call + other), HasSubstr("pieces=8")) << other;
}

TEST(Activation, SaysHowWhatGoesInFrontIsLaunched) {
    const std::string plain = test::configuration("activation x=bf16[100,32] out=bf16[100,32]");
    if (plain.empty()) GTEST_SKIP() << "no kernels";
    EXPECT_EQ(plain, "vectors: threads=64 lanes=32 grid=13x1");
    EXPECT_EQ(test::configuration("activation x=bf16[100,32] front=bf16[100,16] out=bf16[100,48]"),
              "vectors: threads=64 lanes=4 grid=1x7, front 1");
    // Those of the two say how many threads share a row that have more of them.
    EXPECT_EQ(test::configuration("activation x=bf16[1000,96] front=bf16[1000,1000] out=bf16[1000,1096]"),
              "vectors: threads=256 lanes=128 grid=1x500, front 1");
    // In pieces, each has threads of its own.
    EXPECT_EQ(test::configuration("activation x=bf16[100,3] front=bf16[100,1000] out=bf16[100,1003]"),
              "vectors: threads=64 lanes=16 grid=9x25 pieces=1, front in them");
}

#if WEFT_HAS_EMULATOR
// What goes in front of rows in pieces: of all sizes, of another dtype, as codes; one and two vectors' worth a thread; a row
// alone; more of the front than of x, and less.
TEST(Activation, FrontInPieces) {
    for (const char* call :
         {"x=bf16[37,68] add=bf16[37,68] front=bf16[37,200] out=bf16[37,268]",
          "x=bf16[5,35] bias=fp32[35] front=fp32[5,3] out=fp8_e4m3[5,38] scale=fp32[1] activation=gelu_tanh",
          "x=fp16[200,130] front=fp16[200,70]{74,1} out=fp16[200,200] activation=relu",
          "x=bf16[1,77] front=bf16[1,7] out=fp32[1,84] activation=silu",
          "x=bf16[40,1024] front=bf16[40,16]+1 out=bf16[40,1040]"}) {
        test::expect_right("activation " + std::string(call), "vectors", "front in them");
    }
}
#endif

}  // namespace
}  // namespace weft
