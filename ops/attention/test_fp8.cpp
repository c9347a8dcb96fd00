// attention in products of fp8: which calls it takes, and the kernels in the emulator by their name.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "ops/attention/fp8.h"
#include "ops/attention/test_config.h"
#include "ops/attention/wgmma.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

#if WEFT_HAS_EMULATOR
#include "emulator/async_proxy.h"
#endif

namespace weft {
namespace {

using ::testing::HasSubstr;

// A call of so many queries and keys of some heads, in `dtype`, with `more` behind.
std::string line(const std::string& sizes, const std::string& more = "", const char* dtype = "fp8_e4m3",
                 const char* out = "bf16") {
    std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, dim = 0;
    EXPECT_EQ(std::sscanf(sizes.c_str(), "%ld %ld/%ld %ld/%ld %ld", &batch, &queries, &keys, &heads,
                          &kv_heads, &dim),
              6);
    const auto shape = [&](std::int64_t tokens, std::int64_t of_heads) {
        return "[" + std::to_string(batch) + "," + std::to_string(tokens) + "," + std::to_string(of_heads) +
               "," + std::to_string(dim) + "]";
    };
    return std::string("attention q=") + dtype + shape(queries, heads) + " k=" + dtype +
           shape(keys, kv_heads) + " v=" + dtype + shape(keys, kv_heads) + " out=" + out +
           shape(queries, heads) + " fp8_weights=true " + more;
}

std::string reason(const std::string& line, const char* device = "h200") {
    return test::reason_of(attention::decline_fp8, line, device);
}

TEST(AttentionFp8, SaysWhatItTakes) {
    EXPECT_EQ(reason(line("1 300/700 4/2 128")), "accepts");
    EXPECT_EQ(reason(line("2 300/700 6/2 64", "causal=true kv_lengths=int32[2] key_mask=uint8[2,700]",
                          "fp8_e5m2", "fp16")),
              "accepts");
    EXPECT_EQ(reason(line("1 300/700 4/2 16")), "accepts");
    std::string exact = line("1 300/700 4/2 128");
    exact.erase(exact.find(" fp8_weights=true"));
    EXPECT_THAT(reason(exact), HasSubstr("fp8_weights"));
    EXPECT_THAT(reason(line("1 300/700 4/2 128"), "rtx4090"), HasSubstr("SM 9.0 alone"));
    EXPECT_THAT(reason(line("1 300/700 4/2 128"), "b200"), HasSubstr("SM 9.0 alone"));
    EXPECT_THAT(reason(line("1 300/700 4/2 144")), HasSubstr("up to 128 columns"));
    EXPECT_THAT(reason(line("1 300/700 4/2 120")), HasSubstr("whole chunks"));
    EXPECT_THAT(reason(line("1 300/0 4/2 128")), HasSubstr("no keys"));
    EXPECT_THAT(reason(line("1 3/9 129/1 64")), HasSubstr("one to 128 query heads"));
    for (const char* more : {"softcap=5", "window_left=9", "window_right=3", "sinks=fp32[4]"})
        EXPECT_THAT(reason(line("1 300/700 4/2 128", more)), HasSubstr("windows, cap and sinks")) << more;
    EXPECT_THAT(reason(line("1 300/700 4/2 128", "key_limits=int32[1,300]")),
                HasSubstr("windows, cap and sinks"));
    EXPECT_THAT(reason(line("1 300/700 4/2 128", "cu_seqlens_q=int32[4]")), HasSubstr("packed sequences"));
    EXPECT_THAT(reason("attention q=fp8_e4m3[1,300,4,128] k=fp8_e4m3[1,700,2,128] v=fp8_e4m3[1,700,2,64] "
                       "out=bf16[1,300,4,64] fp8_weights=true"),
                HasSubstr("alike in width"));
    EXPECT_THAT(reason(line("20000 9/140000 1/1 128")), HasSubstr("too many tiles"));
}

// Keys and values of any of its tiles fit beside the queries, and three warpgroups compute where they do in 16 bits.
TEST(AttentionFp8, TilesFitAHopperCard) {
    const DeviceInfo& h200 = *find_device("h200");
    for (const int head_dim : attention::kWgmmaCodeHeadDims) {
        attention::Problem problem;
        problem.heads = 200, problem.rows = 8192, problem.keys = 8192, problem.head_dim = head_dim;
        problem.stored_bits = 8;
        const attention::WgmmaConfig config = attention::choose_wgmma(problem, h200);
        EXPECT_EQ(config.tile.warpgroups, head_dim <= 64 ? 3 : 2) << head_dim;
        EXPECT_TRUE(config.tile.codes);
        for (const int warpgroups : {2, config.tile.warpgroups}) {
            const attention::WgmmaTile tile{head_dim, warpgroups, 0, true};
            EXPECT_LE(tile.shared_bytes(), h200.shared_per_block) << head_dim;
            EXPECT_EQ(tile.keys() % 32, 0) << "the order of values' keys is one of 32";
            EXPECT_LE(tile.keys(), attention::kTransposedKeys);
        }
    }
}

// Whole tiles of values, and the factors behind them at an aligned address.
TEST(AttentionFp8, ScratchHoldsWholeTiles) {
    Case c = Case::parse(line("2 9/130 6/3 48"));
    c.infer();
    c.with_call(kCuda, [](const void* call) {
        const attention::TransposedValues values(*static_cast<const Attention*>(call), nullptr);
        EXPECT_EQ(to_string(values.codes), "fp8_e4m3[2,3,48,256]");
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values.factors), 2u * 3 * 48 * 256);
        EXPECT_EQ(values.bytes, 2u * 3 * 48 * 256 + 128);
    });
}

