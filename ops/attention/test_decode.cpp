// attention of few rows: its policy, and the kernel in the emulator by its name.
#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/decode.h"
#include "ops/attention/test_config.h"
#include "tests/ops/emulated.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string reason(const std::string& line, const char* device = "h200") {
    return test::reason_of(attention::decline_decode, "attention " + line, device);
}

TEST(AttentionDecode, TakesFewRows) {
    EXPECT_EQ(reason("q=bf16[1,1,32,128] k=bf16[1,8192,8,128] v=bf16[1,8192,8,128]"), "accepts");
    EXPECT_EQ(reason("q=fp16[1,10,8,256] k=fp16[1,978,1,256] v=fp16[1,978,1,256]"), "accepts")
        << "80 rows, of keys that L2 gives again and again";
    EXPECT_THAT(reason("q=bf16[1,4,64,128] k=bf16[1,8192,8,128] v=bf16[1,8192,8,128]"),
                HasSubstr("more than 16 rows"));
    EXPECT_EQ(reason("q=bf16[1,2,64,128] k=bf16[1,8192,8,128] v=bf16[1,8192,8,128] causal=true"), "accepts");
    EXPECT_EQ(reason("q=bf16[16,1,32,128] k=bf16[16,8192,8,128] v=bf16[16,8192,8,128]"), "accepts");
    EXPECT_THAT(reason("q=bf16[17,1,32,128] k=bf16[17,8192,8,128] v=bf16[17,8192,8,128]"),
                HasSubstr("fill the card"));
    EXPECT_EQ(reason("q=bf16[17,1,32,128] k=bf16[17,8192,8,128] v=bf16[17,8192,8,128] "
                     "key_limits=int32[17,1]"),
              "accepts")
        << "flash_wgmma has no limits";
    EXPECT_EQ(reason("q=bf16[17,1,32,128] k=bf16[17,8192,8,128] v=bf16[17,8192,8,128]", "b200"), "accepts")
        << "nor is it for Blackwell";
    EXPECT_EQ(reason("q=bf16[17,1,32,128] k=fp8_e4m3[17,8192,8,128] v=fp8_e4m3[17,8192,8,128] "
                     "out=bf16[17,1,32,128]"),
              "accepts")
        << "nor does it read codes";
    EXPECT_THAT(reason("q=bf16[1,1,8,256] k=bf16[1,8192,1,256] v=bf16[1,8192,1,256]"),
                HasSubstr("long rows"));
    EXPECT_THAT(reason("q=bf16[16,1,32,128] k=bf16[8192,16,8,128] v=bf16[8192,16,8,128] "
                       "block_table=int32[16,512] kv_lengths=int32[16]"),
                HasSubstr("in pages"));
}

TEST(AttentionDecode, SaysWhatItCannotBring) {
    EXPECT_THAT(reason("q=fp32[1,1,8,64] k=fp32[1,9,1,64] v=fp32[1,9,1,64]"),
                HasSubstr("bf16, fp16 and fp8"));
    EXPECT_THAT(reason("q=bf16[1,1,8,76] k=bf16[1,9,1,76] v=bf16[1,9,1,76]"), HasSubstr("whole chunks"));
    EXPECT_THAT(reason("q=bf16[1,1,8,64] k=bf16[1,9,1,64] v=bf16[1,9,1,64]", "a100"),
                HasSubstr("SM 9.0 and newer"));
    EXPECT_THAT(reason("q=bf16[1,1,8,64] k=bf16[1,0,1,64] v=bf16[1,0,1,64]"), HasSubstr("no keys"));
    EXPECT_THAT(reason("q=bf16[1,1,8,64]+1 k=bf16[1,9,1,64] v=bf16[1,9,1,64]"), HasSubstr("whole chunks"));
    EXPECT_THAT(reason("q=bf16[1,1,8,64] k=bf16[9,12,1,64] v=bf16[9,12,1,64] block_table=int32[1,5] "
                       "kv_lengths=int32[1]"),
                HasSubstr("whole eight keys"));
}

attention::DecodeConfig cut(std::int64_t heads, std::int64_t rows, std::int64_t keys, int head_dim,
                            const DeviceInfo& device, int stored_bits = 16) {
    attention::Problem problem;
    problem.stored_bits = stored_bits;
    problem.heads = heads, problem.rows = rows, problem.keys = keys, problem.head_dim = head_dim;
    return attention::choose_decode(problem, device);
}

