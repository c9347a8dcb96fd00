// grouped_gemm on wgmma: what it takes, and the kernel in the emulator by its name.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/grouped_gemm/wgmma.h"
#include "tests/ops/combined.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string reason(const std::string& operands, const char* device = "h200") {
    Case c = Case::parse("grouped_gemm " + operands);
    c.infer();
    std::string why;
    c.with_call(kCuda, [&](const void* call) {
        const char* said =
            grouped::wgmma_decline(*static_cast<const GroupedGemm*>(call), *find_device(device));
        why = said == nullptr ? "accepts" : said;
    });
    return why;
}

TEST(GroupedGemmWgmma, SaysWhatItTakes) {
    const std::string ends = " group_ends=int32[3] ", counts = " counts=int32[3] ";
    for (const std::string& operands : {
             "a=bf16[20,40] b=bf16[3,16,40]" + ends + "out=fp16[20,16]",
             "a=fp16[20,40]{48,1} b=fp16[3,16,40]{1024,64,1}" + ends +
                 "bias=fp32[3,16] out=bf16[20,16]{24,1}",
             "a=bf16[3,20,40]{1600,80,1} b=bf16[3,16,40]" + counts + "out=bf16[3,20,16]{640,24,1}",
             "a=bf16[20,40] b=bf16[3,16,40]{1280,40,1} up=bf16[3,16,40]{1280,40,1}" + ends +
                 "out=bf16[20,16]",
             "a=fp8_e4m3[20,256] b=fp8_e4m3[3,16,256]" + ends +
                 "a_group_scale=fp32[20,2]{1,20} b_block_scale=fp32[3,1,2] out=bf16[20,16]",
             std::string("a=bf16[20,8] b=bf16[1,8,8] group_ends=int32[1] out=bf16[20,8]"),
         })
        EXPECT_EQ(reason(operands), "accepts") << operands;
    const std::string plain = "a=bf16[20,64] b=bf16[3,16,64]" + ends + "out=bf16[20,16]";
    EXPECT_THAT(reason(plain, "a100"), HasSubstr("SM 9.0 alone"));
    EXPECT_THAT(reason(plain, "b200"), HasSubstr("SM 9.0 alone"));
    EXPECT_THAT(reason("a=bf16[20,0] b=bf16[3,16,0]" + ends + "out=bf16[20,16]"), HasSubstr("k is 0"));
    EXPECT_THAT(reason("a=bf16[20,64] b=bf16[0,16,64] group_ends=int32[0] out=bf16[20,16]"),
                HasSubstr("no groups"));
    for (const std::string& operands : {
             "a=bf16[20,60] b=bf16[3,16,60]" + ends + "out=bf16[20,16]",
             "a=bf16[20,64]+1 b=bf16[3,16,64]" + ends + "out=bf16[20,16]",
             "a=bf16[20,64]{549755813888,1} b=bf16[3,16,64]" + ends + "out=bf16[20,16]",
             "a=bf16[20,64]{32,1} b=bf16[3,16,64]" + ends + "out=bf16[20,16]",
             "a=bf16[3,20,64]{1284,64,1} b=bf16[3,16,64]" + counts + "out=bf16[3,20,16]",
         })
        EXPECT_THAT(reason(operands), HasSubstr("k contiguous, 16-byte aligned")) << operands;
    EXPECT_THAT(
        reason("a=bf16[20,64] b=bf16[3,16,64] up=bf16[3,16,64]{2048,64,1}" + ends + "out=bf16[20,16]"),
        HasSubstr("different strides"));
    EXPECT_THAT(reason("a=bf16[20,64] b=bf16[3,16,64] up=@b" + ends + "out=bf16[20,16]"),
                HasSubstr("too far apart"));
    // Rows 2^37 bytes apart, of which a map would step over eight at once; and up beyond them, or at the next element.
    const std::string far = "=bf16[3,16,64]{64,68719476736,1} ";
    Case c = Case::parse("grouped_gemm a=bf16[20,64] b" + far + "up" + far + ends + "out=bf16[20,16]");
    c.infer();
    c.with_call(kCuda, [&](const void* call) {
        GroupedGemm op = *static_cast<const GroupedGemm*>(call);
        EXPECT_THAT(grouped::wgmma_decline(op, *find_device("h200")), HasSubstr("too far apart"));
        op.up.data = static_cast<char*>(op.b.data) + 16;
        EXPECT_THAT(grouped::wgmma_decline(op, *find_device("h200")), HasSubstr("too far apart"));
    });
    for (const std::string& out : {ends + "out=bf16[20,16]{20,1}", ends + "out=bf16[20,16]+1"})
        EXPECT_EQ(reason("a=bf16[20,64] b=bf16[3,16,64]" + out), "accepts") << out;
    EXPECT_EQ(reason("a=bf16[20,64] b=bf16[3,7,64]" + ends + "out=bf16[20,7]{8,1}"), "accepts");
    EXPECT_EQ(reason("a=bf16[3,20,64] b=bf16[3,16,64]" + counts + "out=bf16[3,20,16]{324,16,1}"), "accepts");
    EXPECT_EQ(reason("a=bf16[20,64] b=bf16[3,7,64] up=bf16[3,7,64]" + ends + "out=bf16[20,7]"), "accepts");
}