#if WEFT_HAS_EMULATOR
void expect_right(const std::string& line, const char* config, Values values = Values::usual) {
    test::expect_right(line, "flash_fp8", config, values);
}

// On a card of so few multiprocessors.
void expect_right_on(int sms, const std::string& line, const char* config) {
    DeviceInfo info = *find_device("h200");
    info.sms = sms;
    const Outcome outcome = test::verify_on(line, info, "flash_fp8");
    EXPECT_TRUE(outcome.passed) << line << "\n" << outcome.why;
    EXPECT_THAT(outcome.implementation, HasSubstr(config)) << line;
}

constexpr const char* kScales = "q_scale=fp32[2] k_scale=fp32[2] v_scale=fp32[2] ";

TEST(AttentionFp8, ScalesOfHeads) {
    expect_right(line("1 40/150 4/2 128", std::string(kScales) + "lse=fp32[1,4,40]"), "products of fp8");
    expect_right(line("1 40/150 4/2 64", "k_scale=fp32[2]{0} v_scale=fp32[2]", "fp8_e5m2"),
                 "products of fp8");
}

// Columns beyond a head dim's own are zeros in shared memory, and are not stored; both formats, both dtypes of out.
TEST(AttentionFp8, AnyHeadDimOfWholeChunks) {
    expect_right(line("1 20/150 4/2 16", "lse=fp32[1,4,20]"), "128x128 rows and keys of 64 columns");
    expect_right(line("1 20/150 4/2 80", "causal=true", "fp8_e5m2", "fp16"),
                 "128x128 rows and keys of 128 columns");
}

TEST(AttentionFp8, BlocksWorkOnManyRows) {
    expect_right_on(2, line("1 300/250 2/1 64", "lse=fp32[1,2,300]"), "192x96 rows and keys of 64 columns");
    expect_right_on(2, line("1 300/250 2/1 112", "lse=fp32[1,2,300]"),
                    "128x128 rows and keys of 128 columns");
    expect_right_on(1, line("1 384/900 1/1 128", "causal=true"), "128x128 rows and keys of 128 columns");
}

