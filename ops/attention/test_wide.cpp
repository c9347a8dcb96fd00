// attention of wide rows and of fp8: policies, and the kernels in the emulator by their names.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "ops/attention/decode.h"
#include "ops/attention/test_config.h"
#include "ops/attention/wgmma.h"
#include "ops/attention/wide.h"
#include "ops/attention/widen.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string wide(const std::string& line, const char* device = "h200") {
    return test::reason_of(attention::decline_wide, "attention " + line, device);
}
std::string widened(const std::string& line, const char* device = "h200") {
    return test::reason_of(attention::decline_widened, "attention " + line, device);
}

TEST(AttentionWide, TakesWhatFitsIntoSharedMemory) {
    EXPECT_EQ(wide("q=bf16[1,4,4,1024] k=bf16[1,9,2,1024] v=bf16[1,9,2,1024]"), "accepts");
    EXPECT_EQ(wide("q=bf16[1,4,4,33] k=fp8_e5m2[1,9,2,33] v=fp8_e5m2[1,9,2,7]"), "accepts");
    EXPECT_THAT(wide("q=fp32[1,4,4,64] k=fp32[1,9,2,64] v=fp32[1,9,2,64]"), HasSubstr("bf16, fp16 and fp8"));
    EXPECT_THAT(wide("q=fp16[1,4,4,64] k=fp16[1,9,2,64] v=fp16[1,9,2,64]", "t4"), HasSubstr("SM 8.0"));
    EXPECT_THAT(wide("q=fp16[1,4,4,1024] k=fp16[1,9,2,1024] v=fp16[1,9,2,64]", "rtx4090"),
                HasSubstr("do not fit"));
    EXPECT_THAT(wide("q=bf16[1,4,4,64] k=fp8_e4m3[1,9,2,64] v=fp8_e4m3[1,9,2,64] k_scale=fp32[2]{600000000}"),
                HasSubstr("further than 2^30"));
    EXPECT_EQ(wide("q=bf16[1,4,4,64] k=fp8_e4m3[1,9,2,64] v=fp8_e4m3[1,9,2,64] k_scale=fp32[2]{500000000}"),
              "accepts");
    EXPECT_EQ(wide("q=fp16[1,4,4,768] k=fp16[1,9,2,768] v=fp16[1,9,2,64]", "rtx4090"), "accepts");
}

TEST(AttentionWide, SaysWhichCodesItWidens) {
    const std::string shape = "[1,300,2,128] ", scales = "k_scale=fp32[2]";
    EXPECT_EQ(widened("q=fp8_e4m3" + shape + "k=fp8_e4m3" + shape + "v=fp8_e4m3" + shape + scales),
              "accepts");
    EXPECT_EQ(widened("q=bf16" + shape + "k=fp8_e4m3" + shape + "v=fp8_e4m3" + shape + scales), "accepts");
    EXPECT_THAT(widened("q=bf16" + shape + "k=bf16" + shape + "v=bf16" + shape), HasSubstr("as they are"));
    EXPECT_THAT(widened("q=bf16" + shape +
                        "k=fp8_e4m3[9,16,2,128] v=fp8_e4m3[9,16,2,128] "
                        "kv_lengths=int32[1] block_table=int32[1,4]"),
                HasSubstr("pages"));
    EXPECT_THAT(widened("q=fp16" + shape + "k=fp8_e5m2" + shape + "v=fp8_e5m2" + shape),
                HasSubstr("scores of e5m2"));
    EXPECT_EQ(widened("q=bf16" + shape + "k=fp8_e5m2" + shape + "v=fp8_e5m2" + shape), "accepts");
    EXPECT_THAT(widened("q=bf16[1,300,2,76] k=fp8_e4m3[1,300,2,76] v=fp8_e4m3[1,300,2,76]"),
                HasSubstr("whole eights"));
    EXPECT_THAT(widened("q=bf16" + shape + "k=fp8_e4m3" + shape + "v=fp8_e4m3[1,300,2,128]+4 "),
                HasSubstr("whole eights"));
    EXPECT_THAT(widened("q=bf16[64,1,16,128] k=fp8_e4m3[64,1100000,2,128] v=fp8_e4m3[64,1100000,2,128]"),
                HasSubstr("2^31 eights"));
    EXPECT_THAT(widened("q=bf16[1,300,2,192] k=fp8_e4m3[1,300,2,192] v=fp8_e4m3[1,300,2,128]"),
                HasSubstr("another width"));
    EXPECT_THAT(
        widened("q=bf16[1,300,2,128] k=fp8_e4m3" + shape + "v=fp8_e4m3" + shape + "cu_seqlens_q=int32[3]"),
        HasSubstr("packed sequences"));
    EXPECT_THAT(widened("q=bf16" + shape + "k=fp8_e4m3" + shape + "v=fp8_e4m3" + shape, "b200"),
                HasSubstr("SM 9.0 alone"));
}