// Of 16 bits, without up, and at places and over rows that the copy engine reads.
TEST(GroupedGemmWgmma, TakesWeightsOfContiguousFeatures) {
    const std::string ends = " group_ends=int32[3] out=bf16[20,16]";
    EXPECT_EQ(reason("a=bf16[20,64] b=bf16[3,16,64]{1024,1,16}" + ends), "accepts");
    EXPECT_EQ(reason("a=fp16[3,20,64] b=fp16[3,15,64]{2048,1,24} counts=int32[3] bias=fp16[3,15] "
                     "out=bf16[3,20,15]"),
              "accepts");
    for (const char* weights : {
             "fp8_e4m3[3,16,64]{1024,1,16}",
             "bf16[3,16,64]{1024,1,16} up=bf16[3,16,64]{1024,1,16}",
             "bf16[3,16,64]{1024,1,16}+1",
             "bf16[3,16,64]{1280,1,20}",
             "bf16[3,16,64]{1028,1,16}",
             "bf16[3,16,64]{1024,1,8}",
             "bf16[3,16,64]{2048,2,32}",
         }) {
        const std::string a = weights[0] == 'f' ? "a=fp8_e4m3[20,64] b=" : "a=bf16[20,64] b=";
        EXPECT_THAT(reason(a + weights + ends), HasSubstr("k contiguous, 16-byte aligned")) << weights;
    }
}

std::string planned(const std::string& operands) {
    Case c = Case::parse("grouped_gemm " + operands);
    c.infer();
    std::string config;
    c.with_call(kCuda, [&](const void* call) {
        config = grouped::to_string(
            grouped::wgmma_config(*static_cast<const GroupedGemm*>(call), *find_device("h200")));
    });
    return config;
}

TEST(GroupedGemmWgmma, TilesAreAsWideAsGroupsAreLong) {
    const auto masked = [](int groups, int expected) {
        return planned(
            fmt::format("a=bf16[{0},4096,2048] b=bf16[{0},4096,2048] counts=int32[{0}] "
                        "out=bf16[{0},4096,4096] expected_rows={1}",
                        groups, expected));
    };
    EXPECT_THAT(masked(6, 1024), HasSubstr("128x256 tiles, 3 stages, pairs"));
    EXPECT_THAT(masked(32, 192), HasSubstr("128x192 tiles, 4 stages, pairs"));
    EXPECT_THAT(masked(32, 20), HasSubstr("128x64 tiles, 8 stages, pairs"));
    EXPECT_THAT(masked(32, 100), HasSubstr("128x128 tiles, 6 stages, pairs"));
    EXPECT_THAT(planned("a=bf16[160,2048] b=bf16[8,4096,2048] group_ends=int32[8] out=bf16[160,4096]"),
                HasSubstr("128x64 tiles"));
    // One tile of features has no other to share its tokens with.
    EXPECT_THAT(planned("a=bf16[8192,64] b=bf16[4,128,64] group_ends=int32[4] out=bf16[8192,128]"),
                HasSubstr("single blocks"));
}

#if WEFT_HAS_EMULATOR
void expect_right(const std::string& operands, const std::string& config, Values values = Values::usual) {
    test::expect_right("grouped_gemm " + operands, "wgmma", config, values);
}