TEST(AttentionDecode, DividesKeysAsFarAsThatIsQuicker) {
    const DeviceInfo& h200 = *find_device("h200");
    EXPECT_EQ(cut(8, 4, 100, 128, h200).splits, 1) << "one tile";
    attention::DecodeConfig config = cut(8, 4, 2048, 128, h200);
    EXPECT_EQ(config.splits, 8);
    EXPECT_TRUE(config.clustered);
    config = cut(8, 4, 8192, 128, h200);
    EXPECT_EQ(config.splits, 8) << "the whole card's memory, and no second kernel";
    EXPECT_TRUE(config.clustered);
    config = cut(8, 4, 131072, 128, h200);
    EXPECT_EQ(config.splits, 16)
        << "of so many keys the whole card reads, and the merge is little beside that";
    EXPECT_TRUE(config.merged());
    config = cut(1, 4, 8192, 128, h200);
    EXPECT_GT(config.splits, attention::DecodeTile::kBlocks) << "one cluster is too little of the card";
    EXPECT_TRUE(config.merged());
    config = cut(8, 4, 8192, 128, h200, 8);
    EXPECT_EQ(config.splits, 16) << "codes take a block longer than their bytes: more of them pay";
    EXPECT_TRUE(config.merged());
    config = cut(32, 1, 4096, 128, h200);
    EXPECT_EQ(config.splits, 2) << "more would not find room";
    EXPECT_TRUE(config.clustered);
    EXPECT_EQ(cut(128, 4, 8192, 128, h200).splits, 1) << "heads alone fill the card";
    DeviceInfo alone = h200;
    alone.max_cluster = 1;
    EXPECT_TRUE(cut(8, 4, 2048, 128, alone).merged()) << "a device without clusters";
    for (const int head_dim : attention::kDecodeHeadDims)
        EXPECT_LE(attention::DecodeTile{head_dim}.shared_bytes(), h200.shared_per_block) << head_dim;
}

#if WEFT_HAS_EMULATOR
// On a card of so many multiprocessors.
void expect_right_on(int sms, const std::string& line, const char* config, Values values = Values::usual) {
    Case c = Case::parse("attention " + line);
    c.infer();
    DeviceInfo info = *find_device("h200");
    info.type = DeviceType::emulator, info.sms = sms;
    Context context = context_for(c.op(), kEmulator, "flash_decode");
    context.set_info(info);
    const Outcome outcome = verify(c, context, 7, values);
    EXPECT_TRUE(outcome.passed) << line << "\n" << outcome.why;
    EXPECT_THAT(outcome.implementation, AllOf(HasSubstr("flash_decode"), HasSubstr(config))) << line;
}

// More tiles than slots, so that a slot holds keys and values in turn; warps whose keys end before the tile's do.
TEST(AttentionDecode, OneBlockGoesThroughAllTiles) {
    const char* lines[] = {"q=bf16[1,3,4,64] k=bf16[1,1700,1,64] v=bf16[1,1700,1,64] lse=fp32[1,4,3]",
                           "q=fp16[1,4,4,128] k=fp16[1,1000,1,128] v=fp16[1,1000,1,128] causal=true",
                           "q=bf16[1,1,9,200] k=bf16[1,500,1,200] v=bf16[1,500,1,200] lse=fp32[1,9,1]"};
    for (const char* line : lines) expect_right_on(1, line, "slots");
}

// Rows of two halves; sequences and pages whose keys end anywhere; sequences without a row, between others.
TEST(AttentionDecode, ABlockGoesOnWithOtherRows) {
    const char* lines[] = {
        "q=bf16[5,3,8,64] k=fp8_e4m3[5,260,2,64] v=fp8_e4m3[5,260,2,64] kv_lengths=int32[5] "
        "out=bf16[5,3,8,64] lse=fp32[5,8,3]",
        "q=fp16[3,1,6,128] k=fp8_e5m2[3,300,2,128] v=fp8_e5m2[3,300,2,128] key_mask=uint8[3,300] "
        "out=fp16[3,1,6,128]",
        "q=bf16[4,1,6,128] k=fp8_e4m3[4,400,2,128] v=fp8_e4m3[4,400,2,128] k_scale=fp32[2] v_scale=fp32[2] "
        "out=bf16[4,1,6,128]",
        "q=bf16[1,9,4,80] k=fp8_e4m3[30,24,1,80] v=fp8_e4m3[30,24,1,80] cu_seqlens_q=int32[6] "
        "kv_lengths=int32[5] block_table=int32[5,17] out=bf16[1,9,4,80] causal=true softcap=9"};
    for (const char* line : lines) {
        for (const int sms : {1, 2}) {
            if (kSeesRaces && sms > 1) break;  // a race is between threads of a block, and one shows it
            expect_right_on(sms, line, "slots", Values::special);
        }
    }
}