// More than an instruction's 32 keys, than a tile and than a box; one key. With 126 rows of whole tokens.
TEST(AttentionFp8, OddLengths) {
    for (const char* sizes : {"1 9/1 2/1 64", "2 9/31 2/2 64", "1 9/33 2/2 64", "1 9/97 2/2 128",
                              "1 50/129 3/1 64", "1 7/257 4/2 128", "1 5/640 1/1 128"})
        expect_right(line(sizes), "products of fp8");
}

TEST(AttentionFp8, SplitsAreMergedAndClustersShareKeys) {
    expect_right_on(40, line("1 2/1500 8/2 128", std::string(kScales) + "lse=fp32[1,8,2]"), "12 splits");
    expect_right_on(12, line("1 70/2000 2/1 64", "v_scale=fp32[1]"), "6 splits");
    for (const char* dim : {"64", "128"})
        expect_right(line(std::string("1 33/700 4/1 ") + dim, "causal=true v_scale=fp32[1] lse=fp32[1,4,33]"),
                     "2 blocks share");
}

TEST(AttentionFp8, MasksAndLengths) {
    expect_right(
        line("3 20/500 4/1 64", "kv_lengths=int32[3] key_mask=uint8[3,500] causal=true lse=fp32[3,4,20]"),
        "products of fp8");
    expect_right(line("1 300/140 1/1 128", "causal=true lse=fp32[1,1,300]"), "products of fp8");
    expect_right_on(2, line("3 100/300 2/2 128", "kv_lengths=int32[3] key_mask=uint8[3,300]"), "128x128");
}

// Scores far apart, whose maximum grows from tile to tile, and codes of no number.
TEST(AttentionFp8, LargeScores) {
    expect_right(line("1 40/700 4/2 64", kScales), "products of fp8", Values::wide);
    expect_right(line("1 40/700 4/2 128", kScales, "fp8_e5m2", "fp16"), "products of fp8", Values::wide);
    expect_right(line("1 40/300 4/2 128", "causal=true"), "products of fp8", Values::special);
}

// Views: heads before tokens, and every other head.
TEST(AttentionFp8, StridedValues) {
    expect_right(
        "attention q=fp8_e4m3[2,40,4,64] k=fp8_e4m3[2,200,2,64]{25600,64,12800,1} "
        "v=fp8_e4m3[2,200,2,64]{51200,256,128,1} out=bf16[2,40,4,64] fp8_weights=true",
        "products of fp8");
}

std::vector<double> decoded(const std::vector<std::uint16_t>& codes) {
    std::vector<double> values;
    for (const std::uint16_t code : codes) values.push_back(decode(DType::bf16, code));
    return values;
}

// One key head of D = 64 whose queries and keys are all one, and whose values are `v` by key.
struct Flat {
    static constexpr std::int64_t kQueries = 5, kDim = 64;
    std::int64_t keys;
    std::vector<std::uint8_t> q, k, v;
    std::vector<std::uint16_t> out = std::vector<std::uint16_t>(kQueries * kDim);
    Attention op;

    template <class Value>
    Flat(std::int64_t all, Device device, const Value& value)
        : keys(all),
          q(kQueries * kDim, code(1)),
          k(static_cast<std::size_t>(all) * kDim, code(1)),
          v(k.size()) {
        for (std::size_t i = 0; i < v.size(); ++i) v[i] = code(value(static_cast<std::int64_t>(i) / kDim));
        op.q = Tensor(q.data(), DType::fp8_e4m3, {1, kQueries, 1, kDim}, device);
        op.k = Tensor(k.data(), DType::fp8_e4m3, {1, keys, 1, kDim}, device);
        op.v = Tensor(v.data(), DType::fp8_e4m3, {1, keys, 1, kDim}, device);
        op.out = Tensor(out.data(), DType::bf16, {1, kQueries, 1, kDim}, device);
        op.fp8_weights = true;
    }
    static std::uint8_t code(double value) {
        return static_cast<std::uint8_t>(encode(DType::fp8_e4m3, value));
    }
    std::vector<double> run() {
        Context context =
            context_for(*find_op("attention"), op.q.device, op.q.device == kCpu ? "" : "flash_fp8");
        weft::run(op, context);
        return decoded(out);
    }
};