TEST(AttentionWide, SaysWhichNarrowValuesGoToWgmma) {
    const auto reason = [](const std::string& line) {
        return test::reason_of(attention::decline_wgmma, "attention " + line, "h200");
    };
    EXPECT_EQ(reason("q=bf16[1,300,2,192] k=bf16[1,300,2,192] v=bf16[1,300,2,128]"), "accepts");
    EXPECT_EQ(reason("q=bf16[1,300,2,96] k=bf16[1,300,2,96] v=bf16[1,300,2,8]"), "accepts");
    EXPECT_THAT(reason("q=bf16[1,300,2,576] k=bf16[1,300,2,576] v=bf16[1,300,2,512]"),
                HasSubstr("up to 192"));
    EXPECT_THAT(reason("q=bf16[1,300,2,192] k=bf16[1,300,2,192] v=bf16[1,300,2,136]"),
                HasSubstr("up to 128"));
    EXPECT_THAT(reason("q=bf16[1,300,2,192] k=bf16[1,300,2,192] v=bf16[1,300,2,124]"),
                HasSubstr("whole chunks"));
    EXPECT_THAT(reason("q=bf16[1,300,2,64] k=bf16[1,300,2,64] v=bf16[1,300,2,128]"),
                HasSubstr("alike in width"));
    EXPECT_THAT(reason("q=bf16[1,300,2,192] k=fp8_e4m3[1,300,2,192] v=fp8_e4m3[1,300,2,128]"),
                HasSubstr("bf16 or fp16"));
    EXPECT_THAT(reason("q=bf16[1,300,2,192] k=bf16[1,300,2,192] v=bf16[1,300,2,128] window_left=9"),
                HasSubstr("no windows"));
}

attention::Problem problem_of(std::int64_t heads, std::int64_t rows, std::int64_t keys, int head_dim,
                              int v_dim, int bits = 16) {
    attention::Problem problem;
    problem.heads = heads, problem.rows = rows, problem.keys = keys;
    problem.head_dim = head_dim, problem.v_dim = v_dim, problem.stored_bits = bits;
    return problem;
}

