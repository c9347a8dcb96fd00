// attention: flash_mma in the emulator, in configurations of several devices.
#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/test_config.h"
#include "weft/case.h"
#include "weft/context.h"

namespace weft {
namespace {

#if WEFT_HAS_EMULATOR
using test::config_of;
using test::expect_mma_right;

TEST(AttentionKernel, SplitsAndMerges) {
    const char* lines[] = {
        "attention q=bf16[1,2,4,32] k=bf16[1,700,2,32] v=bf16[1,700,2,32] lse=fp32[1,4,2] causal=true",
        "attention q=fp16[1,1,2,16] k=fp16[1,1000,1,16] v=fp16[1,1000,1,16] kv_lengths=int32[1] "
        "key_mask=uint8[1,1000] lse=fp32[1,2,1]",
        "attention q=bf16[2,20,2,24] k=bf16[2,400,1,24] v=bf16[2,400,1,24] lse=fp32[2,2,20]",
        "attention q=bf16[1,3,1,33] k=bf16[1,900,1,33] v=bf16[1,900,1,33]"};
    for (const char* line : lines) {
        EXPECT_GT(config_of(line, "h200").splits, 1) << line;
        expect_mma_right(line, "h200", "flash_mma");
    }
    // Two are the fewest. That few multiprocessors leave no room for more.
    expect_mma_right("attention q=bf16[1,3,2,136] k=bf16[1,500,1,136] v=bf16[1,500,1,136] lse=fp32[1,2,3]",
                     "rtx4090", " 2 splits", Values::usual, 2);
}

TEST(AttentionKernel, MergesManyGroups) {
    const char* line = "attention q=bf16[40,1,1,24] k=bf16[40,300,1,24] v=bf16[40,300,1,24] lse=fp32[40,1,1]";
    EXPECT_GE(config_of(line, "h200").groups, 2);
    expect_mma_right(line, "h200", "flash_mma");
}

TEST(AttentionKernel, RunsWithTwoSlotsWhereSharedMemoryIsShort) {
    const char* line = "attention q=bf16[1,3,2,256] k=bf16[1,200,1,256] v=bf16[1,200,1,256] causal=true";
    EXPECT_EQ(config_of(line, "rtx4090").slots, 2);
    expect_mma_right(line, "rtx4090", "2 slots");
    // Nobody takes over from a group where there is one: four warps' results are more than two slots hold.
    expect_mma_right("attention q=bf16[1,64,1,136] k=bf16[1,100,1,136] v=bf16[1,100,1,136]", "rtx4090",
                     "4 warps in 1 groups, 1 splits, 2 slots");
}

// The last row of a warp, and of a block, sees one key more than those before it: the first of a tile.
TEST(AttentionKernel, TheLastRowMaySeeOneTileMore) {
    expect_mma_right("attention q=bf16[1,32,1,24] k=bf16[1,65,1,24] v=bf16[1,65,1,24] causal=true", "h200",
                     "32x64 rows");
    expect_mma_right("attention q=bf16[2,64,1,24] k=bf16[2,65,1,24] v=bf16[2,65,1,24] causal=true", "h200",
                     "flash_mma");
}

// The context's first scratch memory has exactly the bytes that are asked for: a warp's last columns reach beyond them,
// which AddressSanitizer alone sees.
TEST(AttentionKernel, TheMergeReadsItsScratchAlone) {
    constexpr std::int64_t kTokens = 900, kDim = 33;
    const int splits =
        config_of("attention q=fp16[1,1,1,33] k=fp16[1,900,1,33] v=fp16[1,900,1,33]", "h200").splits;
    EXPECT_GT(splits, 1);
    EXPECT_LT(splits, 64 - kDim) << "as many maxima lie behind the columns";
    const auto half = [](double value) { return static_cast<std::uint16_t>(encode(DType::fp16, value)); };
    std::vector<std::uint16_t> q(kDim, half(1)), k(kTokens * kDim, half(1)), v(k), out(q.size());
    Attention op;
    op.q = Tensor(q.data(), DType::fp16, {1, 1, 1, kDim}, kEmulator);
    op.k = Tensor(k.data(), DType::fp16, {1, kTokens, 1, kDim}, kEmulator);
    op.v = Tensor(v.data(), DType::fp16, {1, kTokens, 1, kDim}, kEmulator);
    op.out = Tensor(out.data(), DType::fp16, {1, 1, 1, kDim}, kEmulator);
    DeviceInfo h200 = *find_device("h200");
    h200.type = DeviceType::emulator;
    Context context = context_for(*find_op("attention"), kEmulator, "flash_mma");
    context.set_info(h200);
    run(op, context);
    for (const std::uint16_t value : out) ASSERT_NEAR(decode(DType::fp16, value), 1.0, 0x1p-9);
}

// Rows at 16-byte addresses that are no whole chunks, and whole chunks at others.
TEST(AttentionKernel, RowsThatOnlyLookLikeChunks) {
    expect_mma_right(
        "attention q=bf16[1,17,2,9]{544,32,16,1} k=bf16[1,70,1,9]{1120,16,16,1} "
        "v=bf16[1,70,1,9]{1120,16,16,1} out=bf16[1,17,2,9]{544,32,16,1}",
        "h200", "flash_mma");
    expect_mma_right(
        "attention q=bf16[1,17,2,64]{2210,130,65,1} k=bf16[1,70,1,64]{4550,65,65,1} "
        "v=bf16[1,70,1,64]{4550,65,65,1} out=bf16[1,17,2,64]{2210,130,65,1}",
        "h200", "flash_mma");
}

// A maximum that is left behind lets weights grow to 2^8 and no further: fp16 holds 2^16.
// A configuration is kept for the next call of its kind, and for no other: head dims of 16 and 80 have the same place.
TEST(AttentionKernel, KeptConfigurationsAreOfTheirOwnCalls) {
    const auto line = [](const char* dim) {
        return "attention q=bf16[1,2,2," + std::string(dim) + "] k=bf16[1,700,1," + dim +
               "] v=bf16[1,700,1," + dim + "]";
    };
    DeviceInfo device = *find_device("h200");
    device.type = DeviceType::emulator;
    for (const char* implementation : {"flash_mma", "flash_decode"}) {
        Context context = context_for(*find_op("attention"), kEmulator, implementation);
        for (const auto& [dim, sms] : {std::pair{"16", 132}, std::pair{"80", 132}, std::pair{"80", 2}}) {
            device.sms = sms;
            context.set_info(device);
            Case c = Case::parse(line(dim));
            c.infer();
            const Outcome outcome = verify(c, context, 7, Values::usual);
            EXPECT_TRUE(outcome.passed) << implementation << " " << dim << ": " << outcome.why;
        }
    }
}

TEST(AttentionKernel, WeightsStayInTheRangeOfFp16) {
    // Two groups, or blocks, of which the first has the first tile and a later one.
    constexpr std::int64_t kBatches = 40, kTokens = 300, kDim = 16;
    const auto half = [](double value) { return static_cast<std::uint16_t>(encode(DType::fp16, value)); };
    std::vector<std::uint16_t> q(kBatches * kDim, half(0)), k(kBatches * kTokens * kDim, half(0)),
        v(k.size(), half(1)), out(q.size(), 0xffff);
    for (std::size_t b = 0; b < kBatches; ++b) {
        q[b * kDim] = half(1);
        for (std::size_t j = 128; j < kTokens; ++j) k[(b * kTokens + j) * kDim] = half(4);
    }
    DeviceInfo h200 = *find_device("h200");
    h200.type = DeviceType::emulator;
    for (const auto& [implementation, batches] :
         {std::pair{"flash_mma", kBatches}, std::pair{"flash_wgmma", std::int64_t{1}},
          std::pair{"flash_decode", std::int64_t{1}}}) {
        Attention op;
        op.q = Tensor(q.data(), DType::fp16, {batches, 1, 1, kDim}, kEmulator);
        op.k = Tensor(k.data(), DType::fp16, {batches, kTokens, 1, kDim}, kEmulator);
        op.v = Tensor(v.data(), DType::fp16, {batches, kTokens, 1, kDim}, kEmulator);
        op.out = Tensor(out.data(), DType::fp16, {batches, 1, 1, kDim}, kEmulator);
        op.scale = 2.7725887f;  // 4 ln 2: a score of 4 is worth 2^16
        Context context = context_for(*find_op("attention"), kEmulator, implementation);
        context.set_info(h200);
        run(op, context);
        for (std::size_t i = 0; i < static_cast<std::size_t>(batches * kDim); ++i)
            ASSERT_NEAR(decode(DType::fp16, out[i]), 1.0, 0x1p-9) << implementation;
    }
}
#endif

}  // namespace
}  // namespace weft