// Queries of bf16 beside codes are scaled into fp16: the same bits from queries 2^n times as large whose scores are scaled by
// 2^-n, zeros and rows of different sizes among them.
TEST(AttentionDecode, QueriesOfAnySizeBesideCodes) {
    constexpr std::int64_t kRows = 5, kKeys = 40, kDim = 128;
    std::vector<std::uint8_t> codes(kKeys * kDim);
    for (std::size_t i = 0; i < codes.size(); ++i)
        codes[i] = static_cast<std::uint8_t>(i * 37 % 56 + i % 2 * 128);  // up to 1.75, of both signs
    std::vector<std::uint16_t> first;
    for (const int n : {0, 100, -20}) {
        std::vector<std::uint16_t> q(kRows * kDim), out(q.size());
        for (std::size_t i = 0; i < q.size(); ++i) {
            const int row = static_cast<int>(i / kDim);  // the last one is zeros
            if (row + 1 < kRows)
                q[i] =
                    static_cast<std::uint16_t>(((127 + n - row) << 7) | (i * 29 % 128) | (i % 3 / 2 << 15));
        }
        Attention op;
        op.q = Tensor(q.data(), DType::bf16, {1, kRows, 1, kDim}, kEmulator);
        op.k = op.v = Tensor(codes.data(), DType::fp8_e4m3, {1, kKeys, 1, kDim}, kEmulator);
        op.out = Tensor(out.data(), DType::bf16, {1, kRows, 1, kDim}, kEmulator);
        op.scale = std::ldexp(0.05f, -n);
        Context context = test::context_of(kEmulator, "flash_decode");
        run(op, context);
        if (n == 0) first = out;
        EXPECT_EQ(out, first) << n;
    }
    EXPECT_NE(std::vector(first.begin(), first.begin() + kDim), std::vector(first.end() - kDim, first.end()));
}

// Blocks of one cluster, some of which have no tile, and some of which have rows beyond the last.
TEST(AttentionDecode, AClusterSharesTheKeys) {
    for (const Values values : {Values::usual, Values::special}) {
        expect_right_on(132, "q=bf16[1,1,32,128] k=bf16[1,1025,8,128] v=bf16[1,1025,8,128] lse=fp32[1,32,1]",
                        "5 blocks share the keys", values);
        expect_right_on(132, "q=fp16[1,10,8,256] k=fp16[1,978,1,256] v=fp16[1,978,1,256] lse=fp32[1,8,10]",
                        "8 blocks share the keys", values);
        expect_right_on(132,
                        "q=bf16[3,1,4,72] k=bf16[3,900,2,72] v=bf16[3,900,2,72] kv_lengths=int32[3] "
                        "key_mask=uint8[3,900] lse=fp32[3,4,1]",
                        "blocks share the keys", values);
        expect_right_on(
            132,
            "q=fp16[1,5,6,64] k=fp16[1,1300,2,64] v=fp16[1,1300,2,64] causal=true window_left=600 "
            "softcap=9 sinks=fp32[6] key_limits=int32[1,5]",
            "blocks share the keys", values);
    }
}

TEST(AttentionDecode, SplitsAreMerged) {
    expect_right_on(40, "q=bf16[1,2,8,128] k=bf16[1,3000,1,128] v=bf16[1,3000,1,128] lse=fp32[1,8,2]",
                    " splits");
    expect_right_on(
        40,
        "q=fp16[1,1,8,72] k=fp16[1,2800,1,72] v=fp16[1,2800,1,72] kv_lengths=int32[1] sinks=fp32[8] "
        "lse=fp32[1,8,1]",
        " splits", Values::special);
}

// A page of which a tile holds several, one that holds several tiles, and one of more sequences than blocks of rows.
TEST(AttentionDecode, KeysInPagesAndPackedSequences) {
    const char* lines[] = {
        "q=bf16[3,1,8,128] k=bf16[60,16,2,128] v=bf16[60,16,2,128] block_table=int32[3,40] "
        "kv_lengths=int32[3] lse=fp32[3,8,1]",
        "q=fp16[2,2,4,64] k=fp16[9,256,1,64] v=fp16[9,256,1,64] block_table=int32[2,6]{9,1} "
        "kv_lengths=int32[2] causal=true",
        "q=bf16[1,9,4,72] k=bf16[30,24,1,72] v=bf16[30,24,1,72] cu_seqlens_q=int32[6] "
        "kv_lengths=int32[5] block_table=int32[5,17] lse=fp32[1,4,9] causal=true",
        "q=fp16[1,20,2,128] k=fp16[1,900,1,128] v=fp16[1,900,1,128] cu_seqlens_q=int32[4] "
        "cu_seqlens_k=int32[4] lse=fp32[1,2,20]"};
    for (const char* line : lines) {
        for (const int sms : {20, 132}) expect_right_on(sms, line, "rows and keys", Values::special);
    }
}

TEST(AttentionDecode, RightInAnyOrderOfItsThreads) {
    test::expect_right("attention q=bf16[1,1,8,128] k=bf16[1,300,1,128] v=bf16[1,300,1,128]", "flash_decode",
                       "3 blocks share the keys");
    test::expect_right(
        "attention q=fp16[2,1,4,64] k=fp16[2,260,1,64] v=fp16[2,260,1,64] key_mask=uint8[2,260] causal=true",
        "flash_decode", "keys of 64 columns");
}
#endif

}  // namespace
}  // namespace weft
