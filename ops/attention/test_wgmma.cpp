// attention on wgmma: its policy, and the kernel in the emulator by its name.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "ops/attention/test_config.h"
#include "ops/attention/wgmma.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string reason(const char* line, const char* device = "h200") {
    return test::reason_of(attention::decline_wgmma, line, device);
}

TEST(AttentionWgmma, SaysWhatItTakes) {
    EXPECT_EQ(reason("attention q=bf16[1,9,8,256] k=bf16[1,9,1,256] v=bf16[1,9,1,256]"), "accepts");
    EXPECT_EQ(reason("attention q=fp16[2,9,6,64] k=fp16[2,70,2,64] v=fp16[2,70,2,64] causal=true"),
              "accepts");
    EXPECT_THAT(reason("attention q=fp32[1,9,8,64] k=fp32[1,9,1,64] v=fp32[1,9,1,64]"),
                HasSubstr("bf16, fp16 and fp8"));
    EXPECT_EQ(reason("attention q=bf16[1,9,8,8] k=bf16[1,9,1,8] v=bf16[1,9,1,8]"), "accepts");
    EXPECT_EQ(reason("attention q=bf16[1,9,8,200] k=bf16[1,9,1,200] v=bf16[1,9,1,200]"), "accepts");
    EXPECT_THAT(reason("attention q=bf16[1,9,8,76] k=bf16[1,9,1,76] v=bf16[1,9,1,76]"),
                HasSubstr("whole chunks"));
    EXPECT_THAT(reason("attention q=bf16[1,9,8,64] k=bf16[1,9,1,64] v=bf16[1,9,1,64]", "rtx4090"),
                HasSubstr("SM 9.0 alone"));
    EXPECT_THAT(reason("attention q=bf16[1,9,8,64] k=bf16[1,0,1,64] v=bf16[1,0,1,64]"), HasSubstr("no keys"));
    EXPECT_THAT(reason("attention q=bf16[1,9,1,64] k=bf16[1,9,1,64]{585,65,65,1} v=bf16[1,9,1,64]"),
                HasSubstr("whole chunks"));
    EXPECT_THAT(reason("attention q=bf16[1,9,1,64]+1 k=bf16[1,9,1,64] v=bf16[1,9,1,64]"),
                HasSubstr("whole chunks"));
}

TEST(AttentionWgmma, IsAskedBehindTheKernelOfFewRows) {
    const auto& list = find_op("attention")->implementations[static_cast<int>(DeviceType::emulator)];
    if (list.empty()) GTEST_SKIP() << "needs the emulator";
    std::vector<std::string> names;
    for (const AnyImplementation& one : list) names.push_back(one.name);
    EXPECT_THAT(names, testing::ElementsAre("flash_decode", "flash_wgmma", "flash_fp8", "flash_widened",
                                            "flash_mma", "flash_wide"));
}

TEST(AttentionWgmma, FillsAHopperCard) {
    const DeviceInfo& h200 = *find_device("h200");
    attention::Problem pi05;
    pi05.heads = 1, pi05.rows = 968 * 8, pi05.keys = 968, pi05.head_dim = 256;
    const attention::WgmmaConfig config = attention::choose_wgmma(pi05, h200);
    EXPECT_EQ(config.splits, 2) << "61 tiles of rows are less than half a card";
    EXPECT_EQ(attention::blocks(pi05, config), 122);
    for (const int head_dim : attention::kWgmmaHeadDims) {
        EXPECT_LE(attention::WgmmaTile{head_dim}.shared_bytes(), h200.shared_per_block) << head_dim;
        attention::Problem large = pi05;
        large.heads = 24, large.rows = 4608, large.keys = 4608, large.head_dim = head_dim;
        EXPECT_EQ(attention::choose_wgmma(large, h200).splits, 1) << head_dim;
    }
}

// Two blocks are a cluster, on a device that has any.
TEST(AttentionWgmma, SharesKeysWhereThereAreClusters) {
    attention::Problem problem;
    problem.heads = 1, problem.rows = 128, problem.keys = 500, problem.head_dim = 128;
    DeviceInfo device = *find_device("h200");
    for (const int cluster : {1, 2, 8}) {
        device.max_cluster = cluster;
        EXPECT_EQ(attention::choose_wgmma(problem, device).splits, std::min(cluster, 2));
    }
}

