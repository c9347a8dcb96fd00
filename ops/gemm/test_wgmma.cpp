// gemm on wgmma: its policy, and the kernel in the emulator by its name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ops/gemm/test_call.h"
#include "ops/gemm/wgmma.h"
#include "tests/ops/combined.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

#if WEFT_HAS_EMULATOR
#include "emulator/async_proxy.h"
#endif

namespace weft {
namespace {

using test::with_gemm;
using ::testing::HasSubstr;

std::string reason(const std::string& operands, const char* device = "h200") {
    std::string why;
    with_gemm(operands, [&](const Gemm& op) {
        const char* said = gemm::wgmma_decline(op, *find_device(device));
        why = said == nullptr ? "accepts" : said;
    });
    return why;
}

TEST(GemmWgmma, SaysWhatItTakes) {
    EXPECT_EQ(reason("a=bf16[17,40] b=bf16[16,40] out=fp8_e5m2[17,16] activation=gelu_erf"), "accepts");
    EXPECT_EQ(reason("a=fp16[2,9,40]{432,48,1} b=fp16[8,40]{48,1} up=fp16[8,40]{48,1} out=bf16[2,9,8]"),
              "accepts");
    EXPECT_EQ(reason("a=fp8_e5m2[99,16] b=fp8_e4m3[8,16] out=bf16[99,8] fast_accumulation=true"), "accepts");
    EXPECT_EQ(reason("a=fp8_e4m3[99,64] b=fp8_e4m3[8,64] out=bf16[99,8]"), "accepts");
    EXPECT_EQ(reason("a=bf16[99,64] b=bf16[8,64] residual=fp16[99,8]{16,1} out=bf16[99,8]{24,1}"), "accepts");
    EXPECT_THAT(reason("a=bf16[99,64] b=bf16[8,64] out=bf16[99,8]", "rtx4090"), HasSubstr("SM 9.0 alone"));
    EXPECT_THAT(reason("a=bf16[99,64] b=bf16[8,64] out=bf16[99,8]", "b200"), HasSubstr("SM 9.0 alone"));
    EXPECT_THAT(reason("a=fp32[99,64] b=fp32[8,64] out=fp32[99,8]"), HasSubstr("fp32 operands"));
    EXPECT_THAT(reason("a=bf16[99,0] b=bf16[8,0] out=bf16[99,8]"), HasSubstr("k is 0"));
    EXPECT_EQ(reason("a=bf16[1,64] b=bf16[8,64] out=bf16[1,8]"), "accepts");
    EXPECT_THAT(reason("a=bf16[99,64] b=bf16[8,64] out=fp32[99,8]"), HasSubstr("16 or 8 bits"));
    EXPECT_THAT(reason("a=bf16[99,64] b=bf16[8,64] up=bf16[8,64]{72,1} out=bf16[99,8]"),
                HasSubstr("different strides"));
    for (const char* operands :
         {"residual=fp32[99,16] out=bf16[99,16]", "residual=bf16[99,16]+1 gate=fp32[16] out=fp8_e4m3[99,16]"})
        EXPECT_EQ(reason(std::string("a=bf16[99,64] b=bf16[16,64] ") + operands), "accepts");
    for (const char* operands : {
             "a=bf16[99,64]+1 b=bf16[8,64] out=bf16[99,8]",
             "a=bf16[99,60] b=bf16[8,60] out=bf16[99,8]",
             "a=bf16[99,64]{8,1} b=bf16[8,64] out=bf16[99,8]",
             "a=bf16[99,64] b=bf16[8,64]{1,8} out=bf16[99,8]",
             "a=bf16[99,64] b=bf16[8,64]{68,1} out=bf16[99,8]",
             "a=bf16[99,64] b=bf16[8,64] up=bf16[8,64]{128,2} out=bf16[99,8]",
             "a=bf16[99,64] b=bf16[8,64] up=bf16[8,64]+4 out=bf16[99,8]",
         }) {
        EXPECT_THAT(reason(operands), HasSubstr("k contiguous, 16-byte aligned")) << operands;
    }
    for (const char* operands : {
             "a=bf16[99,64] b=bf16[7,64] out=bf16[99,7]{8,1}",
             "a=bf16[99,64] b=bf16[8,64] out=bf16[99,8]{12,1}",
             "a=bf16[99,64] b=bf16[8,64] out=bf16[99,8]+1",
             "a=bf16[99,64] b=bf16[8,64] out=fp8_e4m3[99,8]{16,1}",
             "a=bf16[99,64] b=bf16[8,64] up=bf16[8,64] out=bf16[99,8]{9,1}+1",
             "a=bf16[99,64] b=bf16[7,64] up=bf16[7,64] out=bf16[99,7]",
         })
        EXPECT_EQ(reason(operands), "accepts") << operands;
}

TEST(GemmWgmma, IsAskedAfterSkinnyAndTheLibraryAndBeforeMmaSync) {
    for (const DeviceType type : {DeviceType::cuda, DeviceType::emulator}) {
        const auto& list = find_op("gemm")->implementations[static_cast<int>(type)];
        if (list.empty()) continue;
        std::vector<std::string> names;
        for (const auto& implementation : list) names.emplace_back(implementation.name);
        EXPECT_EQ(names.front(), "skinny");
        names.erase(names.begin());
        if (names.front() == "cublaslt") names.erase(names.begin());
        EXPECT_EQ(names,
                  (std::vector<std::string>{"wgmma", "unpacked", "aligned", "apart", "mma_sync", "fma"}));
    }
}

struct Plan {
    gemm::WgmmaConfig config;
    std::int64_t tiles = 0, clusters = 0;
};
Plan plan(const std::string& operands) {
    const DeviceInfo& h200 = *find_device("h200");
    Plan made;
    with_gemm(operands, [&](const Gemm& op) {
        made.config = gemm::wgmma_config(op, h200);
        made.tiles = gemm::wgmma_tiles(op, made.config).count();
        made.clusters = gemm::wgmma_clusters(op, made.config, h200);
    });
    return made;
}

TEST(GemmWgmma, FillsAHopperCard) {
    // The gated product of Pi0.5's encoder: four tiles of tokens by 128 pairs of 64 features, in eight waves.
    const Plan gated = plan("a=bf16[968,2048] b=bf16[16384,2048] up=bf16[16384,2048] out=bf16[968,16384]");
    EXPECT_EQ(gated.config.tile, (gemm::WgmmaTile{248, true}));
    EXPECT_EQ(gated.config.cluster, 2);
    EXPECT_EQ(gated.tiles, 512);
    EXPECT_EQ(gated.clusters, 66);
    // 1024 are as many tiles of 256.
    EXPECT_EQ(plan("a=bf16[1024,512] b=bf16[16384,512] up=bf16[16384,512] out=bf16[1024,16384]").config.tile,
              (gemm::WgmmaTile{256, true}));
    // Wide tiles leave half of the card idle, narrow ones fit into one wave.
    const Plan small = plan("a=bf16[968,2048] b=bf16[2048,2048] out=bf16[968,2048]");
    EXPECT_EQ(small.config.tile, (gemm::WgmmaTile{128, false}));
    EXPECT_EQ(small.clusters * small.config.cluster, 128);
    EXPECT_EQ(plan("a=bf16[968,2048] b=bf16[2560,2048] out=bf16[968,2560]").config.tile,
              (gemm::WgmmaTile{176, false}));
    EXPECT_EQ(plan("a=bf16[40,512] b=bf16[65536,512] out=bf16[40,65536]").config.tile,
              (gemm::WgmmaTile{64, false}));
    // One tile of features has no other to share its tokens with.
    EXPECT_EQ(plan("a=bf16[4096,512] b=bf16[128,512] out=bf16[4096,128]").config.cluster, 1);
}

TEST(GemmWgmma, TilesFit) {
    for (const gemm::WgmmaTile& tile : gemm::kWgmmaTiles) {
        EXPECT_LE(tile.shared_bytes(), find_device("h200")->shared_per_block);
        EXPECT_GE(tile.stages(), 3);
        EXPECT_EQ(tile.stage_bytes() % 1024, 0) << "the swizzle repeats every 1024 bytes";
        EXPECT_EQ(tile.staged_bytes() % 512, 0);
        for (const int cluster : {1, 2}) {
            int loaded = 0;
            for (int rank = 0; rank < cluster; ++rank) loaded += tile.loaded_columns(cluster, rank);
            EXPECT_EQ(loaded, tile.columns());
            EXPECT_EQ(tile.loaded_columns(cluster, 0) % 8, 0);
        }
        // Shared between a pair as evenly as groups of eight can be, so that neither block waits for the other.
        const int more = tile.loaded_columns(2, 0) - tile.loaded_columns(2, 1);
        EXPECT_EQ(more, tile.columns() / 8 % 2 * 8) << tile.columns();
    }
}

#if WEFT_HAS_EMULATOR
using test::Words;

void expect_right(const std::string& operands, const std::string& config, Values values = Values::usual) {
    test::expect_right("gemm " + operands, "wgmma", config, values);
}

// The emulator's card has four multiprocessors.
TEST(GemmWgmma, EveryTileAloneAndInPairs) {
    for (const std::string out : {"bf16", "fp8_e4m3"}) {
        const auto expect = [&](int m, int n, const std::string& tile, bool gated) {
            const auto line = [&](const char* name, int rows, int columns) {
                return fmt::format("{}[{},{}]", name, rows, columns);
            };
            expect_right(line("a=bf16", m, 64) + line(" b=bf16", n, 64) +
                             (gated ? line(" up=bf16", n, 64) : "") + line((" out=" + out).c_str(), m, n),
                         tile);
        };
        expect(1024, 64, "128x256 tiles, 4 stages, single", true);
        expect(992, 64, "128x248 tiles, 4 stages, single", true);
        expect(512, 64, "128x128 tiles, 6 stages, single", true);
        expect(256, 64, "128x64 tiles, 8 stages, single", true);
        expect(16, 64, "128x16 tiles, 12 stages, single", true);
        expect(512, 128, "128x256 tiles, 4 stages, pairs", true);
        expect(496, 128, "128x248 tiles, 4 stages, pairs", true);
        expect(128, 256, "128x128 tiles, 6 stages, pairs", true);
        expect(64, 256, "128x64 tiles, 8 stages, pairs", true);
        expect(9, 256, "128x16 tiles, 12 stages, pairs", true);
        expect(512, 512, "128x256 tiles, 3 stages, pairs", false);
        expect(352, 256, "128x176 tiles, 4 stages, pairs", false);
        expect(128, 512, "128x128 tiles, 6 stages, pairs", false);
        expect(64, 512, "128x64 tiles, 8 stages, pairs", false);
        expect(15, 512, "128x16 tiles, 12 stages, pairs", false);
        expect(128, 128, "128x64 tiles, 8 stages, single", false);
        expect(1, 128, "128x16 tiles, 12 stages, single", false);
    }
}

TEST(GemmWgmma, MoreTilesThanBlocksAndMoreStepsThanStages) {
    expect_right("a=bf16[300,650]{656,1} b=bf16[520,650]{656,1} bias=bf16[520] out=bf16[300,520]", "pairs");
    expect_right("a=bf16[300,330]{336,1} b=bf16[704,330]{336,1} residual=bf16[300,704] out=bf16[300,704]",
                 "pairs");
    expect_right("a=bf16[700,330]{336,1} b=bf16[104,330]{336,1} residual=bf16[700,104] out=@residual",
                 "single");
    expect_right("a=bf16[500,330]{336,1} b=bf16[176,330]{336,1} up=bf16[176,330]{336,1} out=bf16[500,176]",
                 "");
    expect_right(
        "a=bf16[700,330]{336,1} b=bf16[176,330]{336,1} up=bf16[176,330]{336,1} up_bias=bf16[176] "
        "residual=fp16[700,176] out=fp16[700,176]",
        "");
}

// More tokens than are computed together: the weights come again.
TEST(GemmWgmma, ManyTokens) {
    expect_right("a=bf16[2500,16] b=bf16[16,16] out=bf16[2500,16]", "");
    expect_right("a=bf16[2500,16] b=bf16[16,16] up=bf16[16,16] out=fp8_e4m3[2500,16]", "");
}

TEST(GemmWgmma, TailsOfEveryAxis) {
    for (const std::string out : {"bf16", "fp16", "fp8_e4m3", "fp8_e5m2"}) {
        expect_right("a=bf16[129,8] b=bf16[272,8] out=" + out + "[129,272]", "");
        expect_right("a=bf16[17,72] b=bf16[16,72] out=" + out + "[17,16]", "");
        expect_right("a=fp16[200,136] b=fp16[144,136] up=fp16[144,136] out=" + out + "[200,144]{160,1}", "");
        expect_right("a=fp16[250,16] b=fp16[48,16] up=fp16[48,16] out=" + out + "[250,48]", "");
    }
    expect_right("a=bf16[70,72] b=bf16[8,72] up=bf16[8,72] out=bf16[70,8]", "");
}

// The copy engine writes rows of whole 16 bytes at such places; a warp stores all others.
TEST(GemmWgmma, RowsOfResultsBeginAnywhere) {
    for (const std::string out : {"bf16", "fp8_e4m3"}) {
        for (const auto& [n, gap] : test::combined(std::vector{1, 7, 63, 66, 131}, std::vector{0, 1, 2, 3})) {
            const std::string line = fmt::format("a=bf16[67,24] b=bf16[{0},24] bias=fp32[{0}] out=", n) +
                                     fmt::format("{}[67,{}]{{{},1}}+{}", out, n, n + gap, gap);
            expect_right(line, "");
        }
        expect_right("a=bf16[300,40] b=bf16[264,40] residual=bf16[300,264] out=" + out + "[300,264]{267,1}+2",
                     "pairs");
        expect_right(
            "a=bf16[140,40] b=bf16[72,40] up=bf16[72,40] residual=fp32[140,72] gate=bf16[140,1] "
            "out=" +
                out + "[140,72]{73,1}+1",
            "");
        expect_right(
            "a=fp8_e4m3[130,272] b=fp8_e4m3[391,272] a_group_scale=fp32[130,3] b_block_scale=fp32[4,3] "
            "out=" +
                out + "[130,391]",
            "groups scaled");
        expect_right("a=bf16[20,1040] b=bf16[101,1040] out=" + out + "[20,101]", "");
    }
}

TEST(GemmWgmma, PairsOfFp8) {
    for (const char* a : {"fp8_e4m3", "fp8_e5m2"}) {
        for (const char* b : {"fp8_e4m3", "fp8_e5m2"}) {
            const std::string left = a, right = b, scales = " a_scale=fp32[1] b_scale=fp32[1] ";
            const std::string plain =
                "a=" + left + "[140,400] b=" + right + "[304,400]" + scales + "out=bf16[140,304]";
            expect_right(plain, "pairs of blocks, sums in fp32");
            const bool short_sums = left == "fp8_e4m3" && right == left;
            expect_right(plain + " fast_accumulation=true",
                         short_sums ? "pairs of blocks, 1" : "pairs of blocks, sums in fp32");
            expect_right("a=" + left + "[130,176] b=" + right + "[80,176] up=" + right + "[80,176]" + scales +
                             "up_scale=fp32[1] out_scale=fp32[1] out=fp8_e4m3[130,80] "
                             "activation=gelu_tanh fast_accumulation=true",
                         "pairs");
        }
    }
}

TEST(GemmWgmma, EveryEpilogue) {
    for (const auto& [activation, extra, up] :
         test::combined(Words{"none", "gelu_tanh", "gelu_erf", "silu"},
                        Words{"", "bias=fp16[136] residual=bf16[33,136] ",
                              "bias=fp32[136] residual=fp16[33,136]{160,1} "},
                        Words{"", "up=bf16[136,32] ", "up=bf16[136,32] up_bias=bf16[136] "})) {
        const std::string line = "a=bf16[33,32] b=bf16[136,32] " + up + extra;
        expect_right(line + "out=fp16[33,136] activation=" + activation, "");
        expect_right(line + "out=bf16[33,136] activation=" + activation, "", Values::special);
    }
    expect_right("a=bf16[3,50,16] b=bf16[72,16] up=bf16[72,16] residual=bf16[3,50,72] out=@residual", "");
}

TEST(GemmWgmma, EveryTileOfPromotedSums) {
    const auto expect = [&](int m, int n, const std::string& tile, bool gated) {
        const std::string b = fmt::format("=fp8_e4m3[{},272]", n);
        expect_right(
            fmt::format("a=fp8_e4m3[{},272] b{}{} out=fp16[{},{}]", m, b, gated ? " up" + b : "", m, n),
            tile + ", sums in fp32");
    };
    expect(1024, 64, "128x256 tiles, 4 stages, single blocks", true);
    expect(992, 64, "128x248 tiles, 4 stages, single blocks", true);
    expect(128, 256, "128x128 tiles, 6 stages, pairs of blocks", true);
    expect(64, 256, "128x64 tiles, 8 stages, pairs of blocks", true);
    expect(16, 256, "128x16 tiles, 12 stages, pairs of blocks", true);
    expect(512, 512, "128x256 tiles, 3 stages, pairs of blocks", false);
    expect(352, 256, "128x176 tiles, 4 stages, pairs of blocks", false);
    expect(128, 512, "128x128 tiles, 6 stages, pairs of blocks", false);
    expect(64, 512, "128x64 tiles, 8 stages, pairs of blocks", false);
    expect(7, 512, "128x16 tiles, 12 stages, pairs of blocks", false);
}

// One product of 200704, beside which a short accumulator's last place is 16, and then 32 of a quarter an instruction. What
// is added to it in its own stage is lost, and nothing else; where the tensor cores keep the sums everything is.
TEST(GemmWgmma, PromotedSumsKeepWhatAShortAccumulatorLoses) {
    constexpr std::int64_t kDepth = 4096, kRows = 24;
    const auto code = [](double value) { return static_cast<std::uint8_t>(encode(DType::fp8_e4m3, value)); };
    std::vector<std::uint8_t> a(kRows * kDepth, code(0.5)), b = a;
    for (std::size_t row = 0; row < kRows; ++row) a[row * kDepth] = b[row * kDepth] = code(448);
    const auto large = static_cast<std::uint16_t>(encode(DType::bf16, -448.0 * 448.0));
    for (const bool fast : {false, true}) {
        std::vector<std::uint16_t> residual(kRows * kRows, large), out(kRows * kRows);
        Gemm op{};
        op.a = Tensor(a.data(), DType::fp8_e4m3, {kRows, kDepth}, kEmulator);
        op.b = Tensor(b.data(), DType::fp8_e4m3, {kRows, kDepth}, kEmulator);
        op.out = Tensor(out.data(), DType::bf16, {kRows, kRows}, kEmulator);
        op.residual = Tensor(residual.data(), DType::bf16, {kRows, kRows}, kEmulator);
        op.fast_accumulation = fast;
        Context context(kEmulator);
        DeviceInfo one = context.info();
        one.max_cluster = 1;  // of blocks that share the sum along k only one would have the large product
        context.set_info(one);
        for (const char* other : {"skinny", "mma_sync", "fma"}) context.avoid(other);
        emulator::set_short_fp8_sums(true);
        run(op, context);
        emulator::set_short_fp8_sums(false);
        for (const std::uint16_t value : out)
            ASSERT_EQ(decode(DType::bf16, value), fast ? 0 : 0.25 * (kDepth - 128)) << fast;
    }
}

// Rows more than 2^31 bytes apart, of memory that is there where it is touched.
TEST(GemmWgmma, RowsBeyondTwoToThe31Bytes) {
    constexpr std::int64_t kRows = 17, kDepth = 8, kFar = (std::int64_t{1} << 30) + 8;
    constexpr std::size_t kBytes = ((kRows - 1) * kFar + kDepth) * 2;
    void* memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "no such address space";
    const auto code = [](double value) { return static_cast<std::uint16_t>(encode(DType::bf16, value)); };
    for (std::int64_t row = 0; row < kRows; ++row)
        std::fill_n(static_cast<std::uint16_t*>(memory) + row * kFar, kDepth,
                    code(static_cast<double>(row + 1)));
    std::vector<std::uint16_t> b(8 * kDepth, code(1)), out(kRows * 8);
    Gemm op{};
    op.a =
        Tensor(memory, DType::bf16, std::array{kRows, kDepth}, std::array{kFar, std::int64_t{1}}, kEmulator);
    op.b = Tensor(b.data(), DType::bf16, {8, kDepth}, kEmulator);
    op.out = Tensor(out.data(), DType::bf16, {kRows, 8}, kEmulator);
    Context context(kEmulator);
    context.avoid("mma_sync");
    context.avoid("fma");
    run(op, context);
    munmap(memory, kBytes);
    for (std::size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(decode(DType::bf16, out[i]), 8 * static_cast<double>(i / 8 + 1)) << i;
}
#endif

}  // namespace
}  // namespace weft