TEST(AttentionWide, HoldsAsManyRowsAsFitAndDividesKeysOverIdleMultiprocessors) {
    const DeviceInfo &h200 = *find_device("h200"), &rtx = *find_device("rtx4090");
    const attention::WideConfig usual = attention::choose_wide(problem_of(200, 4096, 4096, 320, 320), h200);
    EXPECT_EQ(usual.tile.rows(), 64);
    EXPECT_EQ(usual.slots, 8);
    EXPECT_EQ(usual.splits, 1);
    EXPECT_EQ(attention::choose_wide(problem_of(200, 4096, 4096, 1024, 512), h200).slots, 5);
    EXPECT_EQ(attention::choose_wide(problem_of(200, 4096, 4096, 512, 513), h200).tile.rows(), 32)
        << "the output of more columns needs the registers of fewer rows";
    EXPECT_EQ(attention::choose_wide(problem_of(200, 4096, 4096, 768, 64), rtx).tile.rows(), 32)
        << "queries of 64 rows leave no room for a ring";
    EXPECT_EQ(attention::choose_wide(problem_of(200, 4096, 4096, 384, 64), rtx).tile.rows(), 32)
        << "one of two slots has nothing on its way beside the item in use";
    EXPECT_EQ(attention::choose_wide(problem_of(200, 4096, 4096, 256, 256), rtx).slots, 3);
    EXPECT_EQ(attention::choose_wide(problem_of(200, 4096, 4096, 768, 64), rtx).slots, 2);
    EXPECT_EQ(attention::choose_wide(problem_of(1, 16, 65536, 576, 512), h200).splits, attention::kMaxSplits);
    EXPECT_EQ(attention::choose_wide(problem_of(1, 16, 64, 576, 512), h200).splits, 1) << "there is one tile";
    for (const int head_dim : {1, 128, 576, 1024}) {
        for (const int v_dim : {1, 512, 513, 1024}) {
            for (const int bits : {8, 16}) {
                const auto config =
                    attention::choose_wide(problem_of(1, 64, 640, head_dim, v_dim, bits), h200);
                EXPECT_LE(config.shared_bytes(), h200.shared_per_block) << head_dim << " " << v_dim;
                EXPECT_GE(config.tile.columns, v_dim);
            }
        }
    }
}

TEST(AttentionWide, DecodeBringsWholeBoxesOfCodes) {
    const DeviceInfo& h200 = *find_device("h200");
    EXPECT_EQ(attention::choose_decode(problem_of(8, 4, 8192, 64, 64, 8), h200).tile.head_dim, 128);
    EXPECT_EQ(attention::choose_decode(problem_of(8, 4, 8192, 64, 64), h200).tile.head_dim, 64);
    const attention::DecodeConfig config =
        attention::choose_decode(problem_of(8, 4, 8192, 256, 256, 8), h200);
    EXPECT_EQ(config.tile.boxes(), 2);
    EXPECT_LE(config.tile.shared_bytes(), h200.shared_per_block);
}

TEST(AttentionWide, FactorsOfBytesAndFlopsKnowBothWidths) {
    Case c = Case::parse(
        "attention q=bf16[1,7,4,192] k=fp8_e4m3[1,9,2,192] v=fp8_e4m3[1,9,2,128] k_scale=fp32[2]");
    c.infer();
    c.with_call(kCuda, [&](const void* call) {
        const Work work = attention::work(*static_cast<const Attention*>(call));
        EXPECT_EQ(work.flops, 2.0 * 7 * 4 * 9 * (192 + 128));
        EXPECT_EQ(work.bytes, 2 * 7 * 4 * 192 + 9 * 2 * (192 + 128) + 2 * 4 + 2 * 7 * 4 * 128);
    });
}

#if WEFT_HAS_EMULATOR

// By one implementation, on a device with so much shared memory for a block (0: its own), with all kinds of values.
void expect_right(const std::string& implementation, const std::string& line, int shared = 0, int sms = 0) {
    Case c = Case::parse(line);
    c.infer();
    Context context = test::context_of(kEmulator, implementation);
    DeviceInfo info = context.info();
    if (shared > 0) info.shared_per_block = shared;
    if (sms > 0) info.sms = sms;
    context.set_info(info);
    for (const Values values : {Values::usual, Values::wide, Values::special, Values::rising}) {
        const Outcome outcome = verify(c, context, 7, values);
        EXPECT_TRUE(outcome.passed) << implementation << ": " << line << "\n" << outcome.why;
        if (kSeesRaces) return;
    }
}