// Of few rows the keys are shared by the whole card, as far as there are tiles.
TEST(AttentionWgmma, ManyKeysOfFewRowsAreMerged) {
    const DeviceInfo& h200 = *find_device("h200");
    attention::Problem decode;
    decode.heads = 8, decode.rows = 4, decode.keys = 8192, decode.head_dim = 128, decode.group = 4;
    attention::WgmmaConfig config = attention::choose_wgmma(decode, h200);
    EXPECT_TRUE(config.merged());
    EXPECT_EQ(config.splits, 16);
    decode.keys = 1024;
    EXPECT_EQ(attention::choose_wgmma(decode, h200).splits, 8) << "a tile each";
    decode.heads = 100;
    config = attention::choose_wgmma(decode, h200);
    EXPECT_EQ(config.splits, 1) << "the heads fill the card";
    EXPECT_FALSE(config.merged());
}

// What a warpgroup asks for has to be there, or it waits for ever.
TEST(AttentionWgmma, RegistersAreThoseOfTheLaunch) {
    for (const int warpgroups : {2, 3}) {
        const attention::WgmmaTile tile{64, warpgroups};
        const int all = tile.launch_registers() * (warpgroups + 1);
        EXPECT_LE(all, 512);
        EXPECT_LE(tile.registers() * warpgroups + tile.loader_registers(), all);
        EXPECT_EQ(tile.registers(), warpgroups == 2 ? 240 : 160);
    }
}

TEST(AttentionWgmma, ThreeWarpgroupsUpToHeadDim128) {
    const DeviceInfo& h200 = *find_device("h200");
    for (const int head_dim : {64, 80, 128}) {
        attention::Problem problem;
        problem.heads = 200, problem.rows = 1140, problem.keys = 1000, problem.head_dim = head_dim,
        problem.group = 5;
        const attention::WgmmaConfig config = attention::choose_wgmma(problem, h200);
        EXPECT_EQ(config.tile.warpgroups, 3) << head_dim;
        EXPECT_EQ(config.rows, 190) << "whole tokens";
        EXPECT_LE(config.tile.shared_bytes(), h200.shared_per_block) << head_dim;
        problem.options = true;
        EXPECT_EQ(attention::choose_wgmma(problem, h200).tile.warpgroups, 2);
        problem.options = false, problem.rows = 120;
        EXPECT_EQ(attention::choose_wgmma(problem, h200).tile.warpgroups, 2) << "two have the rows";
        problem.rows = 250;
        EXPECT_EQ(attention::choose_wgmma(problem, h200).tile.warpgroups, 2)
            << "as many blocks, of more rows";
        problem.heads = 70, problem.rows = 380;
        EXPECT_EQ(attention::choose_wgmma(problem, h200).tile.warpgroups, 3)
            << "two rounds of blocks, not two and a bit";
        problem.heads = 30;
        EXPECT_EQ(attention::choose_wgmma(problem, h200).tile.warpgroups, 2) << "one round of either";
    }
    for (const int head_dim : {96, 192}) {
        attention::Problem problem;
        problem.heads = 200, problem.rows = 1000, problem.keys = 1000, problem.head_dim = head_dim;
        EXPECT_EQ(attention::choose_wgmma(problem, h200).tile.warpgroups, 2) << head_dim;
    }
}

// As many heads as the cache holds, one at least, and no more than there are; an even number of times, or once.
TEST(AttentionWgmma, NearHeadsFitTheCache) {
    DeviceInfo device = *find_device("h200");
    device.l2_bytes = 1000000;
    attention::Problem problem;
    problem.heads = 7, problem.rows = 10, problem.keys = 1000, problem.head_dim = 64;
    EXPECT_EQ(attention::near_heads(problem, device), 2);
    problem.keys = 5000;
    EXPECT_EQ(attention::near_heads(problem, device), 1);
    problem.keys = 1500;
    EXPECT_EQ(attention::near_heads(problem, device), 2);
    problem.keys = 600;
    EXPECT_EQ(attention::near_heads(problem, device), 4);
    problem.keys = 1;
    EXPECT_EQ(attention::near_heads(problem, device), 7);
}

