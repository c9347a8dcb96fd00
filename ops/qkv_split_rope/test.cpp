// qkv_split_rope: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/qkv_split_rope/qkv_split_rope.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

constexpr const char* kGood =
    "qkv_split_rope qkv=bf16[4,640] q=bf16[4,8,64] k_cache=bf16[9,1,64] v_cache=bf16[9,1,64]";

TEST(QkvSplitRope, RejectsWhatTheContractExcludes) {
    const std::string good = kGood;
    EXPECT_EQ(rejection(good), "accepted");
    EXPECT_THAT(
        rejection("qkv_split_rope qkv=bf16[4,639] q=bf16[4,8,64] k_cache=bf16[9,1,64] v_cache=bf16[9,1,64]"),
        HasSubstr(
            "qkv_split_rope.qkv: expected [tokens=4, (q_heads+2*kv_heads)*head_dim=640], got [4, 639]"));
    EXPECT_THAT(
        rejection("qkv_split_rope qkv=bf16[4,640] q=bf16[4,8,64] k_cache=bf16[9,1,64] v_cache=bf16[9,2,64]"),
        HasSubstr("qkv_split_rope.v_cache: expected"));
    EXPECT_THAT(
        rejection("qkv_split_rope qkv=bf16[4,640] q=fp16[4,8,64] k_cache=bf16[9,1,64] v_cache=bf16[9,1,64]"),
        HasSubstr("qkv_split_rope.q: expected qkv's dtype bf16, got fp16"));
    EXPECT_THAT(
        rejection("qkv_split_rope qkv=bf16[4,640] q=bf16[4,8,64] k_cache=fp32[9,1,64] v_cache=bf16[9,1,64]"),
        HasSubstr("qkv_split_rope.k_cache: expected qkv's dtype bf16, got fp32"));
    EXPECT_THAT(rejection(good + " cache_offset=6"),
                HasSubstr("qkv_split_rope.cache_offset: expected at most cache_tokens - tokens = 5, got 6"));
    EXPECT_EQ(rejection(good + " cache_offset_add=int32[1] cache_offset=6"),
              "accepted");  // the host can't know
    EXPECT_THAT(rejection(good + " rotary_dim=63"),
                HasSubstr("qkv_split_rope.rotary_dim: expected an even number up to head_dim=64, got 63"));
    EXPECT_THAT(rejection(good + " cos=bf16[9,32]"),
                HasSubstr("qkv_split_rope.cos: expected sin beside it, got none"));
    EXPECT_THAT(rejection(good + " cos=bf16[9,32] sin=fp32[9,32]"),
                HasSubstr("qkv_split_rope.sin: expected cos's dtype bf16, got fp32"));
    EXPECT_THAT(rejection(good + " cos=bf16[0,32] sin=bf16[0,32]"),
                HasSubstr("qkv_split_rope.cos: expected at least one row, got none"));
    EXPECT_THAT(rejection(good + " cos=bf16[9,31] sin=bf16[9,31]"),
                HasSubstr("qkv_split_rope.cos: expected [table, half=32]"));
    EXPECT_THAT(
        rejection(good + " cos=bf16[5,32] sin=bf16[5,32] cache_offset=2"),
        HasSubstr(
            "qkv_split_rope.cos: expected at least cache_offset + tokens = 6 rows without positions, got 5"));
    // With positions, or where the device says how far the cache is full, the host can't know.
    EXPECT_EQ(rejection(good + " cos=bf16[3,32] sin=bf16[3,32] positions=int32[4]"), "accepted");
    EXPECT_EQ(rejection(good + " cos=bf16[3,32] sin=bf16[3,32] cache_offset_add=int32[1]"), "accepted");
    EXPECT_THAT(rejection(good + " positions=fp32[4]"),
                HasSubstr("qkv_split_rope.positions: expected dtype"));
    EXPECT_THAT(rejection(good + " positions=int32[5]"),
                HasSubstr("qkv_split_rope.positions: expected [tokens=4], got [5]"));
}

struct Split {
    HostTensor qkv{DType::fp32, {3, 16}}, q{DType::fp32, {3, 2, 4}};
    HostTensor k{DType::fp32, {5, 1, 4}, std::vector<double>(20, -1.0)},
        v{DType::fp32, {5, 1, 4}, std::vector<double>(20, -1.0)};
    HostTensor add{DType::int32, {1}};

    Split() {
        for (int i = 0; i < 48; ++i) qkv.set(i, std::cos(0.9 * i));
    }
    QkvSplitRope op(Device device) {
        return {.qkv = qkv.on(device), .q = q.on(device), .k_cache = k.on(device), .v_cache = v.on(device)};
    }
};