// The emulator's card has four multiprocessors.
TEST(GroupedGemmWgmma, EveryTileAloneAndInPairs) {
    struct Kind {
        const char *dtype, *scales;
        int k;
    };
    struct Shape {
        int m, n, tokens;
        const char* blocks;
        bool gated;
    };
    const std::vector<Kind> kinds = {{"bf16", "", 72},
                                     {"fp8_e4m3", "a_scale=fp32[1] ", 144},
                                     {"fp8_e4m3", "b_block_scale=fp32[2,{},2] ", 144}};
    const std::vector<Shape> shapes = {
        {1024, 64, 256, "single blocks", true},    {768, 64, 192, "single blocks", true},
        {512, 64, 128, "single blocks", true},     {128, 64, 64, "single blocks", true},
        {512, 256, 256, "pairs of blocks", true},  {384, 256, 192, "pairs of blocks", true},
        {256, 256, 128, "pairs of blocks", true},  {128, 256, 64, "pairs of blocks", true},
        {1024, 128, 256, "single blocks", false},  {768, 128, 192, "single blocks", false},
        {512, 128, 128, "single blocks", false},   {256, 128, 64, "single blocks", false},
        {512, 512, 256, "pairs of blocks", false}, {384, 512, 192, "pairs of blocks", false},
        {256, 512, 128, "pairs of blocks", false}, {128, 512, 64, "pairs of blocks", false}};
    for (const auto& [kind, shape] : test::combined(kinds, shapes)) {
        const auto [m, n, tokens, blocks, gated] = shape;
        const std::string b = fmt::format("={}[2,{},{}] ", kind.dtype, n, kind.k);
        const std::string line = fmt::format("a={}[{},{}] b{}", kind.dtype, m, kind.k, b) +
                                 (gated ? "up" + b : "") +
                                 fmt::format(fmt::runtime(kind.scales), (n + 127) / 128) +
                                 fmt::format("group_ends=int32[2] out=bf16[{},{}]", m, n);
        const bool scaled = line.find("block_scale") != std::string::npos;
        const std::string tiles = fmt::format("128x{} tiles", !scaled         ? tokens
                                                              : tokens == 192 ? 64
                                                                              : std::min(tokens, 128));
        test::expect_right("grouped_gemm " + line, "wgmma",
                           testing::AllOf(HasSubstr(tiles), HasSubstr(scaled ? "" : blocks)));
    }
}

TEST(GroupedGemmWgmma, AScaleOfUpAlone) {
    expect_right(
        "a=fp8_e4m3[40,64] b=fp8_e4m3[2,16,64] up=fp8_e4m3[2,16,64] up_scale=fp32[2] group_ends=int32[2] "
        "out=bf16[40,16]",
        "128x64 tiles");
}

TEST(GroupedGemmWgmma, MoreTilesThanBlocksAndMoreStepsThanStages) {
    expect_right(
        "a=bf16[300,650]{656,1} b=bf16[3,520,650]{341120,656,1} group_ends=int32[3] bias=bf16[3,520] "
        "out=bf16[300,520]",
        "");
    expect_right(
        "a=fp16[5,70,330]{23520,336,1} b=fp16[5,104,330]{34944,336,1} counts=int32[5] "
        "out=fp16[5,70,104]{8400,112,1}",
        "");
    expect_right(
        "a=bf16[500,330]{336,1} b=bf16[2,176,330]{59136,336,1} up=bf16[2,176,330]{59136,336,1} "
        "group_ends=int32[2] up_bias=fp32[2,176] out=bf16[500,176]",
        "");
    // Gated matrices that end within eight rows.
    for (const char* n : {"1", "7", "66", "127"})
        expect_right(fmt::format("a=bf16[200,72] b=bf16[2,{0},72] up=bf16[2,{0},72] group_ends=int32[2] "
                                 "out=bf16[200,{0}]",
                                 n),
                     "");
    // More tokens than are computed together: the weights come again.
    expect_right("a=bf16[2500,16] b=bf16[1,16,16] group_ends=int32[1] out=bf16[2500,16]", "");
}