TEST(AttentionWide, IsRightInEveryTile) {
    const std::string tail[] = {
        // a chunk of keys and a part, values of another number of chunks; rows of one tile of 16, of some, of two blocks
        "q=bf16[1,5,3,150] k=bf16[1,150,1,150] v=bf16[1,150,1,300] out=bf16[1,5,3,300] lse=fp32[1,3,5]",
        "q=fp16[2,20,2,130] k=fp16[2,100,1,130] v=fp16[2,100,1,70] out=fp16[2,20,2,70] causal=true",
        "q=bf16[1,70,2,64] k=bf16[1,70,2,64] v=bf16[1,70,2,64] out=bf16[1,70,2,64] window_left=20 "
        "window_right=3",
        // more than 512 columns
        "q=fp16[1,40,1,600] k=fp16[1,130,1,600] v=fp16[1,130,1,1000] out=fp16[1,40,1,1000] softcap=5",
        "q=bf16[1,9,1,8] k=bf16[1,70,1,8] v=bf16[1,70,1,520] out=bf16[1,9,1,520]",
        // codes, of which a chunk of 16 bytes holds 16
        "q=fp8_e4m3[1,70,4,128] k=fp8_e4m3[1,130,2,128] v=fp8_e4m3[1,130,2,136] q_scale=fp32[2] "
        "k_scale=fp32[2] "
        "v_scale=fp32[2] out=bf16[1,70,4,136]",
        "q=fp8_e5m2[1,3,2,40] k=fp8_e5m2[1,70,2,40] v=fp8_e5m2[1,70,2,600] q_scale=fp32[2]{0} "
        "out=fp16[1,3,2,600] "
        "sinks=fp32[2] lse=fp32[1,2,3]",
        "q=bf16[1,33,2,257] k=fp8_e4m3[1,70,1,257] v=fp8_e4m3[1,70,1,30] v_scale=fp32[1] out=bf16[1,33,2,30]",
        // hidden keys, pages, packed sequences
        "q=bf16[2,5,2,200] k=bf16[2,150,1,200] v=bf16[2,150,1,128] key_mask=uint8[2,150] kv_lengths=int32[2] "
        "out=bf16[2,5,2,128]",
        "q=fp16[2,5,2,320] k=fp8_e4m3[9,16,1,320] v=fp8_e4m3[9,16,1,320] kv_lengths=int32[2] "
        "block_table=int32[2,8] k_scale=fp32[1] out=fp16[2,5,2,320]",
        "q=bf16[1,90,2,192] k=bf16[1,120,2,192] v=bf16[1,120,2,64] cu_seqlens_q=int32[4] "
        "cu_seqlens_k=int32[4] "
        "out=bf16[1,90,2,64] causal=true",
        "q=fp8_e5m2[1,16,1,64] k=fp8_e5m2[1,70,1,64] v=fp8_e5m2[1,70,1,64] out=fp16[1,16,1,64] scale=1",
        "q=bf16[1,5,2,72] k=bf16[1,0,2,72] v=bf16[1,0,2,30] sinks=fp32[2] out=bf16[1,5,2,30] lse=fp32[1,2,5]",
    };
    for (const std::string& line : tail) expect_right("flash_wide", "attention " + line);
}

// As a device with less shared memory has: rings of fewer slots, down to two.
TEST(AttentionWide, IsRightWithFewerSlots) {
    const std::string line =
        "attention q=bf16[1,40,2,256] k=bf16[1,200,2,256] v=bf16[1,200,2,128] out=bf16[1,40,2,128]";
    expect_right("flash_wide", line, 130 << 10);
    expect_right("flash_wide", line, 100 << 10);
    expect_right("flash_wide", line, 65 << 10);
}