// Positions follow the cache: prefilling rows 0 to 2 at once, or from a device number, or one by one, is the
// same.
TEST(QkvSplitRope, WhereTheCacheBeginsMayComeFromTheDevice) {
    for (const Device device : test::host_devices()) {
        Split by_option, by_number, one_by_one;
        QkvSplitRope op = by_option.op(device);
        op.cache_offset = 2;
        run(op);
        op = by_number.op(device);
        op.cache_offset = 1;
        op.cache_offset_add = by_number.add.on(device);
        by_number.add.set(0, 1);
        run(op);
        for (int token = 0; token < 3; ++token) {
            op = one_by_one.op(device);
            op.qkv = op.qkv.slice(0, token, token + 1);
            op.q = op.q.slice(0, token, token + 1);
            op.cache_offset = 2 + token;
            run(op);
        }
        for (const Split* other : {&by_number, &one_by_one}) {
            EXPECT_EQ(by_option.q, other->q);
            EXPECT_EQ(by_option.k, other->k);
            EXPECT_EQ(by_option.v, other->v);
        }
        EXPECT_EQ(by_option.k[7], -1);                 // row 1 is not its own
        EXPECT_EQ(by_option.v[8], by_option.qkv[12]);  // row 2 is token 0's V
    }
}

TEST(QkvSplitRope, NeverWritesOutsideTheCache) {
    for (const Device device : test::host_devices()) {
        constexpr std::int64_t k32 = std::int64_t{1} << 32;  // what 32 bits take for row 0
        for (const std::int64_t add :
             std::initializer_list<std::int64_t>{-2, 3, 1000, -1000, k32, k32 + 1, -k32}) {
            Split split;
            if (add >= k32 || add <= -k32) split.add = HostTensor(DType::int64, {1});
            split.add.set(0, static_cast<double>(add));
            QkvSplitRope op = split.op(device);
            // A cache in the middle of a larger array, whose other rows show what was written outside.
            op.k_cache = op.k_cache.slice(0, 1, 4);
            op.v_cache = op.v_cache.slice(0, 1, 4);
            op.cache_offset_add = split.add.on(device);
            run(op);
            for (int row = 0; row < 5; ++row) {
                const std::int64_t token = row - 1 - add;
                const bool mine = row >= 1 && row < 4 && token >= 0 && token < 3;
                EXPECT_EQ(split.v[row * 4], mine ? split.qkv[token * 16 + 12] : -1) << add << " " << row;
                if (!mine) {
                    EXPECT_EQ(split.k[row * 4], -1);
                }
            }
        }
    }
}

// Even NaN and infinities come through as they are, which a turn by the angle 0 would mix into their partners.
TEST(QkvSplitRope, CopiesWhereNothingTurns) {
    const double inf = std::numeric_limits<double>::infinity();
    HostTensor qkv(DType::bf16, {2, 16}), q(DType::bf16, {2, 2, 4}), k(DType::bf16, {2, 1, 4}),
        v(DType::bf16, {2, 1, 4});
    for (int i = 0; i < 32; ++i) qkv.set(i, i % 7 == 3 ? inf : i);
    for (const Device device : test::host_devices()) {
        run(QkvSplitRope{.qkv = qkv.on(device),
                         .q = q.on(device),
                         .k_cache = k.on(device),
                         .v_cache = v.on(device),
                         .rotate = false});
        for (int i = 0; i < 32; ++i) {
            const int token = i / 16, column = i % 16;
            const double got = column < 8    ? q[token * 8 + column]
                               : column < 12 ? k[token * 4 + column - 8]
                                             : v[token * 4 + column - 12];
            EXPECT_EQ(got, qkv[i]) << i;
        }
    }
    EXPECT_THAT(rejection(std::string(kGood) + " rotate=false rotary_dim=2"),
                HasSubstr("qkv_split_rope.rotary_dim: expected 0 with rotate=false, got 2"));
    EXPECT_THAT(rejection(std::string(kGood) + " rotate=false positions=int32[4]"),
                HasSubstr("qkv_split_rope.positions: expected none with rotate=false"));
    EXPECT_THAT(rejection(std::string(kGood) + " rotate=false cos=bf16[9,0] sin=bf16[9,0]"),
                HasSubstr("qkv_split_rope.cos: expected none with rotate=false"));
}

TEST(QkvSplitRope, PolicyFillsTheDevice) {
    if (test::configuration(kGood).empty()) GTEST_SKIP() << "no kernels";
    EXPECT_THAT(
        test::configuration("qkv_split_rope qkv=bf16[968,2560] q=bf16[968,8,256] k_cache=bf16[978,1,256] "
                            "v_cache=bf16[978,1,256]"),
        HasSubstr("tokens=1 threads=160 blocks=968 launches=1"));
    EXPECT_THAT(test::configuration(kGood), HasSubstr("tokens=1 threads=64 blocks=4"));
}

}  // namespace
}  // namespace weft
