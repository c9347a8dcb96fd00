// gemm on wgmma: its policy, and the kernel in the emulator by its name.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/gemm/wgmma.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

template <class Use>
void with_gemm(const std::string& line, Use use) {
    Case c = Case::parse(line);
    c.infer();
    c.with_call(kCuda, [&](const void* call) { use(*static_cast<const Gemm*>(call)); });
}

std::string reason(const std::string& operands, const char* device = "h200") {
    std::string why;
    with_gemm("gemm " + operands, [&](const Gemm& op) {
        const char* said = gemm::wgmma_decline(op, *find_device(device));
        why = said == nullptr ? "accepts" : said;
    });
    return why;
}

TEST(GemmWgmma, SaysWhatItTakes) {
    EXPECT_EQ(reason("a=bf16[17,40] b=bf16[3,40] out=fp8_e5m2[17,3] activation=gelu_erf"), "accepts");
    EXPECT_EQ(reason("a=fp16[2,9,40]{432,48,1} b=fp16[9,40]{48,1} up=fp16[9,40] out=fp32[2,9,9]"), "accepts");
    EXPECT_EQ(reason("a=fp8_e5m2[99,16] b=fp8_e4m3[9,16] out=bf16[99,9] fast_accumulation=true"), "accepts");
    EXPECT_EQ(reason("a=bf16[99,7]{8,1} b=bf16[1,7]{7,1} out=bf16[99,1]"), "accepts");
    EXPECT_THAT(reason("a=bf16[99,64] b=bf16[9,64] out=bf16[99,9]", "rtx4090"), HasSubstr("SM 9.0 alone"));
    EXPECT_THAT(reason("a=bf16[99,64] b=bf16[9,64] out=bf16[99,9]", "b200"), HasSubstr("SM 9.0 alone"));
    EXPECT_THAT(reason("a=fp32[99,64] b=fp32[9,64] out=fp32[99,9]"), HasSubstr("fp32 operands"));
    EXPECT_THAT(reason("a=bf16[99,0] b=bf16[9,0] out=bf16[99,9]"), HasSubstr("k is 0"));
    EXPECT_THAT(reason("a=bf16[16,64] b=bf16[9,64] out=bf16[16,9]"), HasSubstr("almost empty"));
    EXPECT_THAT(reason("a=fp8_e4m3[99,64] b=fp8_e4m3[9,64] out=bf16[99,9]"), HasSubstr("fast_accumulation"));
    for (const char* operands : {
             "a=bf16[99,64]+1 b=bf16[9,64] out=bf16[99,9]",
             "a=bf16[99,60] b=bf16[9,60] out=bf16[99,9]",
             "a=bf16[99,64]{8,1} b=bf16[9,64] out=bf16[99,9]",
             "a=bf16[99,64] b=bf16[9,64]{1,9} out=bf16[99,9]",
             "a=bf16[99,64] b=bf16[9,64]{68,1} out=bf16[99,9]",
             "a=bf16[99,64] b=bf16[9,64] up=bf16[9,64]{128,2} out=bf16[99,9]",
             "a=bf16[99,64] b=bf16[9,64] up=bf16[9,64]+4 out=bf16[99,9]",
         }) {
        EXPECT_THAT(reason(operands), HasSubstr("k contiguous, 16-byte aligned")) << operands;
    }
}

TEST(GemmWgmma, IsAskedAfterTheLibraryAndBeforeMmaSync) {
    for (const DeviceType type : {DeviceType::cuda, DeviceType::emulator}) {
        const auto& list = find_op("gemm")->implementations[static_cast<int>(type)];
        if (list.empty()) continue;
        std::vector<std::string> names;
        for (const auto& implementation : list) names.emplace_back(implementation.name);
        if (names.front() == "cublaslt") names.erase(names.begin());
        EXPECT_EQ(names, (std::vector<std::string>{"wgmma", "mma_sync", "fma"}));
    }
}

struct Plan {
    gemm::WgmmaConfig config;
    std::int64_t tiles = 0, clusters = 0;
};
Plan plan(const std::string& operands) {
    const DeviceInfo& h200 = *find_device("h200");
    Plan made;
    with_gemm("gemm " + operands, [&](const Gemm& op) {
        made.config = gemm::wgmma_config(op, h200);
        made.tiles = gemm::wgmma_tiles(op, made.config).count();
        made.clusters = gemm::wgmma_clusters(op, made.config, h200);
    });
    return made;
}

