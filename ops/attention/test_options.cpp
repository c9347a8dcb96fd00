// attention with windows, limits of keys, a soft cap and sinks.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/test_config.h"
#include "ops/attention/wgmma.h"
#include "tests/ops/emulated.h"
#include "tests/ops/support.h"
#include "weft/case.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

const std::string kTensors = "attention q=bf16[2,5,4,64] k=bf16[2,9,2,64] v=bf16[2,9,2,64] ";

std::string rejection(const std::string& more) { return test::open_rejection(kTensors + more); }

TEST(AttentionOptions, RejectsWhatTheContractExcludes) {
    EXPECT_EQ(rejection("window_left=0 window_right=-1 softcap=30 key_limits=int32[2,5] sinks=fp32[4]"),
              "accepted");
    EXPECT_THAT(rejection("window_left=-2"), HasSubstr("expected a value in [-1, "));
    EXPECT_THAT(rejection("window_right=-7"), HasSubstr("expected a value in [-1, "));
    EXPECT_THAT(rejection("softcap=-1"), HasSubstr("expected a value in [0, 1000000]"));
    EXPECT_THAT(rejection("softcap=1e-40"), HasSubstr("attention.softcap: expected 0 or a normal number"));
    EXPECT_THAT(rejection("key_limits=int32[2,9]"),
                HasSubstr("attention.key_limits: expected [batch=2, q_tokens=5]"));
    EXPECT_THAT(rejection("key_limits=int64[2,5]"), HasSubstr("attention.key_limits: expected dtype int32"));
    EXPECT_THAT(rejection("sinks=fp32[2]"),
                HasSubstr("attention.q: expected [batch=2, q_tokens=5, kv_heads*group=2"));
    EXPECT_THAT(rejection("sinks=bf16[4]"), HasSubstr("attention.sinks: expected dtype fp32, got bf16"));
}

// Shapes alone.
Attention shaped(std::int64_t queries, std::int64_t keys, std::int64_t left, std::int64_t right,
                 bool causal) {
    static std::uint16_t element;
    Attention op;
    op.q = Tensor(&element, DType::bf16, {1, queries, 1, 64});
    op.k = op.v = Tensor(&element, DType::bf16, {1, keys, 1, 64});
    op.window_left = left, op.window_right = right, op.causal = causal;
    return op;
}

TEST(AttentionOptions, ThatHideKeysByWhatTheyHoldLeaveNoFloor) {
    std::int32_t length = 3;
    std::uint8_t masked[9] = {};
    Attention plain = shaped(1, 9, -1, -1, true), lengths = plain, limits = plain, mask = plain;
    lengths.kv_lengths = Tensor(&length, DType::int32, {1});
    limits.key_limits = Tensor(&length, DType::int32, {1, 1});
    mask.key_mask = Tensor(masked, DType::uint8, {1, 9});
    const auto at_most = [](const Attention& op) { return op.contract().work(&op).at_most; };
    EXPECT_FALSE(at_most(plain));
    EXPECT_TRUE(at_most(lengths));
    EXPECT_TRUE(at_most(limits));
    EXPECT_TRUE(at_most(mask));
}

// The definition, of n keys that exist.
bool sees(const Attention& op, std::int64_t i, std::int64_t j, std::int64_t n) {
    const std::int64_t position = i + n - op.q.dim(1);
    return j < n && (op.window_left < 0 || j >= position - op.window_left) &&
           (op.window_right < 0 || j <= position + op.window_right) && (!op.causal || j <= position);
}

TEST(AttentionOptions, CountsThePairsAndTheKeysThatAWindowLeaves) {
    for (const std::int64_t queries : {0, 1, 2, 5, 9}) {
        for (const std::int64_t keys : {0, 1, 4, 5, 9}) {
            for (const std::int64_t left : {-1, 0, 1, 3, 7, 8, 20}) {
                for (const std::int64_t right : {-1, 0, 2, 3, 8, 20}) {
                    const Attention op = shaped(queries, keys, left, right, (left + right) % 3 == 0);
                    int pairs = 0, read = 0;
                    for (std::int64_t j = 0; j < keys; ++j) {
                        int seen = 0;
                        for (std::int64_t i = 0; i < queries; ++i) seen += sees(op, i, j, keys);
                        pairs += seen, read += seen > 0;
                    }
                    const Work work = op.contract().work(&op);
                    EXPECT_EQ(work.flops, 4.0 * pairs * 64)
                        << queries << "x" << keys << " " << left << " " << right << " " << op.causal;
                    EXPECT_EQ(work.bytes, 128 * (2.0 * read + static_cast<double>(queries)))
                        << queries << "x" << keys << " " << left << " " << right << " " << op.causal;
                }
            }
        }
    }
}

