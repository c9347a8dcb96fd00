// What gemm's implementations take, to the last number; how a call is cut.
#include <gmock/gmock.h>

#include <array>
#include <limits>
#include <string>

#include "ops/gemm/policy.h"
#include "ops/gemm/problem.h"
#include "ops/gemm/test_call.h"
#include "ops/gemm/wgmma.h"
#include "weft/case.h"

namespace weft {
namespace {

using test::with_gemm;
using testing::HasSubstr;

std::string wgmma(const Gemm& op, const char* device = "h200") {
    const char* said = gemm::wgmma_decline(op, *find_device(device));
    return said == nullptr ? "takes it" : said;
}
std::string wgmma(const std::string& operands) {
    std::string why;
    with_gemm(operands, [&](const Gemm& op) { why = wgmma(op); });
    return why;
}

TEST(GemmWgmmaTiles, HaveASharedArrayOfExactlyTheirParts) {
    const auto expect = [](const gemm::WgmmaTile& tile) {
        const int stage = (128 + tile.tokens) * 128, box = tile.tokens * (tile.gated ? 32 : 64) * 2;
        EXPECT_EQ(tile.stage_bytes(), stage);
        EXPECT_EQ(tile.staged_bytes(), box);
        // A kibibyte to align it, two barriers a stage and one a warpgroup.
        const auto bytes = [&](int stages) { return 1024 + 2 * 8 + stages * (stage + 2 * 8) + 2 * box; };
        EXPECT_EQ(tile.shared_bytes(), bytes(tile.stages()));
        EXPECT_LE(bytes(tile.stages()), 227 * 1024);
        EXPECT_TRUE(tile.stages() == (tile.tokens <= 16 ? 12 : 8) || bytes(tile.stages() + 1) > 227 * 1024);
    };
    for (int tokens = 8; tokens <= 256; tokens += 8) {
        for (const bool gated : {false, true}) {
            SCOPED_TRACE(tokens);
            expect({tokens, gated});
        }
    }
}

TEST(GemmWgmmaTiles, OneClusterRunsOnTheSmallestCard) {
    DeviceInfo device = *find_device("h200");
    with_gemm("a=bf16[1000,64] b=bf16[1024,64] out=bf16[1000,1024]", [&](const Gemm& op) {
        for (const int cluster : {1, 2}) {
            const gemm::WgmmaConfig config{gemm::WgmmaTile{128, false}, cluster, false};
            for (const auto& [sms, clusters] : {std::pair{1, 1}, {2, 2 / cluster}, {5, 5 / cluster}}) {
                device.sms = sms;
                EXPECT_EQ(gemm::wgmma_clusters(op, config, device), clusters) << sms;
            }
            device.sms = 999;
            EXPECT_EQ(gemm::wgmma_clusters(op, config, device), 64 / cluster)
                << "no more than there are tiles";
        }
    });
}

TEST(GemmWgmmaTiles, BlocksGoInPairsWhereClustersMayHaveTwo) {
    DeviceInfo device = *find_device("h200");
    with_gemm("a=bf16[1000,64] b=bf16[1024,64] out=bf16[1000,1024]", [&](const Gemm& op) {
        for (const auto& [most, cluster] : {std::pair{1, 1}, {2, 2}, {3, 2}, {16, 2}}) {
            device.max_cluster = most;
            EXPECT_EQ(gemm::wgmma_config(op, device).cluster, cluster) << most;
        }
    });
}

// Of a card of 2^40 bytes and more; nothing is read.
TEST(GemmWgmmaLimits, StridesAndSizesThatATensorMapHasNoBitsFor) {
    constexpr std::int64_t kMost = std::int64_t{1} << 39;  // bf16 elements, 2^40 bytes
    const auto rows = [](std::int64_t m, std::int64_t n, std::int64_t a_stride, std::int64_t b_stride,
                         bool gated, std::int64_t apart) {
        Gemm op{};
        char* base = reinterpret_cast<char*>(std::int64_t{1} << 44);
        const auto weights = [&](std::int64_t at) {
            return Tensor(base + at, DType::bf16, std::array{n, std::int64_t{64}},
                          std::array{b_stride, std::int64_t{1}}, kCuda);
        };
        op.a = Tensor(base, DType::bf16, std::array{m, std::int64_t{64}},
                      std::array{a_stride, std::int64_t{1}}, kCuda);
        op.b = weights(0);
        if (gated) op.up = weights(apart);
        op.out = Tensor(base, DType::bf16, {m, n}, kCuda);
        return wgmma(op);
    };
    EXPECT_EQ(rows(17, 8, kMost - 8, 64, false, 0), "takes it");
    EXPECT_THAT(rows(17, 8, kMost, 64, false, 0), HasSubstr("k contiguous"));
    EXPECT_EQ(rows(17, 8, 64, kMost - 8, false, 0), "takes it");
    EXPECT_THAT(rows(17, 8, 64, kMost, false, 0), HasSubstr("k contiguous"));
    EXPECT_EQ(rows(17, 8, 64, kMost / 8 - 8, true, 1024), "takes it");
    EXPECT_THAT(rows(17, 8, 64, kMost / 8, true, 1024), HasSubstr("too far apart"));
    for (const int sign : {1, -1}) {
        EXPECT_EQ(rows(17, 8, 64, 64, true, sign * (2 * kMost - 16)), "takes it");
        EXPECT_THAT(rows(17, 8, 64, 64, true, sign * 2 * kMost), HasSubstr("too far apart"));
    }
    constexpr std::int64_t kInt = std::numeric_limits<int>::max();
    EXPECT_EQ(rows(kInt, 8, 64, 64, false, 0), "takes it");
    EXPECT_THAT(rows(kInt + 1, 8, 64, 64, false, 0), HasSubstr("beyond 2^31"));
    EXPECT_EQ(rows(17, kInt - 7, 64, 64, false, 0), "takes it");
    EXPECT_THAT(rows(17, kInt + 1, 64, 64, false, 0), HasSubstr("beyond 2^31"));
}

TEST(GemmWgmmaLimits, ToTheLastNumber) {
    EXPECT_EQ(wgmma("a=bf16[17,8] b=bf16[8,8] out=bf16[17,8]"), "takes it");
    EXPECT_EQ(wgmma("a=bf16[17,8]+8 b=bf16[8,8]+8 up=bf16[8,8]+8 residual=fp16[17,8]+8 out=bf16[17,8]+8"),
              "takes it");
    EXPECT_EQ(wgmma("a=fp8_e4m3[17,16] b=fp8_e4m3[16,16] out=fp8_e4m3[17,16]"), "takes it");
    EXPECT_EQ(wgmma("a=bf16[17,1]{8,1} b=bf16[8,1]{8,1} out=bf16[17,8]"), "takes it");
    // One row of weights is never stepped over.
    EXPECT_EQ(wgmma("a=bf16[99,60]{64,1} b=bf16[1,60] out=bf16[99,1]"), "takes it");
    EXPECT_THAT(wgmma("a=bf16[99,60]{64,1} b=bf16[2,60] out=bf16[99,2]"), HasSubstr("k contiguous"));
    for (const char* operands : {
             "a=bf16[99,64] b=bf16[8,64]+4 out=bf16[99,8]",
             "a=bf16[99,64]{68,1} b=bf16[8,64] out=bf16[99,8]",
             "a=bf16[99,64] b=bf16[8,64]{56,1} out=bf16[99,8]",
             "a=bf16[99,64] b=bf16[8,64] up=bf16[8,64]{56,1} out=bf16[99,8]",
         })
        EXPECT_THAT(wgmma(operands), HasSubstr("k contiguous")) << operands;
    for (const char* operands : {
             "a=bf16[99,64] b=bf16[12,64] out=bf16[99,12]{16,1}",
             "a=bf16[99,64] b=bf16[9,64] out=bf16[99,9]{16,1}",
             "a=bf16[99,64] b=bf16[12,64] up=bf16[12,64] out=bf16[99,12]",
         })
        EXPECT_EQ(wgmma(operands), "takes it") << operands;
}

TEST(GemmProblem, OfALoneRowOrColumnTheStrideIsThatOfADenseMatrix) {
    const auto strides = [](std::int64_t n, std::int64_t k, std::int64_t row, std::int64_t step) {
        const Tensor t(nullptr, DType::bf16, std::array{n, k}, std::array{row, step}, kCpu);
        const gemm::WeightStrides s = gemm::weight_strides(t);
        return std::pair(s.row, s.step);
    };
    using Pair = std::pair<std::int64_t, std::int64_t>;
    EXPECT_EQ(strides(8, 4, 6, 1), Pair(6, 1));
    EXPECT_EQ(strides(8, 4, 1, 9), Pair(1, 9));
    EXPECT_EQ(strides(8, 1, 3, 7), Pair(3, 1));
    EXPECT_EQ(strides(8, 1, 1, 7), Pair(1, 8)) << "n is contiguous";
    EXPECT_EQ(strides(2, 1, 1, 7), Pair(1, 2));
    EXPECT_EQ(strides(2, 2, 1, 7), Pair(1, 7));
    EXPECT_EQ(strides(1, 8, 3, 1), Pair(8, 1));
    EXPECT_EQ(strides(1, 8, 3, 5), Pair(1, 5));
    EXPECT_EQ(strides(2, 8, 3, 5), Pair(3, 5));
    EXPECT_EQ(strides(1, 1, 1, 7), Pair(1, 1));
    EXPECT_EQ(strides(1, 1, 5, 7), Pair(1, 1));
    EXPECT_EQ(strides(1, 2, 5, 1), Pair(2, 1));
    EXPECT_EQ(strides(1, 0, 5, 7), Pair(1, 1));
    EXPECT_EQ(strides(8, 0, 1, 1), Pair(1, 8));
    EXPECT_EQ(strides(8, 0, 0, 1), Pair(0, 1));
}

TEST(GemmProblem, WhichAxisOfTheWeightsIsContiguous) {
    EXPECT_TRUE(gemm::is_tn({5, 1}));
    EXPECT_TRUE(gemm::is_tn({1, 1}));
    EXPECT_FALSE(gemm::is_tn({1, 2}));
    EXPECT_TRUE(gemm::is_nn({1, 2}));
    EXPECT_TRUE(gemm::is_nn({1, 9}));
    EXPECT_FALSE(gemm::is_nn({1, 1})) << "rows that are one another's";
    EXPECT_FALSE(gemm::is_nn({2, 9}));
}

TEST(GemmProblem, CountsRowsAndStrides) {
    with_gemm(
        "a=bf16[2,3,16]{96,32,1} b=bf16[8,16]{1,9} residual=bf16[2,3,8]{60,20,1} out=bf16[2,3,8]{30,10,1}",
        [](const Gemm& op) {
            const gemm::Problem p = gemm::problem(op);
            EXPECT_EQ((std::array{p.m, p.n, p.k}), (std::array<std::int64_t, 3>{6, 8, 16}));
            EXPECT_EQ((std::array{p.a_stride, p.residual_stride, p.out_stride}),
                      (std::array<std::int64_t, 3>{32, 20, 10}));
            EXPECT_EQ(p.up.row, 0);
        });
    with_gemm("a=bf16[1,16]{40,1} b=bf16[1,16] up=bf16[1,16]{7,1} out=bf16[1,1]{5,1}", [](const Gemm& op) {
        const gemm::Problem p = gemm::problem(op);
        EXPECT_EQ((std::array{p.m, p.n, p.k}), (std::array<std::int64_t, 3>{1, 1, 16}));
        EXPECT_EQ((std::array{p.a_stride, p.residual_stride, p.out_stride}),
                  (std::array<std::int64_t, 3>{16, 0, 1}));
        EXPECT_EQ(p.up.row, 16);
    });
    with_gemm("a=bf16[5,16] b=bf16[0,16] out=bf16[5,0]",
              [](const Gemm& op) { EXPECT_EQ(gemm::problem(op).m, 0); });
}

int splits(std::int64_t tiles, std::int64_t k, int max_cluster = 8) {
    DeviceInfo device = *find_device("h200");
    device.max_cluster = max_cluster;
    Gemm op{};
    op.a = Tensor(nullptr, DType::bf16, {16, k});
    op.b = Tensor(nullptr, DType::bf16, {64 * tiles, k});
    op.out = Tensor(nullptr, DType::bf16, {16, 64 * tiles});
    return gemm::mma_config(op, device).splits;
}

TEST(GemmPolicy, SplitsFillTheCardAndAreTwoStepsLong) {
    EXPECT_EQ(splits(1, 64 * 3), 1);
    EXPECT_EQ(splits(1, 64 * 4), 2);
    EXPECT_EQ(splits(1, 64 * 7), 2);
    EXPECT_EQ(splits(1, 64 * 8), 4);
    EXPECT_EQ(splits(1, 64 * 15), 4);
    EXPECT_EQ(splits(1, 64 * 16), 8);
    EXPECT_EQ(splits(1, 64 * 999), 8) << "the most that every card has";
    EXPECT_EQ(splits(1, 64 * 999, 16), 8);
    EXPECT_EQ(splits(1, 64 * 999, 4), 4);
    EXPECT_EQ(splits(1, 64 * 999, 2), 2);
    EXPECT_EQ(splits(1, 64 * 999, 1), 1);
    // A multiprocessor of 132 holds three blocks. Clusters of eight and of four leave some idle.
    EXPECT_EQ(splits(39, 64 * 999), 8);
    EXPECT_EQ(splits(40, 64 * 999), 4);
    EXPECT_EQ(splits(90, 64 * 999), 4);
    EXPECT_EQ(splits(91, 64 * 999), 2);
    EXPECT_EQ(splits(198, 64 * 999), 2);
    EXPECT_EQ(splits(199, 64 * 999), 1);
}

}  // namespace
}  // namespace weft