// Few rows of long keys: blocks of near heads that do not go round are dealt with all others, or most of the card would
// get none.
TEST(AttentionWgmma, DealsGoRound) {
    const DeviceInfo& h200 = *find_device("h200");
    attention::Problem problem;
    problem.heads = 256, problem.rows = 2048, problem.keys = 131072, problem.head_dim = 128,
    problem.group = 4;
    problem.window.right = 0;
    attention::WgmmaConfig config = attention::choose_wgmma(problem, h200);
    ASSERT_EQ(attention::near_heads(problem, h200), 1);
    EXPECT_EQ(attention::dealt_blocks(problem, config, h200), attention::blocks(problem, config));
    problem.rows = 131072;
    config = attention::choose_wgmma(problem, h200);
    EXPECT_EQ(attention::dealt_blocks(problem, config, h200), attention::blocks(problem, config) / 256);
    problem.window.right = attention::Window::kUnlimited;
    EXPECT_EQ(attention::dealt_blocks(problem, config, h200), attention::blocks(problem, config));
}

#if WEFT_HAS_EMULATOR
void expect_right(const std::string& line, const char* config) {
    test::expect_right(line, "flash_wgmma", config);
}

// On a card of few multiprocessors, whose cache holds the keys of so many bytes.
void expect_right_on(int sms, long l2_bytes, const std::string& line, const char* config) {
    Case c = Case::parse(line);
    c.infer();
    DeviceInfo info = *find_device("h200");
    info.type = DeviceType::emulator;
    info.sms = sms, info.l2_bytes = l2_bytes;
    Context context = context_for(c.op(), kEmulator, "flash_wgmma");
    context.set_info(info);
    const Outcome outcome = verify(c, context, 7, Values::usual);
    EXPECT_TRUE(outcome.passed) << line << "\n" << outcome.why;
    EXPECT_THAT(outcome.implementation, HasSubstr(config)) << line;
}

// A block goes on with other rows: the ring, the buffers of queries and the turns go on where they were.
TEST(AttentionWgmma, BlocksWorkOnManyRows) {
    expect_right_on(3, 1 << 20,
                    "attention q=bf16[2,400,2,64] k=bf16[2,150,2,64] v=bf16[2,150,2,64] lse=fp32[2,2,400]",
                    "192x128 rows and keys of 64");
    for (const auto& [head_dim, tile] :
         {std::pair{"72", "192x96 rows and keys of 80"}, std::pair{"96", "128x128 rows and keys of 96"},
          std::pair{"120", "192x80 rows and keys of 128"}}) {
        const std::string d = head_dim;
        expect_right_on(2, 1 << 20,
                        "attention q=fp16[1,300,2," + d + "] k=fp16[1,250,1," + d + "] v=fp16[1,250,1," + d +
                            "] lse=fp32[1,2,300]",
                        tile);
    }
    expect_right_on(1, 1 << 20,
                    "attention q=bf16[1,384,1,120] k=bf16[1,900,1,120] v=bf16[1,900,1,120] causal=true",
                    "192x80 rows and keys of 128");
    expect_right_on(2, 1 << 20,
                    "attention q=bf16[3,100,2,128] k=bf16[3,300,2,128] v=bf16[3,300,2,128] "
                    "kv_lengths=int32[3] key_mask=uint8[3,300]",
                    "128x128 rows and keys of 128");
    expect_right_on(1, 1 << 20,
                    "attention q=bf16[1,200,2,256] k=bf16[1,130,2,256] v=bf16[1,130,2,256] causal=true "
                    "window_left=70 sinks=fp32[2]",
                    "128x64 rows and keys of 256");
}

// Causal: the longest rows of some heads first, of all of them in the end; the last heads are fewer. Rows of a warpgroup
// that see less than their block's others, and rows that see nothing.
TEST(AttentionWgmma, LongRowsComeFirst) {
    for (const long l2_bytes : {1L << 30, 3L * 4 * 400 * 64, 1L}) {  // near heads: all five, three, one
        expect_right_on(3, l2_bytes,
                        "attention q=fp16[5,400,1,64] k=fp16[5,400,1,64] v=fp16[5,400,1,64] causal=true "
                        "lse=fp32[5,1,400]",
                        "192x128 rows and keys of 64");
    }
    expect_right_on(2, 1 << 20,
                    "attention q=bf16[1,560,2,64] k=bf16[1,140,2,64] v=bf16[1,140,2,64] causal=true",
                    "192x128");
}