// Codes of NaN wherever a key is hidden, in values and in keys, over more tiles than slots.
TEST(AttentionFp8, HiddenKeysAreNotUsed) {
    for (const bool by_length : {true, false}) {
        Flat flat(1000, kEmulator, [](std::int64_t) { return 0.5; });
        std::vector<std::uint8_t> mask(1000, 1);
        std::int32_t length = 660;
        for (std::size_t key = 0; key < mask.size(); ++key) {
            if (by_length ? key < 660 : key % 7 != 3) continue;
            mask[key] = 0;
            for (std::size_t d = 0; d < Flat::kDim; ++d) flat.k[key * 64 + d] = flat.v[key * 64 + d] = 0x7f;
        }
        if (by_length) {
            flat.op.kv_lengths = Tensor(&length, DType::int32, {1}, kEmulator);
        } else {
            flat.op.key_mask = Tensor(mask.data(), DType::uint8, {1, 1000}, kEmulator);
        }
        EXPECT_THAT(flat.run(), testing::Each(0.5));
    }
}

// A factor that scores cannot be scaled by together with the rest: none, a negative one, one too small.
TEST(AttentionFp8, FactorsThatAreNoScale) {
    for (const float factor : {0.0f, -0.25f, 1e-40f, -1e-3f, 1e37f}) {
        std::vector<double> results[2];
        for (const Device device : {kCpu, kEmulator}) {
            Flat flat(300, device, [](std::int64_t key) { return key % 4; });
            for (std::size_t i = 0; i < flat.k.size(); ++i)
                flat.k[i] = Flat::code(static_cast<double>(i / 64 % 3) / 4);
            std::int32_t length = 250;
            float scale = factor;
            flat.op.q_scale = Tensor(&scale, DType::fp32, {1}, device);
            flat.op.kv_lengths = Tensor(&length, DType::int32, {1}, device);
            results[device == kEmulator] = flat.run();
        }
        EXPECT_THAT(results[1], testing::Pointwise(testing::DoubleNear(0.1), results[0])) << factor;
    }
}

// A row whose keys after the first tile outgrow its maximum by what a weight of 8 bits can hold, and by more.
TEST(AttentionFp8, WeightsDoNotSaturate) {
    for (const double larger : {1.25, 1.5, 2.0, 4.0, 448.0}) {
        std::vector<double> results[2];
        for (const Device device : {kCpu, kEmulator}) {
            Flat flat(290, device, [](std::int64_t key) { return key < 150 ? -1 : 1; });
            for (std::size_t i = 150 * 64; i < flat.k.size(); ++i) flat.k[i] = Flat::code(larger);
            results[device == kEmulator] = flat.run();
        }
        EXPECT_THAT(results[1], testing::Pointwise(testing::DoubleNear(0.07), results[0])) << larger;
    }
}

// What a tensor core's short accumulator loses is lost in one tile, whose sums are then added in fp32: the first 32 keys come to
// 32 * 32 * 448, beside which its last place is 32, and each further 32 keys to 30.
TEST(AttentionFp8, SumsOfTilesAreAddedInFp32) {
    constexpr double kSmall = 1.875 * 0x1p-6;
    emulator::set_short_fp8_sums(true);
    Flat flat(4096, kEmulator, [](std::int64_t key) { return key < 32 ? 448.0 : kSmall; });
    const std::vector<double> out = flat.run();
    emulator::set_short_fp8_sums(false);
    EXPECT_THAT(out, testing::Each(testing::DoubleNear((32 * 448.0 + 4064 * kSmall) / 4096, 0.01)));
}
#endif

}  // namespace
}  // namespace weft
