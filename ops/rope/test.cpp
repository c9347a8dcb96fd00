// rope: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/rope/rope.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

HostTensor random_heads(std::int64_t tokens, std::int64_t heads, std::int64_t dim) {
    HostTensor x(DType::fp32, {tokens, heads, dim});
    for (std::int64_t i = 0; i < tokens * heads * dim; ++i)
        x.set(i, std::sin(1.3 * static_cast<double>(i * i + 1)));
    return x;
}

TEST(Rope, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("rope x=bf16[4,2,64] out=fp16[4,2,64]"),
                HasSubstr("rope.out: expected x's dtype bf16, got fp16"));
    EXPECT_THAT(rejection("rope x=bf16[4,2,63] out=bf16[4,2,63]"),
                HasSubstr("rope.rotary_dim: expected an even number up to head_dim=63, got 63"));
    EXPECT_THAT(rejection("rope x=bf16[4,2,64] out=bf16[4,2,64] rotary_dim=66"),
                HasSubstr("rope.rotary_dim: expected an even number up to head_dim=64, got 66"));
    EXPECT_THAT(rejection("rope x=bf16[4,2,64] out=bf16[4,2,64] cos=fp32[9,32]"),
                HasSubstr("rope.cos: expected sin beside it, got none"));
    EXPECT_THAT(rejection("rope x=bf16[4,2,64] out=bf16[4,2,64] cos=fp32[9,32] sin=bf16[9,32]"),
                HasSubstr("rope.sin: expected cos's dtype fp32, got bf16"));
    EXPECT_THAT(rejection("rope x=bf16[4,2,64] out=bf16[4,2,64] cos=fp32[0,32] sin=fp32[0,32]"),
                HasSubstr("rope.cos: expected at least one row, got none"));
    EXPECT_THAT(rejection("rope x=bf16[4,2,64] out=bf16[4,2,64] cos=fp32[9,16] sin=fp32[9,16]"),
                HasSubstr("rope.cos: expected [table, half=32] for rotary_dim=64, got half=16"));
    EXPECT_THAT(rejection("rope x=bf16[4,2,64] out=bf16[4,2,64] cos=fp32[9,32] sin=fp32[9,32] start=6"),
                HasSubstr("rope.start: expected at most table - tokens = 5 without positions, got 6"));
    EXPECT_THAT(rejection("rope x=bf16[4,2,64] out=bf16[4,2,64] positions=int32[5]"),
                HasSubstr("rope.positions: expected [...=(), tokens=4], got [5]"));
    EXPECT_THAT(rejection("rope x=bf16[4,2,64]{128,64,1} out=bf16[4,2,64]{256,128,2}"),
                HasSubstr("rope.out: the last axis must be contiguous"));
    // Of no heads, or with positions, the table may be short.
    EXPECT_EQ(rejection("rope x=bf16[4,0,64] out=bf16[4,0,64] cos=fp32[2,32] sin=fp32[2,32]"), "accepted");
    EXPECT_EQ(
        rejection("rope x=bf16[4,2,64] out=bf16[4,2,64] cos=fp32[2,32] sin=fp32[2,32] positions=int32[4]"),
        "accepted");
    EXPECT_EQ(rejection("rope x=bf16[4,2,64] out=bf16[4,2,64] cos=fp32[9,32] sin=fp32[9,32] start=5"),
              "accepted");
    EXPECT_THAT(rejection("rope x=bf16[4,2,64] out=@x[4,2,64]+2"), testing::Not("accepted"));
    EXPECT_THAT(rejection("rope x=bf16[4,2,64] out=bf16[4,2,64] base=0.5"),
                HasSubstr("expected a value in [1, "));
}

TEST(Rope, KeepsLengthsAndTurnsNothingAtZero) {
    HostTensor x = random_heads(5, 3, 16);
    for (const Device device : test::host_devices()) {
        for (const auto pairs : {Rope::Pairs::half, Rope::Pairs::interleaved}) {
            HostTensor out(DType::fp32, {5, 3, 16});
            run(Rope{.x = x.on(device), .out = out.on(device), .pairs = pairs});
            for (int i = 0; i < 48; ++i) EXPECT_EQ(out[i], x[i]);  // token 0
            for (int head = 0; head < 15; ++head) {
                double before = 0, after = 0;
                for (int i = 0; i < 16; ++i) {
                    before += x[head * 16 + i] * x[head * 16 + i];
                    after += out[head * 16 + i] * out[head * 16 + i];
                }
                EXPECT_NEAR(before, after, 1e-5);
            }
        }
    }
}

// What the embedding is for: the product of a query and a key depends on their distance alone.
TEST(Rope, ProductsDependOnDistance) {
    HostTensor x = random_heads(2, 1, 64);
    for (const Device device : test::host_devices()) {
        double products[2];
        for (int i = 0; i < 2; ++i) {
            HostTensor out(DType::fp32, {2, 1, 64}), positions(DType::int64, {2});
            positions.set(0, i == 0 ? 3 : 1003);
            positions.set(1, i == 0 ? 10 : 1010);
            run(Rope{.x = x.on(device), .out = out.on(device), .positions = positions.on(device)});
            products[i] = 0;
            for (int d = 0; d < 64; ++d) products[i] += out[d] * out[64 + d];
        }
        EXPECT_NEAR(products[0], products[1], 1e-3);  // the angles' fp32 rounding at position 1010
    }
}