// Weights of n contiguous: in pairs and alone, by every width that has a kernel, of more steps than stages, whose last one and
// whose last features are not whole.
TEST(GroupedGemmWgmma, WeightsOfContiguousFeatures) {
    const auto line = [](const char* dtype, int m, int n, int k) {
        const int stride = (n + 7) / 8 * 8;
        return fmt::format(
            "a={0}[{1},{2}]{{{3},1}} b={0}[2,{4},{2}]{{{5},1,{6}}} group_ends=int32[2] out={0}[{1},{4}]",
            dtype, m, k, (k + 7) / 8 * 8, n, stride * k, stride);
    };
    expect_right(line("bf16", 1024, 128, 72), "128x256 tiles, 3 stages, single blocks, n contiguous");
    expect_right(line("fp16", 512, 128, 72), "128x128 tiles, 6 stages, single blocks, n contiguous");
    expect_right(line("bf16", 256, 128, 72), "128x64 tiles, 8 stages, single blocks, n contiguous");
    expect_right(line("bf16", 512, 512, 72), "128x256 tiles, 3 stages, pairs of blocks, n contiguous");
    expect_right(line("fp16", 384, 512, 72), "n contiguous");  // where tiles of 192 tokens have none
    expect_right(line("bf16", 100, 8, 8), "n contiguous");
    expect_right(line("bf16", 100, 71, 650), "n contiguous");
    expect_right(
        "a=bf16[3,70,72] b=bf16[3,136,72]{9792,1,136} counts=int32[3] bias=bf16[3,136] out=bf16[3,70,136] "
        "activation=silu",
        "n contiguous");
    expect_right(line("bf16", 200, 200, 130), "n contiguous", Values::special);
}

// The copy engine writes rows of whole 16 bytes at such places; a warp stores all others.
TEST(GroupedGemmWgmma, RowsOfResultsBeginAnywhere) {
    for (const int n : {1, 7, 63, 66, 131}) {
        const std::string operands = fmt::format("a=bf16[3,140,24] b=bf16[3,{},24] ", n);
        expect_right(operands + fmt::format("out=bf16[3,140,{}]", n), "");
        expect_right(operands + fmt::format("counts=int32[3] out=bf16[3,140,{0}]{{{1},{2},1}}+1", n,
                                            141 * (n + 3), n + 3),
                     "");
    }
    expect_right(
        "a=bf16[300,40] b=bf16[3,72,40] up=bf16[3,72,40] group_ends=int32[3] out=fp16[300,72]{75,1}+3", "");
}

TEST(GroupedGemmWgmma, EveryEpilogue) {
    for (const std::string activation : {"none", "gelu_tanh", "gelu_erf", "silu"}) {
        for (const std::string& bias : {std::string(), std::string("bias=fp16[2,136] ")}) {
            for (const std::string& up :
                 {std::string(), std::string("up=bf16[2,136,32] up_bias=bf16[2,136] ")}) {
                const std::string line = "a=bf16[2,40,32] b=bf16[2,136,32] counts=int32[2] " + bias + up +
                                         "out=fp16[2,40,136] activation=" + activation;
                expect_right(line, "");
                expect_right(line, "", Values::special);
            }
        }
    }
}

TEST(GroupedGemmWgmma, ScalesOfGroupsAndBlocks) {
    for (const auto& [a_scale, b_scale] :
         test::combined(test::Words{"", "a_scale=fp32[1] ", "a_group_scale=fp32[200,3]{1,208} "},
                        test::Words{"", "b_scale=fp32[4] ", "b_block_scale=fp32[4,2,3] "})) {
        const std::string line =
            "a=fp8_e4m3[200,272] b=fp8_e4m3[4,136,272] group_ends=int32[4] " + a_scale + b_scale;
        expect_right(line + "out=bf16[200,136]", "");
        expect_right(line + "up=fp8_e4m3[4,136,272] up_block_scale=fp32[4,2,3] out=bf16[200,136]", "");
    }
    expect_right(
        "a=fp8_e4m3[3,50,272] b=fp8_e4m3[3,136,272] a_group_scale=fp32[3,50,3]{150,1,50} "
        "b_block_scale=fp32[3,2,3] out=bf16[3,50,136]",
        "groups scaled");
    expect_right(
        "a=fp8_e4m3[4,50,272] b=fp8_e4m3[4,136,272] counts=int32[4] a_group_scale=fp32[4,50,3]{150,1,50} "
        "b_block_scale=fp32[4,2,3] out=bf16[4,50,136]",
        "groups scaled");
}
#endif

}  // namespace
}  // namespace weft
