// gemm by OpenBLAS: problems of several panels, and operands that it takes as they lie.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "ops/gemm/gemm.h"
#include "ops/gemm/openblas_library.h"
#include "verify/trial.h"
#include "verify/verify.h"
#include "weft/op.h"

namespace weft {
namespace {

void expect_right(const std::string& operands, Values values = Values::usual) {
    if (gemm::find_sgemm() == nullptr) GTEST_SKIP() << "libopenblas is not here";
    Case c = Case::parse("gemm " + operands);
    c.infer();
    const Outcome outcome = attempt({c, 3, values, 0, "openblas"}, kCpu);
    EXPECT_TRUE(outcome.passed) << operands << "\n  " << outcome.why;
    EXPECT_EQ(outcome.implementation, "openblas fp32 panels of 16 MiB, sgemm");
}

TEST(GemmOpenblas, IsFoundWhereItIs) {
    if (std::getenv("WEFT_OPENBLAS") != nullptr) GTEST_SKIP() << "the environment names another";
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    EXPECT_EQ(gemm::find_sgemm() != nullptr, library != nullptr);
}

TEST(GemmOpenblas, ScalesOfGroupsAndBlocks) {
    for (const char* scales : {"a_group_scale=fp32[2,5,3]{15,3,1} b_block_scale=fp32[2,3]{1,2}",
                               "a_group_scale=fp32[2,5,3] b_channel_scale=fp32[130]",
                               "a_token_scale=fp32[2,5] b_block_scale=fp32[2,3]"}) {
        expect_right(std::string("a=fp8_e4m3[2,5,300] b=fp8_e4m3[130,300] out=fp32[2,5,130] ") + scales);
    }
}

// In a process of its own, because a process looks once.
TEST(GemmOpenblas, SaysThatItIsNotThere) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const char* before = std::getenv("WEFT_OPENBLAS");
    const std::string chosen = before != nullptr ? before : "";
    setenv("WEFT_OPENBLAS", "/nowhere/libopenblas.so", 1);
    const auto says_so = [] {
        std::array values{1.0f};
        Gemm op{};
        op.a = op.b = op.out = Tensor(values.data(), DType::fp32, {1, 1});
        const auto verdicts = explain(*find_op("gemm"), &op, device_info(kCpu));
        return verdicts.front().reason.find("libopenblas.so.0 was not found") != std::string::npos;
    };
    EXPECT_EXIT(std::_Exit(gemm::find_sgemm() == nullptr && says_so() ? 0 : 1), testing::ExitedWithCode(0),
                "");
    before != nullptr ? setenv("WEFT_OPENBLAS", chosen.c_str(), 1) : unsetenv("WEFT_OPENBLAS");
    EXPECT_EQ(says_so(), gemm::find_sgemm() == nullptr) << "of this process";
}

// Rows more than 2^31 elements apart, of memory that is there where it is touched.
TEST(GemmOpenblas, RowsFurtherApartThanItCounts) {
    if (gemm::find_sgemm() == nullptr) GTEST_SKIP() << "libopenblas is not here";
    constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 4;
    constexpr std::size_t kBytes = (kFar + 4) * sizeof(float);
    void* memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "no such address space";
    auto* a = static_cast<float*>(memory);
    a[0] = 1, a[1] = 2, a[kFar] = 3, a[kFar + 1] = 4;
    std::array b{10.0f, 100.0f};
    std::array out{0.0f, 0.0f};
    Gemm op{};
    op.a = Tensor(a, DType::fp32, std::array<std::int64_t, 2>{2, 2}, std::array<std::int64_t, 2>{kFar, 1});
    op.b = Tensor(b.data(), DType::fp32, {1, 2});
    op.out = Tensor(out.data(), DType::fp32, {2, 1});
    run(op);
    EXPECT_EQ(out, (std::array{210.0f, 430.0f}));
    munmap(memory, kBytes);
}

// Of which rounding by a carry would make a zero.
TEST(GemmOpenblas, ANanOfAllOnesStaysOne) {
    if (gemm::find_sgemm() == nullptr) GTEST_SKIP() << "libopenblas is not here";
    std::array bias{std::bit_cast<float>(0x7fffffffu)};
    std::array<std::uint16_t, 1> out{};
    Gemm op{};
    op.a = op.b = Tensor(bias.data(), DType::fp32, {1, 0});
    op.bias = Tensor(bias.data(), DType::fp32, {1});
    op.out = Tensor(out.data(), DType::bf16, {1, 1});
    run(op);
    EXPECT_TRUE(std::isnan(decode(DType::bf16, out[0]))) << out[0];
}

TEST(GemmOpenblas, RoundsToNearestEven) {
    if (gemm::find_sgemm() == nullptr) GTEST_SKIP() << "libopenblas is not here";
    const auto number = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
    std::array bias{number(0x3f808000), number(0x3f818000), number(0x3f808001), number(0x3f817fff),
                    number(0x3f818001), number(0x3f800001), number(0xbf818000), number(0x3fffffff)};
    std::array<std::uint16_t, 8> out{};
    Gemm op{};
    op.a = Tensor(bias.data(), DType::fp32, {1, 0});
    op.b = Tensor(bias.data(), DType::fp32, {8, 0});
    op.bias = Tensor(bias.data(), DType::fp32, {8});
    op.out = Tensor(out.data(), DType::bf16, {1, 8});
    run(op);
    EXPECT_THAT(out, testing::ElementsAre(0x3f80, 0x3f82, 0x3f81, 0x3f81, 0x3f82, 0x3f80, 0xbf82, 0x4000));
}

TEST(GemmOpenblas, WidensEveryCodeOfFp8) {
    if (gemm::find_sgemm() == nullptr) GTEST_SKIP() << "libopenblas is not here";
    for (const DType dtype : {DType::fp8_e4m3, DType::fp8_e5m2}) {
        std::array<std::uint8_t, 256> codes{};
        std::array<float, 256> out{};
        for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
        std::uint8_t one = static_cast<std::uint8_t>(encode(dtype, 1));
        Gemm op{};
        op.a = Tensor(codes.data(), dtype, {256, 1});
        op.b = Tensor(&one, dtype, {1, 1});
        op.out = Tensor(out.data(), DType::fp32, {256, 1});
        run(op);
        for (std::size_t i = 0; i < codes.size(); ++i) {
            const double value = decode(dtype, i);
            EXPECT_TRUE(out[i] == value || (std::isnan(out[i]) && std::isnan(value)))
                << name(dtype) << " " << i;
        }
    }
}

// A panel is 2^22 elements.
TEST(GemmOpenblas, SeveralPanelsOfEitherOperand) {
    expect_right("a=fp32[2,65536]{65600,1} b=fp32[70,65536] bias=fp32[70] out=fp32[2,70]{72,1}");
    expect_right("a=bf16[70,65536] b=bf16[2,65536]{1,2} residual=fp32[70,2] out=bf16[70,2]");
    expect_right("a=fp32[70,65536] b=fp32[2,65536] residual=fp16[70,2]{3,1} out=fp16[70,2]{4,1}");
    expect_right("a=fp32[3,2] b=fp32[2100000,2] out=bf16[3,2100000]");
}

TEST(GemmOpenblas, RowsThatOverlapOrStandStill) {
    expect_right("a=fp32[5,8]{4,1} b=fp32[3,8] out=fp32[5,3]");
    expect_right("a=fp32[5,8]{0,1} b=fp32[3,8]{0,1} out=fp32[5,3]");
    expect_right("a=fp32[5,8]{8,1} b=fp32[3,8]{9,1} out=fp32[5,3]");
    expect_right("a=fp32[1,8] b=fp32[1,8]{3,1} out=fp32[1,1]");
}

TEST(GemmOpenblas, EveryEpilogue) {
    for (const std::string activation : {"none", "gelu_tanh", "gelu_erf"}) {
        for (const std::string out : {"fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"}) {
            const std::string scale = out.starts_with("fp8") ? "out_scale=fp32[1] " : "";
            for (const Values values : {Values::usual, Values::special, Values::ties})
                expect_right(
                    "a=fp8_e4m3[9,40] b=fp8_e5m2[17,40] a_scale=fp32[1] b_scale=fp32[1] bias=bf16[17] " +
                        scale + "residual=bf16[9,17]{20,1} out=" + out + "[9,17] activation=" + activation,
                    values);
        }
    }
}

}  // namespace
}  // namespace weft