TEST(Rope, TablesReplaceComputedAnglesAndInPlaceIsTheSame) {
    HostTensor x = random_heads(4, 2, 8), cos(DType::fp32, {10, 3}), sin(DType::fp32, {10, 3});
    for (int p = 0; p < 10; ++p) {
        for (int i = 0; i < 3; ++i) {
            const float angle = static_cast<float>(p) * static_cast<float>(std::pow(10000.0, -2.0 * i / 6));
            cos.set(p * 3 + i, std::cos(static_cast<double>(angle)));
            sin.set(p * 3 + i, std::sin(static_cast<double>(angle)));
        }
    }
    for (const Device device : test::host_devices()) {
        HostTensor computed(DType::fp32, {4, 2, 8}), looked_up(DType::fp32, {4, 2, 8}), in_place = x;
        Rope op{.x = x.on(device), .out = computed.on(device), .rotary_dim = 6, .start = 6};
        run(op);
        op.cos = cos.on(device), op.sin = sin.on(device), op.out = looked_up.on(device);
        run(op);
        op.x = op.out = in_place.on(device);
        run(op);
        for (int i = 0; i < 64; ++i) {
            EXPECT_NEAR(computed[i], looked_up[i], 1e-6);
            EXPECT_EQ(in_place[i], looked_up[i]);
            if (i % 8 >= 6) {
                EXPECT_EQ(computed[i], x[i]);
            }
        }
    }
}

TEST(Rope, APositionOutsideTheTable) {
    HostTensor x = random_heads(3, 1, 4), table(DType::fp32, {2, 2}, {1, 1, 1, 1}),
               positions(DType::int32, {3}, {1, 2, -1});
    HostTensor out(DType::fp32, {3, 1, 4});
    Rope op{.x = x.on(kCpu),
            .out = out.on(kCpu),
            .positions = positions.on(kCpu),
            .cos = table.on(kCpu),
            .sin = table.on(kCpu)};
    EXPECT_THAT(test::failure(op), HasSubstr("rope.positions: expected numbers in [0, table=2), got 2"));
    for (const Device device : test::host_devices()) {
        if (device == kCpu) continue;
        run(Rope{.x = x.on(device),
                 .out = out.on(device),
                 .positions = positions.on(device),
                 .cos = table.on(device),
                 .sin = table.on(device)});
        for (int i = 4; i < 12; ++i) EXPECT_EQ(out[i], 0) << i;
    }
}

// Numbers on which the rounding of the two products shows: neither mode passes for the other.
TEST(Rope, RoundsOnceOrAfterEachStep) {
    HostTensor x(DType::bf16, {1, 1, 1, 2}, {1.0078125, 1.0078125}), cos(DType::bf16, {1, 1}, {1.0078125}),
        sin(DType::bf16, {1, 1}, {1.03125});
    for (const Device device : test::host_devices()) {
        for (const auto rounding : {Rounding::fused, Rounding::eager}) {
            HostTensor out(DType::bf16, {1, 1, 1, 2});
            run(Rope{.x = x.on(device),
                     .out = out.on(device),
                     .cos = cos.on(device),
                     .sin = sin.on(device),
                     .rounding = rounding});
            EXPECT_EQ(out[0], rounding == Rounding::eager ? -0.0234375 : -0.023681640625);
        }
    }
    EXPECT_THAT(rejection("rope x=bf16[1,3,2,8] out=bf16[1,3,2,8] rounding=eager"),
                HasSubstr("rope.rounding: expected fused without tables"));
    EXPECT_THAT(
        rejection("rope x=bf16[1,3,2,8] out=bf16[1,3,2,8] cos=fp16[9,4] sin=fp16[9,4] rounding=eager"),
        HasSubstr("rope.cos: expected x's dtype or fp32 with rounding=eager, got fp16"));
}

TEST(Rope, PolicyFillsTheDevice) {
    if (test::configuration("rope x=bf16[1,1,2] out=bf16[1,1,2]").empty()) GTEST_SKIP() << "no kernels";
    EXPECT_THAT(test::configuration("rope x=bf16[968,8,256] out=bf16[968,8,256]"),
                HasSubstr("tokens=2 threads=256 blocks=484x1 launches=1"));
    EXPECT_THAT(test::configuration("rope x=bf16[10,8,256] out=bf16[10,8,256]"),
                HasSubstr("tokens=1 threads=128 blocks=10x1"));
    EXPECT_THAT(test::configuration("rope x=bf16[8192,32,128] out=bf16[8192,32,128]"),
                HasSubstr("tokens=2 threads=256 blocks=4096x1"));
    EXPECT_THAT(test::configuration("rope x=bf16[8192,40,128] out=bf16[8192,40,128]"),
                HasSubstr("tokens=2 threads=320 blocks=4096x1"));
    EXPECT_THAT(test::configuration("rope x=bf16[8192,1,128] out=bf16[8192,1,128]"),
                HasSubstr("tokens=4 threads=256 blocks=2048x1"));
    // Few tokens: their heads over more blocks.
    EXPECT_THAT(test::configuration("rope x=bf16[1,40,128] out=bf16[1,40,128]"),
                HasSubstr("tokens=1 threads=96 blocks=1x4"));
    EXPECT_THAT(test::configuration("rope x=bf16[4,1,600] out=bf16[4,1,600]"), HasSubstr("launches=3"));
}

}  // namespace
}  // namespace weft