// Splits whose results are merged, each with its own part of the keys, one of them the sinks'.
TEST(AttentionWide, IsRightInSplits) {
    expect_right(
        "flash_wide",
        "attention q=fp8_e4m3[1,2,16,576] k=fp8_e4m3[1,500,1,576] v=fp8_e4m3[1,500,1,512] k_scale=fp32[1] "
        "v_scale=fp32[1] sinks=fp32[16] out=bf16[1,2,16,512] lse=fp32[1,16,2]",
        0, 132);
    expect_right("flash_wide",
                 "attention q=bf16[1,3,2,72] k=bf16[1,500,1,72] v=bf16[1,500,1,75] out=bf16[1,3,2,75]", 0,
                 132);
}

TEST(AttentionWide, NarrowValuesAreRightOnWgmma) {
    for (const char* line :
         {"attention q=bf16[1,150,2,192] k=bf16[1,700,1,192] v=bf16[1,700,1,128] out=bf16[1,150,2,128] "
          "lse=fp32[1,2,150]",
          "attention q=fp16[2,150,1,136] k=fp16[2,150,1,136] v=fp16[2,150,1,72] kv_lengths=int32[2] "
          "out=fp16[2,150,1,72] causal=true",
          "attention q=bf16[2,300,1,64] k=bf16[2,300,1,64] v=bf16[2,300,1,8] key_mask=uint8[2,300] "
          "out=bf16[2,300,1,8]"}) {
        expect_right("flash_wgmma", line);
        expect_right("flash_wgmma", line, 0, 2);  // which goes on with other rows
    }
}

TEST(AttentionWide, CodesAreRightForFewRows) {
    for (const char* line :
         {"attention q=bf16[2,1,8,128] k=fp8_e4m3[2,700,2,128] v=fp8_e4m3[2,700,2,128] k_scale=fp32[2] "
          "v_scale=fp32[2] out=bf16[2,1,8,128] lse=fp32[2,8,1]",
          "attention q=fp16[1,3,8,256] k=fp8_e5m2[1,300,1,256] v=fp8_e5m2[1,300,1,256] key_mask=uint8[1,300] "
          "v_scale=fp32[1] out=fp16[1,3,8,256] softcap=4",
          "attention q=fp8_e4m3[2,2,6,64] k=fp8_e4m3[40,16,2,64] v=fp8_e4m3[40,16,2,64] kv_lengths=int32[2] "
          "block_table=int32[2,20] q_scale=fp32[2] k_scale=fp32[2] v_scale=fp32[2] out=bf16[2,2,6,64] "
          "causal=true",
          "attention q=fp8_e5m2[1,1,4,240] k=fp8_e5m2[1,200,1,240] v=fp8_e5m2[1,200,1,240] "
          "out=fp16[1,1,4,240]"}) {
        expect_right("flash_decode", line);
    }
}

TEST(AttentionWide, WidenedCodesAreRight) {
    for (const char* line :
         {"attention q=fp8_e4m3[2,70,6,128] k=fp8_e4m3[2,300,2,128] v=fp8_e4m3[2,300,2,128] q_scale=fp32[2] "
          "k_scale=fp32[2] v_scale=fp32[2] out=bf16[2,70,6,128] lse=fp32[2,6,70] causal=true",
          "attention q=bf16[1,300,2,72] k=fp8_e5m2[1,300,2,72] v=fp8_e5m2[1,300,2,72] v_scale=fp32[2] "
          "key_mask=uint8[1,300] out=bf16[1,300,2,72]",
          "attention q=bf16[1,40,2,256] k=fp8_e4m3[1,200,2,256]{204800,512,256,1} v=fp8_e4m3[1,200,2,256] "
          "k_scale=fp32[2] out=bf16[1,40,2,256] window_left=50",
          "attention q=fp8_e4m3[1,30,1,64] k=fp8_e4m3[1,900,1,64] v=fp8_e4m3[1,900,1,64] v_scale=fp32[1] "
          "sinks=fp32[1] out=fp16[1,30,1,64]"}) {
        expect_right("flash_widened", line);
        expect_right("flash_widened", line, 0, 132);  // in splits that are merged, or clusters
    }
}

#endif

}  // namespace
}  // namespace weft