TEST(GemmWgmma, FillsAHopperCard) {
    // The gated product of Pi0.5's encoder: four pairs of row tiles by 128 columns of tiles, in eight waves.
    const Plan gated = plan("a=bf16[968,2048] b=bf16[16384,2048] up=bf16[16384,2048] out=bf16[968,16384]");
    EXPECT_EQ(gated.config.tile.columns, 256);
    EXPECT_EQ(gated.config.cluster, 2);
    EXPECT_EQ(gated.tiles, 512);
    EXPECT_EQ(gated.clusters, 66);
    // Eight by eight wide tiles leave half of the card idle, narrow ones fit into one wave.
    const Plan small = plan("a=bf16[968,2048] b=bf16[2048,2048] out=bf16[968,2048]");
    EXPECT_EQ(small.config.tile.columns, 128);
    EXPECT_EQ(small.clusters * small.config.cluster, 128);
    // One row of tiles has nobody to share b with, nor has the last of three.
    EXPECT_EQ(plan("a=bf16[100,512] b=bf16[65536,512] out=bf16[100,65536]").config.cluster, 1);
    EXPECT_EQ(plan("a=bf16[384,512] b=bf16[65536,512] out=bf16[384,65536]").config.cluster, 1);
    for (const int columns : {128, 192, 256}) {
        const gemm::WgmmaTile tile = gemm::wgmma_tile(columns);
        EXPECT_LE(tile.shared_bytes(), find_device("h200")->shared_per_block);
        for (const int cluster : {1, 2, 4}) {
            const int box_bytes = tile.box_rows(cluster) * gemm::WgmmaTile::kRowBytes;
            EXPECT_EQ(box_bytes % 1024, 0) << "the swizzle repeats every 1024 bytes";
            EXPECT_EQ(tile.a_bytes() + tile.boxes(cluster) * box_bytes, tile.stage_bytes());
        }
    }
}

TEST(GemmWgmma, CountsClustersThatFindTheirMultiprocessors) {
    with_gemm("gemm a=bf16[968,2048] b=bf16[16384,2048] out=bf16[968,16384]", [](const Gemm& op) {
        for (const int cluster : {1, 2, 4}) {
            const gemm::WgmmaConfig config{gemm::wgmma_tile(128), cluster};
            EXPECT_EQ(gemm::wgmma_clusters(op, config, *find_device("h200")),
                      (cluster == 4 ? 120 : 132) / cluster);
        }
    });
}

#if WEFT_HAS_EMULATOR
void expect_right(const std::string& operands, const std::string& config, Values values = Values::usual) {
    test::expect_right("gemm " + operands, "wgmma", config, values);
}

// The emulator's card has four multiprocessors.
TEST(GemmWgmma, EveryTileAloneAndInClusters) {
    expect_right("a=bf16[128,64] b=bf16[512,64] out=fp32[128,512]", "128x128 tiles, 4 stages, 1 blocks");
    expect_right("a=bf16[128,64] b=bf16[768,64] out=fp32[128,768]", "128x192 tiles, 5 stages, 1 blocks");
    expect_right("a=bf16[128,64] b=bf16[1024,64] out=fp32[128,1024]", "128x256 tiles, 4 stages, 1 blocks");
    expect_right("a=fp16[256,64] b=fp16[256,64] out=fp32[256,256]", "128x128 tiles, 4 stages, 2 blocks");
    expect_right("a=fp16[256,64] b=fp16[384,64] out=fp32[256,384]", "128x192 tiles, 5 stages, 2 blocks");
    expect_right("a=fp16[256,64] b=fp16[512,64] out=fp32[256,512]", "128x256 tiles, 4 stages, 2 blocks");
    expect_right("a=bf16[512,64] b=bf16[128,64] out=fp32[512,128]", "128x128 tiles, 4 stages, 4 blocks");
    expect_right("a=bf16[512,64] b=bf16[192,64] out=fp32[512,192]", "128x192 tiles, 5 stages, 4 blocks");
    expect_right("a=bf16[512,64] b=bf16[256,64] out=fp32[512,256]", "128x256 tiles, 4 stages, 4 blocks");
}

TEST(GemmWgmma, MoreTilesThanBlocksAndMoreStepsThanStages) {
    expect_right("a=bf16[500,650]{656,1} b=bf16[520,650]{656,1} bias=bf16[520] out=bf16[500,520]",
                 "128x192 tiles, 5 stages, 4 blocks");
    expect_right("a=bf16[300,650]{656,1} b=bf16[700,650]{656,1} out=bf16[300,700]",
                 "128x192 tiles, 5 stages, 1 blocks");
    expect_right("a=bf16[250,330]{336,1} b=bf16[1020,330]{336,1} residual=bf16[250,1020] out=bf16[250,1020]",
                 "128x256 tiles, 4 stages, 2 blocks");
    expect_right("a=bf16[300,330]{336,1} b=bf16[520,330]{336,1} out=bf16[300,520]",
                 "128x128 tiles, 4 stages, 1 blocks");
    expect_right("a=bf16[500,330]{336,1} b=bf16[170,330]{336,1} up=bf16[170,330]{336,1} out=bf16[500,170]",
                 "4 blocks");
}

