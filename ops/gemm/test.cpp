// gemm: what generated cases don't say.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <vector>

#include "ops/gemm/policy.h"
#include "ops/gemm/tolerance.h"
#include "tests/ops/support.h"
#include "verify/fuzz.h"
#include "verify/verify.h"
#include "verify/workload.h"
#include "weft/case.h"
#include "weft/memory.h"

namespace weft {
namespace {

using gemm::MmaConfig;
using test::rejection;
using ::testing::HasSubstr;
using ::testing::StrEq;

TEST(Gemm, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("gemm b=bf16[8,16] out=bf16[4,8]"), HasSubstr("gemm.a: is required"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] out=bf16[4,8]"), HasSubstr("gemm.b: is required"));
    EXPECT_THAT(rejection("gemm a=int32[4,16] b=bf16[8,16] out=bf16[4,8]"),
                HasSubstr("gemm.a: expected dtype fp32"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=fp16[8,16] out=bf16[4,8]"),
                HasSubstr("gemm.b: expected a's dtype bf16, or fp8 both, or fp4_e2m1 or int4 beside 16 or 32 "
                          "bits, got fp16"));
    EXPECT_THAT(rejection("gemm a=fp8_e4m3[4,16] b=bf16[8,16] out=bf16[4,8]"),
                HasSubstr("gemm.b: expected a's dtype"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,15] out=bf16[4,8]"),
                HasSubstr("gemm.b: expected [n=8, k=16]"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,16] bias=bf16[9] out=bf16[4,8]"),
                HasSubstr("gemm.bias: expected [n=8]"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,16] residual=bf16[3,8] out=bf16[4,8]"),
                HasSubstr("gemm.residual"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,16] out=bf16[4,9]"), HasSubstr("gemm.out"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,16] a_scale=fp32[4] out=bf16[4,8]"),
                HasSubstr("gemm.a_scale"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,16] a_scale=bf16[1] out=bf16[4,8]"),
                HasSubstr("gemm.a_scale: expected dtype fp32"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,16] out_scale=fp32[1] out=bf16[4,8]"),
                HasSubstr("gemm.out_scale: expected none, because out is bf16"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16]{32,2} b=bf16[8,16] out=bf16[4,8]"),
                HasSubstr("gemm.a: the last axis must be contiguous"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,16] out=bf16[4,8] activation=relu"),
                HasSubstr("activation"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,16] up=fp16[8,16] out=bf16[4,8]"),
                HasSubstr("gemm.up: expected b's dtype bf16, got fp16"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,16] up=bf16[7,16] out=bf16[4,8]"),
                HasSubstr("gemm.up: expected [n=8, k=16]"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,16] up_bias=bf16[8] out=bf16[4,8]"),
                HasSubstr("gemm.up_bias: expected up beside it, got none"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,16] up_scale=fp32[1] out=bf16[4,8]"),
                HasSubstr("gemm.up_scale: expected up beside it, got none"));
}

TEST(Gemm, GatingIsTwiceTheWork) {
    const auto flops = [](const char* line) {
        double result = 0;
        Case::parse(line).with_call(kCpu,
                                    [&](const void* call) { result = Gemm::contract().work(call).flops; });
        return result;
    };
    EXPECT_EQ(flops("gemm a=bf16[4,16] b=bf16[8,16] out=bf16[4,8]"), 2 * 4 * 16 * 8);
    EXPECT_EQ(flops("gemm a=bf16[4,16] b=bf16[8,16] up=bf16[8,16] out=bf16[4,8]"), 4 * 4 * 16 * 8);
}

TEST(Gemm, RejectsMemoryThatItCanNotUse) {
    std::vector<float> memory(256);
    Gemm op{};
    op.a = Tensor(memory.data(), DType::fp32, {4, 4});
    op.b = Tensor(memory.data() + 16, DType::fp32, {4, 4});
    op.out = Tensor(memory.data() + 32, DType::fp32, {4, 4});
    const auto message = [&] {
        try {
            run(op);
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string("accepted");
    };
    EXPECT_THAT(message(), StrEq("accepted"));
    op.out.data = memory.data() + 8;
    EXPECT_THAT(message(), HasSubstr("gemm.out: must not overlap a"));
    op.out.data = nullptr;
    EXPECT_THAT(message(), HasSubstr("gemm.out: is a null pointer"));
    op.out = Tensor(memory.data() + 32, DType::fp32, {4, 4}, kEmulator);
    EXPECT_THAT(message(), HasSubstr("gemm.out: expected device cpu"));
    op.out = op.residual = Tensor(memory.data() + 32, DType::fp32, {4, 4});
    EXPECT_THAT(message(), StrEq("accepted"));
    op.residual = Tensor(memory.data() + 36, DType::fp32, {4, 4});
    EXPECT_THAT(message(), HasSubstr("gemm.out: overlaps residual"));
}

// Each line verified on the CPU and in the emulator (a GPU verifies the workloads), there by the kernel whose
// configuration is named.
void expect_right(const std::string& line, const std::string& emulated, Values values = Values::usual) {
    for (const Device device : devices_here()) {
        if (device.type == DeviceType::cuda) continue;
        const std::string implementation =
            device.type == DeviceType::emulator ? emulated.substr(0, emulated.find(' ')) : "";
        const Outcome outcome = attempt({Case::parse(line), 1, values, 0, implementation}, device);
        EXPECT_TRUE(outcome.passed) << line << "\n  " << outcome.implementation << ": " << outcome.why;
        if (device.type != DeviceType::emulator) continue;
        EXPECT_THAT(outcome.implementation, StrEq(emulated)) << line;
    }
}

#if WEFT_HAS_EMULATOR
// Copies of 16 bytes begin at multiples of 16 and at no other address, whatever else divides it.
TEST(Gemm, AnyAddressOfRowsOfWholeChunks) {
    constexpr std::int64_t kRows = 2, kDepth = 32;
    const auto code = [](double value) { return static_cast<std::uint8_t>(encode(DType::fp8_e4m3, value)); };
    std::vector<std::uint8_t> b(8 * kDepth, code(1));
    for (std::size_t offset = 0; offset < 34; ++offset) {
        std::vector<std::uint8_t> a(offset + kRows * kDepth + 34, 0x7f);  // NaN around it
        std::fill_n(a.begin() + static_cast<std::ptrdiff_t>(offset), kRows * kDepth, code(0.5));
        std::vector<float> out(kRows * 8);
        Gemm op{};
        op.a = Tensor(a.data() + offset, DType::fp8_e4m3, {kRows, kDepth}, kEmulator);
        op.b = Tensor(b.data(), DType::fp8_e4m3, {8, kDepth}, kEmulator);
        op.out = Tensor(out.data(), DType::fp32, {kRows, 8}, kEmulator);
        Context context = context_for(*find_op("gemm"), kEmulator, "mma_sync");
        run(op, context);
        for (const float value : out) ASSERT_EQ(value, 16) << offset;
    }
}
#endif

TEST(Gemm, EveryTileAndOrderOfTheTensorCoreKernel) {
    for (const std::string dtype : {"bf16", "fp16"}) {
        const auto line = [&](const char* a, const char* b, const char* rest) {
            return "gemm a=" + dtype + a + " b=" + dtype + b + " " + rest;
        };
        expect_right(line("[250,100]", "[254,100]", "out=fp32[250,254]"), "mma_sync 128x128 tn");
        expect_right(line("[250,100]", "[248,100]{1,248}", "out=fp32[250,248]"), "mma_sync 128x128 nn");
        expect_right(line("[65,72]", "[200,72]{80,1}", "bias=bf16[200] out=bf16[65,200]"),
                     "mma_sync 64x64 tn");
        expect_right(line("[65,72]", "[200,72]{1,201}", "bias=bf16[200] out=bf16[65,200]"),
                     "mma_sync 64x64 nn");
        expect_right(line("[3,1030]", "[65,1030]", "out=fp32[3,65]"), "mma_sync 16x64 tn split 4");
        expect_right(line("[3,1030]", "[65,1030]{1,65}", "out=fp32[3,65]"), "mma_sync 16x64 nn split 4");
        expect_right(line("[70,40]", "[130,40]{3,390}", "out=fp16[70,130]"), "mma_sync 64x64 tn");
    }
    expect_right(
        "gemm a=fp8_e4m3[250,272] b=fp8_e4m3[254,272] a_scale=fp32[1] b_scale=fp32[1] out=fp32[250,254]",
        "mma_sync 128x128 tn");
    expect_right("gemm a=fp8_e4m3[70,100]+3 b=fp8_e4m3[130,100]{1,130} b_scale=fp32[1] out=bf16[70,130]",
                 "mma_sync 64x64 tn");
    expect_right("gemm a=fp8_e4m3[16,2048] b=fp8_e4m3[60,2048] out_scale=fp32[1] out=fp8_e4m3[16,60]",
                 "mma_sync 16x64 tn split 8");
}

TEST(Gemm, EveryTileGated) {
    const std::string up = "up_bias=bf16[126] activation=silu residual=fp32[250,126] out=fp32[250,126]";
    expect_right("gemm a=bf16[250,100] b=bf16[126,100] up=bf16[126,100] " + up, "mma_sync 128x128 tn");
    expect_right("gemm a=bf16[250,100] b=bf16[126,100]{1,126} up=bf16[126,100]{1,126} " + up,
                 "mma_sync 128x128 nn");
    expect_right("gemm a=bf16[250,100] b=bf16[126,100] up=bf16[126,100]{1,126} " + up, "mma_sync 128x128 tn");
    expect_right("gemm a=bf16[250,100] b=bf16[126,100]{1,126} up=bf16[126,100] " + up, "mma_sync 128x128 tn");
    expect_right(
        "gemm a=fp16[3,1030] b=fp16[65,1030]{1,65} up=fp16[65,1030]{1,65} bias=fp32[65] "
        "out=fp16[3,65] activation=gelu_erf",
        "mma_sync 16x64 nn split 4");
    expect_right(
        "gemm a=fp8_e4m3[70,100] b=fp8_e4m3[67,100] up=fp8_e4m3[67,100] b_scale=fp32[1] "
        "up_scale=fp32[1] out=fp8_e4m3[70,67] activation=gelu_tanh",
        "mma_sync 64x64 tn");
    expect_right("gemm a=fp32[70,30] b=fp32[75,30] up=fp32[75,30]{1,75} up_bias=fp32[75] out=fp32[70,75]",
                 "fma 64x64 fp32 multiply-adds");
}

TEST(Gemm, EveryEpilogue) {
    for (const std::string activation : {"none", "gelu_tanh", "gelu_erf", "silu"}) {
        for (const std::string extra :
             {"", "bias=bf16[24] ", "residual=fp16[9,24] ", "bias=fp32[24] residual=fp32[9,24] "}) {
            const std::string tail = " " + extra + "out=fp32[9,24] activation=" + activation;
            for (const Values values : {Values::usual, Values::special}) {
                expect_right("gemm a=bf16[9,32] b=bf16[24,32]" + tail, "mma_sync 16x64 tn", values);
                expect_right("gemm a=fp8_e5m2[9,32] b=fp8_e4m3[24,32] a_scale=fp32[1]" + tail,
                             "fma 64x64 fp32 multiply-adds", values);
            }
        }
    }
    expect_right("gemm a=bf16[2,3,16] b=bf16[8,16] residual=bf16[2,3,8] out=@residual", "mma_sync 16x64 tn");
    expect_right("gemm a=bf16[16] b=bf16[8,16] out=bf16[8]", "mma_sync 16x64 tn");
}

TEST(Gemm, NothingToMultiplyLeavesTheEpilogueOfZero) {
    expect_right(
        "gemm a=bf16[5,0] b=bf16[12,0] bias=bf16[12] residual=bf16[5,12] out=bf16[5,12] activation=gelu_erf",
        "mma_sync 16x64 nn");
    expect_right("gemm a=fp32[5,0] b=fp32[12,0] out=fp32[5,12]", "fma 64x64 fp32 multiply-adds");
    for (const char* line :
         {"gemm a=bf16[0,8] b=bf16[4,8] out=bf16[0,4]", "gemm a=bf16[3,8] b=bf16[0,8] out=bf16[3,0]"}) {
        EXPECT_TRUE(attempt({Case::parse(line)}, kCpu).passed) << line;
    }
}

// Two halves of merged weights, the gate's rows first; and interleaved ones, as two strided views.
TEST(Gemm, GatesByMergedWeights) {
    constexpr std::int64_t kRows = 5, kHidden = 12, kDepth = 20;
    std::vector<float> a(kRows * kDepth), merged(2 * kHidden * kDepth), interleaved(merged.size());
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(0.37f * static_cast<float>(i));
    for (std::size_t i = 0; i < merged.size(); ++i) merged[i] = std::cos(0.73f * static_cast<float>(i));
    for (std::size_t row = 0; row < 2 * kHidden; ++row) {
        for (std::size_t i = 0; i < kDepth; ++i) {
            interleaved[(row % kHidden * 2 + row / kHidden) * kDepth + i] = merged[row * kDepth + i];
        }
    }
    for (const Device device : devices_here()) {
        if (device.type == DeviceType::cuda) continue;
        std::vector<float> out(kRows * kHidden), of_interleaved(out.size());
        const Tensor halves(merged.data(), DType::fp32, {2 * kHidden, kDepth}, device);
        Gemm op{};
        op.a = Tensor(a.data(), DType::fp32, {kRows, kDepth}, device);
        op.b = halves.slice(0, 0, kHidden);
        op.up = halves.slice(0, kHidden, 2 * kHidden);
        op.out = Tensor(out.data(), DType::fp32, {kRows, kHidden}, device);
        op.activation = Gemm::Activation::silu;
        run(op);
        const Tensor pairs(interleaved.data(), DType::fp32, {kHidden, 2 * kDepth}, device);
        op.b = pairs.slice(1, 0, kDepth);
        op.up = pairs.slice(1, kDepth, 2 * kDepth);
        op.out = Tensor(of_interleaved.data(), DType::fp32, {kRows, kHidden}, device);
        run(op);
        EXPECT_EQ(out, of_interleaved) << name(device.type);
        double gate = 0, up = 0;  // of the last element
        for (std::size_t i = 0; i < kDepth; ++i) {
            const double x = a[a.size() - kDepth + i];
            gate += x * merged[(kHidden - 1) * kDepth + i];
            up += x * merged[(2 * kHidden - 1) * kDepth + i];
        }
        EXPECT_NEAR(out.back(), gate / (1 + std::exp(-gate)) * up, 1e-4) << name(device.type);
    }
}

// The identity picks rows out exactly, whatever the order of sums.
TEST(Gemm, IdentityIsExact) {
    constexpr std::int64_t kSize = 70;
    std::vector<std::uint16_t> a(kSize * kSize), identity(kSize * kSize);
    for (std::int64_t i = 0; i < kSize * kSize; ++i) {
        store_element(DType::bf16, a.data(), i, static_cast<double>((i * 37) % 511) / 16 - 15);
        store_element(DType::bf16, identity.data(), i, i % (kSize + 1) == 0 ? 1 : 0);
    }
    for (const Device device : devices_here()) {
        if (device.type == DeviceType::cuda) continue;
        std::vector<std::uint16_t> out(kSize * kSize, 0xffff);
        Gemm op{};
        op.a = Tensor(a.data(), DType::bf16, {kSize, kSize}, device);
        op.b = Tensor(identity.data(), DType::bf16, {kSize, kSize}, device);
        op.out = Tensor(out.data(), DType::bf16, {kSize, kSize}, device);
        run(op);
        EXPECT_EQ(out, a) << name(device.type);
    }
}

// Every shape of the table, on every device that weft knows: the configuration fits and fills it.
TEST(Gemm, ConfigurationsFitEveryDevice) {
    const auto table = read_csv(std::filesystem::path(WEFT_SOURCE_DIR) / "workloads/gemm.csv");
    const auto at = [&](const char* name) {
        return static_cast<std::size_t>(std::find(table[0].begin(), table[0].end(), name) - table[0].begin());
    };
    const std::size_t m = at("M"), n = at("N"), k = at("K");
    ASSERT_LT(std::max({m, n, k}), table[0].size());
    for (const std::string& device_name : device_names()) {
        const DeviceInfo& device = *find_device(device_name);
        if (device.arch < 80) continue;  // no op takes a call there
        for (std::size_t row = 1; row < table.size(); ++row) {
            const auto size = [&](std::size_t column) { return std::stoll(table[row][column]); };
            Gemm op{};
            op.a = Tensor(nullptr, DType::bf16, {size(m), size(k)});
            op.b = Tensor(nullptr, DType::bf16, {size(n), size(k)});
            op.out = Tensor(nullptr, DType::bf16, {size(m), size(n)});
            const MmaConfig c = gemm::mma_config(op, device);
            EXPECT_LE(gemm::shared_bytes(c.tile), device.shared_per_block)
                << device_name << " " << table[row][0];
            EXPECT_LE(c.splits, device.max_cluster);
            EXPECT_EQ(gemm::tile_rows(c.tile) % c.splits, 0);
            EXPECT_GE(gemm::mma_steps(op), c.splits);
            EXPECT_TRUE(c.tile == MmaConfig::Tile::flat || size(m) > 16) << table[row][0];
            EXPECT_EQ(gemm::mma_decline(op, device), nullptr);
        }
    }
}

TEST(Gemm, LargeProblemsTakeLargeTilesAndSmallOnesFillTheCard) {
    const DeviceInfo& h200 = *find_device("h200");
    const auto config = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
        Gemm op{};
        op.a = Tensor(nullptr, DType::bf16, {m, k});
        op.b = Tensor(nullptr, DType::bf16, {n, k});
        op.out = Tensor(nullptr, DType::bf16, {m, n});
        return gemm::to_string(gemm::mma_config(op, h200));
    };
    EXPECT_EQ(config(8192, 8192, 8192), "128x128 tn");
    EXPECT_EQ(config(1, 1024, 4096), "16x64 tn split 8");
    EXPECT_EQ(config(10, 2560, 1024), "16x64 tn split 4");
    EXPECT_EQ(config(64, 1024, 4096), "16x64 tn split 4");
}

// The hardware's tanh is 2^-11 off, and its sums of fp8 products 2^-9; what computes them exactly is held to fp32's own
// error.
// (On an H200 512 products of 1.546875, which are 792, came out as 782.)
TEST(Gemm, FastAccumulationLosesOfEveryProduct) {
    Gemm op{};
    op.a.dtype = op.b.dtype = DType::fp8_e4m3;
    op.b = Tensor(nullptr, DType::fp8_e4m3, {1, 512});
    const std::vector<double> a(512, 1.546875), b(512, 1.0);
    EXPECT_LT(gemm::scaled_sum(op, a.data(), b.data(), 1, true).error, 10);
    op.fast_accumulation = true;
    EXPECT_GE(gemm::scaled_sum(op, a.data(), b.data(), 1, true).error, 10);
    EXPECT_LT(gemm::scaled_sum(op, a.data(), b.data(), 1, false).error, 0.1);
}

TEST(Gemm, OnlyHardwareMayUseItsErrors) {
    Gemm op{};
    op.out.dtype = DType::bf16;
    op.activation = Gemm::Activation::gelu_tanh;
    const gemm::Value x{2.0, 0};
    EXPECT_GE(gemm::activated(op, x, true).error, 2 * 0x1p-12);
    EXPECT_LE(gemm::activated(op, x, false).error, 2 * 13 * kEps32);
    const auto error_for = [](const char* line, bool hardware) {
        const Case c = Case::parse(line);
        Instance operands(c, kCpu, 1, Values::usual);
        Oracle oracle(true);
        oracle.set_hardware(hardware);
        const auto& call = *static_cast<const Gemm*>(operands.call());
        c.op().reference(&call, oracle);
        return oracle.find(call.out.data)->error[0];
    };
    const char* short_sum = "gemm a=bf16[1,8] b=bf16[1,8] out=bf16[1,1]";
    EXPECT_GT(error_for(short_sum, true), 1.2 * error_for(short_sum, false));
    for (const char* line : {"gemm a=bf16[1,8] b=bf16[1,8] out=bf16[1,1] activation=gelu_tanh",
                             "gemm a=fp8_e4m3[1,16] b=fp8_e4m3[1,16] out=bf16[1,1]",
                             "gemm a=fp8_e4m3[1,16] b=fp8_e4m3[1,16] out=bf16[1,1] fast_accumulation=true"}) {
        EXPECT_GT(error_for(line, true), 4 * error_for(line, false)) << line;
    }
}

}  // namespace
}  // namespace weft