// Few rows, whose keys many blocks share: some have no tile. Padded columns are not in the partial results.
TEST(AttentionWgmma, SplitsAreMerged) {
    expect_right_on(40, 1 << 20,
                    "attention q=bf16[1,2,8,128] k=bf16[1,1500,2,128] v=bf16[1,1500,2,128] lse=fp32[1,8,2]",
                    "12 splits");
    expect_right_on(40, 1 << 20,
                    "attention q=fp16[3,1,4,72] k=fp16[3,1800,1,72] v=fp16[3,1800,1,72] kv_lengths=int32[3] "
                    "lse=fp32[3,4,1]",
                    "8 splits");
    expect_right_on(
        40, 1 << 20,
        "attention q=bf16[1,9,2,64] k=bf16[1,1300,1,64] v=bf16[1,1300,1,64] sinks=fp32[2] softcap=9 "
        "causal=true",
        "11 splits");
    expect_right_on(12, 1 << 20, "attention q=bf16[1,70,2,64] k=bf16[1,2000,1,64] v=bf16[1,2000,1,64]",
                    "6 splits");
}

TEST(AttentionWgmma, OneBlockOfAFewTiles) {
    expect_right("attention q=bf16[1,7,8,256] k=bf16[1,50,1,256] v=bf16[1,50,1,256] lse=fp32[1,8,7]",
                 "1 blocks share");
    expect_right("attention q=fp16[3,10,2,64] k=fp16[3,800,1,64] v=fp16[3,800,1,64] lse=fp32[3,2,10]",
                 "1 blocks share");
}

TEST(AttentionWgmma, TwoBlocksShareTheKeys) {
    expect_right("attention q=bf16[1,16,8,256] k=bf16[1,200,1,256] v=bf16[1,200,1,256] lse=fp32[1,8,16]",
                 "2 blocks share");
    expect_right(
        "attention q=fp16[1,33,4,128] k=fp16[1,700,1,128] v=fp16[1,700,1,128] causal=true lse=fp32[1,4,33]",
        "2 blocks share");
}

// Head dims that no kernel is compiled for take the next: columns beyond theirs are zeros in shared memory, and are not
// stored. Sums that do not fill the slots that carry them, in whole or in part.
TEST(AttentionWgmma, AnyHeadDimOfWholeChunks) {
    const struct {
        int head_dim;
        const char* tile;
        bool
            shared;  // also by blocks of a cluster: it is compiled for the padded head dim, so once for each will do
    } kDims[] = {
        {8, "128x128 rows and keys of 64", false},    {40, "128x128 rows and keys of 64", true},
        {72, "128x128 rows and keys of 80", true},    {80, "128x128 rows and keys of 80", false},
        {88, "128x128 rows and keys of 96", true},    {96, "128x128 rows and keys of 96", false},
        {104, "128x128 rows and keys of 128", false}, {160, "128x80 rows and keys of 192", true},
        {192, "128x80 rows and keys of 192", false},  {232, "128x64 rows and keys of 256", true},
    };
    for (const auto& [head_dim, tile, shared] : kDims) {
        const std::string d = std::to_string(head_dim);
        expect_right("attention q=bf16[1,20,4," + d + "] k=bf16[1,150,2," + d + "] v=bf16[1,150,2," + d +
                         "] lse=fp32[1,4,20]",
                     tile);
        if (!shared) continue;
        expect_right("attention q=fp16[2,40,1," + d + "] k=fp16[2,170,1," + d + "] v=fp16[2,170,1," + d +
                         "] kv_lengths=int32[2] causal=true",
                     "2 blocks share");
    }
}

TEST(AttentionWgmma, BlocksOfWholeTokens) {
    expect_right("attention q=bf16[1,50,3,64] k=bf16[1,300,1,64] v=bf16[1,300,1,64] lse=fp32[1,3,50]",
                 "126x128 rows and keys of 64 columns, 5 slots, 2 blocks share");
    expect_right(
        "attention q=fp16[1,23,14,128] k=fp16[1,300,2,128] v=fp16[1,300,2,128] causal=true lse=fp32[1,14,23]",
        "126x128 rows and keys of 128 columns");
    expect_right("attention q=bf16[2,3,100,64] k=bf16[2,30,1,64] v=bf16[2,30,1,64] lse=fp32[2,100,3]",
                 "100x128 rows and keys of 64 columns, 5 slots, 1 blocks share");
    EXPECT_THAT(reason("attention q=bf16[1,9,129,64] k=bf16[1,9,1,64] v=bf16[1,9,1,64]"),
                HasSubstr("one to 128 query heads"));
    EXPECT_THAT(reason("attention q=bf16[1,9,0,64] k=bf16[1,9,1,64] v=bf16[1,9,1,64]"),
                HasSubstr("one to 128 query heads"));
}