TEST(AttentionOptions, WindowsThatHideNothingCostNothing) {
    EXPECT_FALSE(attention::has_options(shaped(5, 9, -1, -1, true)));
    EXPECT_FALSE(attention::has_options(shaped(5, 9, -1, 0, false))) << "a causal mask";
    EXPECT_FALSE(attention::has_options(shaped(5, 9, 8, 4, false)))
        << "the last sees the first, the first the last";
    EXPECT_TRUE(attention::has_options(shaped(5, 9, 7, 4, false)));
    EXPECT_TRUE(attention::has_options(shaped(5, 9, 8, 3, false)));
    EXPECT_FALSE(attention::has_options(shaped(1, 9, 8, 0, true))) << "the last query stands at the last key";
    Attention op = shaped(5, 9, -1, -1, false);
    op.softcap = 30;
    EXPECT_TRUE(attention::has_options(op));
}

// A prompt of 32768 tokens with a window of 4096, 4 query heads a key head.
TEST(AttentionOptions, CutsCallsByTheWindow) {
    attention::Problem problem;
    problem.heads = 8, problem.rows = 4 * 32768, problem.keys = 32768, problem.head_dim = 128,
    problem.group = 4;
    EXPECT_EQ(problem.block_keys(128, 64), 32768);
    problem.window.left = 4095;
    EXPECT_EQ(problem.block_keys(128, 64), 32768) << "no limit on the right";
    problem.window.right = 0;
    EXPECT_EQ(problem.block_keys(128, 64), 4095 + 33 + 63) << "32 tokens may touch 33";
    const DeviceInfo& h200 = *find_device("h200");
    const attention::Config config = attention::choose(problem, h200);
    const double windowed = attention::estimate(problem, config, h200);
    problem.window = {};
    EXPECT_GT(attention::estimate(problem, config, h200), 7 * windowed);

    // Of one query head a key head, a row is a token.
    attention::Problem single;
    single.rows = 1000, single.keys = 5000;
    single.window.left = 100, single.window.right = 0;
    EXPECT_EQ(single.block_keys(128, 64), 100 + 128 + 63);
    single.window.left = 0;
    EXPECT_EQ(single.block_keys(1, 64), 1 + 63);

    // Decoding: the window's tiles are all there is to divide.
    attention::Problem decode;
    decode.heads = 4, decode.rows = 1, decode.keys = 65536, decode.head_dim = 128;
    EXPECT_GT(attention::choose(decode, h200).splits, 4);
    decode.window.left = 100, decode.window.right = 0;
    const attention::Config few = attention::choose(decode, h200);
    EXPECT_LE(few.splits * few.groups, 3) << "100 + 1 keys are in three tiles at most";
}

using test::places;

// Queries are zero, so that all keys count alike; key j's value is one in column j: the outputs say who was seen.
struct Seen {
    static constexpr std::int64_t kDim = 256;
    std::int64_t queries, keys;
    std::vector<std::uint16_t> q, k, v, out;
    std::vector<float> lse, sinks{};
    std::vector<std::int32_t> limits{}, lengths{};

    Seen(std::int64_t queries, std::int64_t keys)
        : queries(queries),
          keys(keys),
          q(static_cast<std::size_t>(queries * kDim), 0),
          k(static_cast<std::size_t>(keys * kDim), 0x3f80),
          v(k.size(), 0),
          out(q.size(), 0xffff),
          lse(static_cast<std::size_t>(queries), -1.0f) {
        for (std::size_t j = 0; j < static_cast<std::size_t>(keys); ++j)
            v[j * kDim + j % kDim] = 0x3f80;  // 1
    }
    Attention call(Device device) {
        Attention op;
        op.q = Tensor(q.data(), DType::bf16, {1, queries, 1, kDim}, device);
        op.k = Tensor(k.data(), DType::bf16, {1, keys, 1, kDim}, device);
        op.v = Tensor(v.data(), DType::bf16, {1, keys, 1, kDim}, device);
        op.out = Tensor(out.data(), DType::bf16, {1, queries, 1, kDim}, device);
        op.lse = Tensor(lse.data(), DType::fp32, {1, 1, queries}, device);
        if (!sinks.empty()) op.sinks = Tensor(sinks.data(), DType::fp32, {1}, device);
        if (!lengths.empty()) op.kv_lengths = Tensor(lengths.data(), DType::int32, {1}, device);
        if (!limits.empty()) op.key_limits = Tensor(limits.data(), DType::int32, {1, queries}, device);
        return op;
    }
    void expect(const Attention& op) const {
        const std::int64_t n = lengths.empty() ? keys : std::clamp<std::int64_t>(lengths[0], 0, keys);
        const double sink = sinks.empty() ? 0 : std::exp(double{sinks[0]});
        for (std::int64_t i = 0; i < queries; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const auto is_seen = [&](std::int64_t j) {
                return sees(op, i, j, n) && (limits.empty() || j < limits[at]);
            };
            int count = 0;
            for (std::int64_t j = 0; j < keys; ++j) count += is_seen(j);
            for (std::int64_t j = 0; j < keys; ++j) {
                const double got = decode(DType::bf16, out[at * kDim + static_cast<std::size_t>(j)]);
                ASSERT_NEAR(got, is_seen(j) ? 1 / (count + sink) : 0, 0x1p-8 / std::max(count, 1))
                    << i << " " << j;
            }
            if (count + sink == 0) {
                EXPECT_EQ(lse[at], -std::numeric_limits<float>::infinity());
            } else {
                const double right = std::log(count + sink);
                EXPECT_NEAR(lse[at], right, 1e-6 * (4 + std::fabs(right))) << i;
            }
        }
    }
};