TEST(GemmWgmma, TailsOfEveryAxis) {
    for (const char* out : {"fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"}) {
        const std::string type = out;
        expect_right("a=bf16[129,8] b=bf16[257,8] out=" + type + "[129,257]", "");
        expect_right("a=bf16[17,72] b=bf16[1,72] out=" + type + "[17,1]", "");
        expect_right("a=fp16[200,136] b=fp16[130,136] up=fp16[130,136] out=" + type + "[200,130]{144,1}", "");
        expect_right("a=fp16[20,16] b=fp16[48,16] up=fp16[48,16] out=" + type + "[20,48]+1", "");
    }
}

TEST(GemmWgmma, PairsOfFp8) {
    for (const char* a : {"fp8_e4m3", "fp8_e5m2"}) {
        for (const char* b : {"fp8_e4m3", "fp8_e5m2"}) {
            const std::string left = a, right = b, scales = " a_scale=fp32[1] b_scale=fp32[1] ";
            expect_right("a=" + left + "[140,400] b=" + right + "[300,400]" + scales +
                             "out=fp32[140,300] fast_accumulation=true",
                         "2 blocks");
            expect_right("a=" + left + "[130,176] b=" + right + "[80,176] up=" + right + "[80,176]" + scales +
                             "up_scale=fp32[1] out_scale=fp32[1] out=fp8_e4m3[130,80] "
                             "activation=gelu_tanh fast_accumulation=true",
                         "2 blocks");
        }
    }
}

TEST(GemmWgmma, EveryEpilogue) {
    for (const std::string activation : {"none", "gelu_tanh", "gelu_erf", "silu"}) {
        for (const std::string extra :
             {"", "bias=fp16[264] residual=bf16[33,264] ", "bias=fp32[264] residual=fp32[33,264]{300,1} "}) {
            for (const std::string up : {"", "up=bf16[264,32] ", "up=bf16[264,32] up_bias=bf16[264] "}) {
                const std::string line = "a=bf16[33,32] b=bf16[264,32] " + up + extra;
                expect_right(line + "out=fp32[33,264] activation=" + activation, "");
                expect_right(line + "out=bf16[33,264] activation=" + activation, "", Values::special);
            }
        }
    }
    expect_right("a=bf16[3,50,16] b=bf16[70,16] up=bf16[70,16] residual=bf16[3,50,70] out=@residual", "");
}

// Rows of one tensor, as merged weights are passed; NaN where k ends and the row goes on.
TEST(GemmWgmma, HalvesOfMergedWeightsWithGapsBetweenRows) {
    constexpr std::int64_t kRows = 140, kHidden = 72, kDepth = 70, kStride = 80;
    constexpr std::uint16_t kNan = 0x7fc0, kHalf = 0x3f00;
    std::vector<std::uint16_t> a(kRows * kStride, kNan), merged(2 * kHidden * kStride, kNan),
        out(kRows * kHidden);
    for (std::size_t row = 0; row < kRows; ++row)
        std::fill_n(a.begin() + static_cast<std::ptrdiff_t>(row * kStride), kDepth, kHalf);
    for (std::size_t row = 0; row < 2 * kHidden; ++row) {
        std::fill_n(merged.begin() + static_cast<std::ptrdiff_t>(row * kStride), kDepth, kHalf);
    }
    const Tensor weights(merged.data(), DType::bf16, {2 * kHidden, kStride}, kEmulator);
    Gemm op{};
    op.a = Tensor(a.data(), DType::bf16, {kRows, kStride}, kEmulator).slice(1, 0, kDepth);
    op.b = weights.slice(0, 0, kHidden).slice(1, 0, kDepth);
    op.up = weights.slice(0, kHidden, 2 * kHidden).slice(1, 0, kDepth);
    op.out = Tensor(out.data(), DType::bf16, {kRows, kHidden}, kEmulator);
    Context context(kEmulator);
    context.avoid("mma_sync");
    context.avoid("fma");
    run(op, context);
    for (const std::uint16_t value : out) ASSERT_EQ(decode(DType::bf16, value), 306);  // (70/4)^2, rounded
}
#endif

}  // namespace
}  // namespace weft