// The stride of an axis with one element says nothing: no map may be made of it.
TEST(AttentionWgmma, AnyStrideOfALoneElement) {
    expect_right(
        "attention q=bf16[1,9,1,64]{577,64,67,1} k=bf16[1,9,1,64]{577,64,3,1} v=bf16[1,9,1,64]{1,64,5,1} "
        "lse=fp32[1,1,9]",
        "1 blocks share");
}

// Causal, and more queries than keys: rows of the first blocks see one tile or none, so that one or both blocks of
// their cluster have nothing to multiply, and still bring queries and hand over.
TEST(AttentionWgmma, BlocksWithoutATile) {
    expect_right(
        "attention q=bf16[1,256,1,64] k=bf16[1,140,1,64] v=bf16[1,140,1,64] causal=true lse=fp32[1,1,256]",
        "2 blocks share");
    expect_right(
        "attention q=bf16[1,256,1,256] k=bf16[1,90,1,256] v=bf16[1,90,1,256] causal=true lse=fp32[1,1,256]",
        "2 blocks share");
}

TEST(AttentionWgmma, MasksAndLengths) {
    expect_right(
        "attention q=bf16[3,20,4,64] k=bf16[3,500,1,64] v=bf16[3,500,1,64] kv_lengths=int32[3] "
        "key_mask=uint8[3,500] causal=true lse=fp32[3,4,20]",
        "1 blocks share");
    expect_right(
        "attention q=bf16[1,300,1,128] k=bf16[1,140,1,128] v=bf16[1,140,1,128] causal=true lse=fp32[1,1,300]",
        "1 blocks share");
    expect_right(
        "attention q=fp16[1,130,1,64] k=fp16[1,1000,1,64] v=fp16[1,1000,1,64] key_mask=uint8[1,1000]",
        "2 blocks share");
}

// More tiles than slots, of two boxes each, and what is hidden is NaN.
TEST(AttentionWgmma, HiddenKeysAreNotUsed) {
    constexpr std::int64_t kQueries = 5, kKeys = 1000, kDim = 128;
    for (const bool by_length : {true, false}) {
        std::vector<std::uint16_t> q(kQueries * kDim, 0x3f00), k(kKeys * kDim, 0x3f00),
            v(kKeys * kDim, 0x3f00), out(kQueries * kDim);
        std::vector<std::uint8_t> mask(kKeys, 1);
        std::int32_t length = 660;
        for (std::size_t key = 0; key < kKeys; ++key) {
            const bool hidden = by_length ? key >= 660 : key % 7 == 3;
            if (!hidden) continue;
            mask[key] = 0;
            for (std::size_t d = 0; d < kDim; ++d) k[key * kDim + d] = v[key * kDim + d] = 0x7fc0;  // NaN
        }
        Attention op;
        op.q = Tensor(q.data(), DType::bf16, {1, kQueries, 1, kDim}, kEmulator);
        op.k = Tensor(k.data(), DType::bf16, {1, kKeys, 1, kDim}, kEmulator);
        op.v = Tensor(v.data(), DType::bf16, {1, kKeys, 1, kDim}, kEmulator);
        op.out = Tensor(out.data(), DType::bf16, {1, kQueries, 1, kDim}, kEmulator);
        if (by_length) {
            op.kv_lengths = Tensor(&length, DType::int32, {1}, kEmulator);
        } else {
            op.key_mask = Tensor(mask.data(), DType::uint8, {1, kKeys}, kEmulator);
        }
        Context context = context_for(*find_op("attention"), kEmulator, "flash_wgmma");
        run(op, context);
        for (const std::uint16_t value : out) EXPECT_NEAR(decode(DType::bf16, value), 0.5, 0x1p-8);
    }
}
#endif

}  // namespace
}  // namespace weft