void expect_seen(Seen s, std::int64_t left, std::int64_t right, bool causal) {
    for (const test::Place& place : places()) {
        if (place.implementation == "flash_wgmma" && !s.limits.empty()) continue;  // it declines
        SCOPED_TRACE(std::to_string(left) + " " + std::to_string(right) + " by " + place.implementation);
        Attention op = s.call(place.device);
        op.window_left = left, op.window_right = right, op.causal = causal;
        Context context = place.context();
        run(op, context);
        s.expect(op);
    }
}

TEST(AttentionOptions, QueriesSeeTheirWindow) {
    expect_seen({40, 200}, 0, 0, false);     // nothing but their own position
    expect_seen({40, 200}, 5, -1, true);     // narrower than a tile, over the edge of one
    expect_seen({40, 200}, 5, -1, false);    // to the left alone
    expect_seen({40, 200}, -1, 9, false);    // to the right alone
    expect_seen({10, 100}, -1, 9, true);     // the stricter is `causal`
    expect_seen({140, 200}, 70, 3, false);   // wider than a tile
    expect_seen({200, 40}, 7, 2, false);     // the first queries stand before the first key: some see none
    expect_seen({200, 40}, 1000, 0, false);  // wider than all
}

TEST(AttentionOptions, WindowsAlignToTheLengths) {
    for (const std::int32_t length : {-1, 1, 66, 130, 300}) {
        Seen s(40, 200);
        s.lengths = {length};
        expect_seen(s, 6, 0, false);
        expect_seen(s, 20, 30, false);
    }
}

TEST(AttentionOptions, LimitsHideKeysOfSingleQueries) {
    Seen s(40, 200);
    // Blocks as in pi0: a prefix, a state, the actions. In between some that see nothing, and some beyond all keys.
    for (std::int32_t i = 0; i < 40; ++i) s.limits.push_back(i < 20 ? 130 : i < 21 ? 131 : 200);
    expect_seen(s, -1, -1, false);
    for (const std::size_t i : {3, 4, 24}) s.limits[i] = static_cast<std::int32_t>(i) - 4;  // -1, 0, 20
    s.limits[39] = std::numeric_limits<std::int32_t>::max();
    s.limits[38] = std::numeric_limits<std::int32_t>::min();
    expect_seen(s, -1, -1, false);
    expect_seen(s, -1, -1, true);
    expect_seen(s, 31, 4, false);  // the window begins behind the limit of some
    s.lengths = {90};
    expect_seen(s, -1, 0, false);
    // One query of a block alone sees the tiles behind the first.
    for (const std::size_t alone : {31, 32, 33, 63}) {
        Seen one(64, 200);
        one.limits.assign(64, 10);
        one.limits[alone] = 200;
        expect_seen(one, -1, -1, false);
    }
}

TEST(AttentionOptions, ASinkTakesItsPart) {
    const float inf = std::numeric_limits<float>::infinity();
    for (const float sink : {0.5f, 90.0f, -100.0f, -inf}) {
        Seen s(12, 100);
        s.sinks = {sink};
        expect_seen(s, -1, -1, false);
        expect_seen(s, 9, 0, false);
        Seen without(12, 5);  // seven queries have nothing but the sink
        without.sinks = {sink};
        expect_seen(without, -1, -1, true);
        without.lengths = {0};  // nobody has a key: out is zero and lse the sink
        expect_seen(without, -1, -1, false);
    }
}

// Whole tiles on either side of what a block sees are not read: what is there might be anything.
TEST(AttentionOptions, TilesOutsideOfAWindowAreNotRead) {
    Seen s(8, 800);
    const auto nowhere = [](std::int64_t j) { return j < 384 || j >= 640; };  // [396, 603] are seen
    for (std::int64_t j = 0; j < s.keys; ++j) {
        for (std::int64_t d = 0; nowhere(j) && d < Seen::kDim; ++d)
            s.k[static_cast<std::size_t>(j * Seen::kDim + d)] =
                s.v[static_cast<std::size_t>(j * Seen::kDim + d)] = 0x7fc0;  // NaN
    }
    s.lengths = {604};
    for (const test::Place& place : places()) {
        Attention op = s.call(place.device);
        op.window_left = 200, op.window_right = 0;
        Context context = place.context();
        run(op, context);
        for (const std::uint16_t value : s.out)
            ASSERT_TRUE(std::isfinite(decode(DType::bf16, value))) << place.implementation;
    }
}

// With one key, lse is its capped score: from where tanh is the identity to where it is 1.
TEST(AttentionOptions, TheCapKeepsItsBound) {
    std::vector<std::uint16_t> scores;
    for (double score = 1e-4; score < 1e9; score *= -1.7)
        scores.push_back(static_cast<std::uint16_t>(encode(DType::bf16, score)));
    for (const test::Place& place : places()) {
        for (const double cap : {1.0, 30.0, 50.0, 1e5}) {
            Seen s(static_cast<std::int64_t>(scores.size()), 1);
            for (std::size_t i = 0; i < scores.size(); ++i) s.q[i * Seen::kDim] = scores[i];
            Attention op = s.call(place.device);
            op.scale = 1, op.softcap = static_cast<float>(cap);
            Context context = place.context();
            run(op, context);
            for (std::size_t i = 0; i < scores.size(); ++i) {
                const double score = decode(DType::bf16, scores[i]), x = cap * std::tanh(score / cap);
                EXPECT_NEAR(s.lse[i], x, 5 * 0x1p-23 * cap + 6 * 0x1p-24 * std::fabs(x) + 1e-6)
                    << place.implementation << score;
            }
        }
    }
}

#if WEFT_HAS_EMULATOR
using test::config_of;

TEST(AttentionOptions, SplitsAndGroupsShareThem) {
    const char* lines[] = {
        "attention q=bf16[1,2,4,32] k=bf16[1,900,2,32] v=bf16[1,900,2,32] sinks=fp32[4] lse=fp32[1,4,2] "
        "window_left=700 "
        "causal=true",
        "attention q=fp16[1,3,2,72] k=fp16[1,700,1,72] v=fp16[1,700,1,72] kv_lengths=int32[1] "
        "key_limits=int32[1,3] "
        "key_mask=uint8[1,700] sinks=fp32[2] lse=fp32[1,2,3] softcap=20",
        "attention q=bf16[1,1,1,128] k=bf16[1,900,1,128] v=bf16[1,900,1,128] key_limits=int32[1,1] softcap=1 "
        "scale=1"};
    for (const char* line : lines) {
        EXPECT_GT(config_of(line, "h200").splits, 1) << line;
        test::expect_mma_right(line, "h200", "flash_mma");
    }
    const char* groups =
        "attention q=bf16[40,1,2,24] k=bf16[40,300,1,24] v=bf16[40,300,1,24] key_limits=int32[40,1] "
        "sinks=fp32[2]";
    EXPECT_GE(config_of(groups, "h200").groups, 2);
    test::expect_mma_right(groups, "h200", "flash_mma");
}

TEST(AttentionOptions, OnWgmma) {
    const auto right = [](const std::string& line, const char* config, Values values = Values::usual) {
        test::expect_right("attention " + line, "flash_wgmma", config, values);
    };
    right(
        "q=bf16[1,100,2,64] k=bf16[1,500,1,64] v=bf16[1,500,1,64] lse=fp32[1,2,100] causal=true "
        "window_left=150",
        "2 blocks share");
    right(
        "q=fp16[1,250,1,128] k=fp16[1,300,1,128] v=fp16[1,300,1,128] window_left=3 window_right=2 "
        "lse=fp32[1,1,250]",
        "2 blocks share");
    right(
        "q=bf16[1,20,8,256] k=bf16[1,300,1,256] v=bf16[1,300,1,256] sinks=fp32[8] softcap=50 "
        "lse=fp32[1,8,20]",
        "2 blocks share");
    right(
        "q=bf16[3,50,4,64] k=bf16[3,300,1,64] v=bf16[3,300,1,64] kv_lengths=int32[3] key_mask=uint8[3,300] "
        "sinks=fp32[4] causal=true window_left=70 softcap=5 lse=fp32[3,4,50]",
        "1 blocks share");
    right(
        "q=bf16[1,256,1,256] k=bf16[1,90,1,256] v=bf16[1,90,1,256] causal=true window_left=20 sinks=fp32[1]",
        "2 blocks share");
    right("q=bf16[1,9,2,64] k=bf16[1,200,1,64] v=bf16[1,200,1,64] softcap=30", "blocks share", Values::wide);
}
#endif

}  // namespace
}  // namespace weft
