// copy: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <utility>

#include "ops/copy/plan.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::configuration;
using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(Copy, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("copy x=int32[4,8] out=fp32[4,8]"),
                HasSubstr("copy.out: expected x's dtype int32: only floating dtypes are converted"));
    EXPECT_THAT(rejection("copy x=fp32[4,8] out=fp32[8,4]"), HasSubstr("copy.x: expected"));
    EXPECT_THAT(rejection("copy x=fp32[4,8] out=fp32[4,8]{0,1}"), HasSubstr("an output can't be broadcast"));
}

TEST(Copy, ATransposedViewAndABroadcastOne) {
    constexpr std::int64_t kRows = 70, kCols = 131;
    for (const Device device : test::host_devices()) {
        for (const DType dtype : {DType::bf16, DType::fp32, DType::int8, DType::int64}) {
            HostTensor x(dtype, {kRows, kCols}), out(dtype, {kCols, kRows}), wide(dtype, {3, kRows, 2});
            for (std::int64_t i = 0; i < kRows * kCols; ++i) x.set(i, static_cast<double>(i % 127));
            const std::int64_t turned[] = {kCols, kRows}, strides[] = {1, kCols};
            run(Copy{.x = Tensor(x.on(device).data, dtype, turned, strides, device), .out = out.on(device)});
            for (std::int64_t i = 0; i < kRows * kCols; ++i)
                ASSERT_EQ(out[i % kCols * kRows + i / kCols], static_cast<double>(i % 127)) << name(dtype);
            // Column 5 twice, for each of three.
            const std::int64_t shape[] = {3, kRows, 2}, repeated[] = {0, kCols, 0};
            const Tensor column = x.on(device).slice(1, 5, 6);
            run(Copy{.x = Tensor(column.data, dtype, shape, repeated, device), .out = wide.on(device)});
            for (std::int64_t i = 0; i < 3 * kRows * 2; ++i)
                ASSERT_EQ(wide[i], x[i / 2 % kRows * kCols + 5]) << name(dtype);
        }
    }
}

TEST(Copy, KeepsBitsAndConvertsOnce) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::fp32, {4}, {1e-45, -0.0, 70000, std::nan("")}), same(DType::fp32, {4}),
            half(DType::fp16, {4}), narrow(DType::fp8_e4m3, {4});
        run(Copy{.x = x.on(device), .out = same.on(device)});
        EXPECT_TRUE(same == x || std::isnan(same[3]));
        EXPECT_TRUE(std::signbit(same[1]));
        run(Copy{.x = x.on(device), .out = half.on(device)});
        EXPECT_TRUE(std::isinf(half[2]) && std::isnan(half[3]));
        run(Copy{.x = x.on(device), .out = narrow.on(device)});
        EXPECT_EQ(narrow[2], 448);
    }
}

TEST(Copy, FillsWithTheValueThatTheDtypeHasForIt) {
    for (const Device device : test::host_devices()) {
        HostTensor half(DType::fp16, {3, 5}), wide(DType::bf16, {3, 5}), number(DType::int8, {7});
        run(Copy{.out = half.on(device).slice(1, 1, 4), .value = -1e30f});
        EXPECT_EQ(half[0], 0);
        for (const int i : {1, 3, 6, 13}) EXPECT_TRUE(std::isinf(half[i]) && half[i] < 0);
        run(Copy{.out = wide.on(device), .value = -1e30f});
        EXPECT_NEAR(wide[14], -1e30, 1e28);
        run(Copy{.out = number.on(device), .value = 300});
        EXPECT_EQ(number[6], 127);
    }
}

// The whole plan of a call: each axis as size:x:out, and what is not as at first.
std::string planned(const std::string& line) {
    std::string said;
    Case::parse(line).with_call(kCpu, [&](const void* call) {
        const CopyPlan p = plan_copy(*static_cast<const Copy*>(call));
        const auto number = [&](const char* name, std::int64_t value) {
            if (value != 0) said += std::string(" ") + name + std::to_string(value);
        };
        constexpr const char* kWays[] = {"words", "tiles", "vectors", "elements"};
        said = kWays[static_cast<int>(p.way)];
        for (int i = 0; i < p.axes; ++i)
            said += (" " + std::to_string(p.size[i]) + ":").append(std::to_string(p.x[i])) + ":" +
                    std::to_string(p.out[i]);
        number("word=", p.word);
        number("across=", p.across);
        number("head=", p.head);
        number("tail=", p.tail);
    });
    return said;
}

constexpr std::pair<const char*, const char*> kPlans[] = {
    // One run, whatever the axes.
    {"copy x=fp32[1] out=fp32[1]", "words 1:1:1 word=4"},
    {"copy x=bf16[16,4] out=bf16[16,4]", "words 8:1:1 word=16"},
    {"copy x=int64[2,3,4] out=int64[2,3,4]", "words 12:1:1 word=16"},
    {"copy out=bf16[16,4]", "words 8:1:1 word=16"},
    {"copy x=bf16[1,8]{100,1} out=bf16[1,8]{50,1}", "words 1:1:1 word=16"},
    {"copy x=bf16[64,3]{1,64} out=bf16[64,3]{1,64}", "words 24:1:1 word=16"},
    // Runs of less than 64 bytes are moved as they are long; longer ones have a tail.
    {"copy x=fp8_e4m3[63] out=fp8_e4m3[63]", "words 63:1:1 word=1"},
    {"copy x=fp8_e4m3[60] out=fp8_e4m3[60]", "words 15:1:1 word=4"},
    {"copy x=fp8_e4m3[64] out=fp8_e4m3[64]", "words 4:1:1 word=16"},
    {"copy x=fp8_e4m3[65] out=fp8_e4m3[65]", "words 4:1:1 word=16 tail=1"},
    {"copy x=bf16[31] out=bf16[31]", "words 31:1:1 word=2"},
    {"copy x=bf16[33]+2 out=bf16[33]+2", "words 16:1:1 word=4 tail=1"},
    // Of two axes every stride and the run itself must be whole words.
    {"copy x=bf16[16,40] out=bf16[16,40]{48,1}", "words 5:1:1 16:5:6 word=16"},
    {"copy x=bf16[16,40]{44,1} out=bf16[16,40]", "words 20:1:1 16:22:20 word=4"},
    {"copy x=bf16[16,44]{48,1} out=bf16[16,44]{56,1}", "words 22:1:1 16:24:28 word=4"},
    {"copy x=bf16[16,40] out=bf16[16,40]{41,1}", "words 40:1:1 16:40:41 word=2"},
    {"copy out=bf16[16,40]{48,1}", "words 5:1:1 16:6:6 word=16"},
    {"copy x=bf16[16,40]+1 out=bf16[16,40]{48,1}", "words 40:1:1 16:40:48 word=2"},
    {"copy x=bf16[16,40] out=bf16[16,40]{48,1}+1", "words 40:1:1 16:40:48 word=2"},
    // The first two axes become one, the third does not; axes stand in the order of out's strides.
    {"copy x=bf16[3,4,8]{64,8,1} out=bf16[3,4,8]", "words 4:1:1 3:8:4 word=16"},
    {"copy x=int8[2,3,5]{15,1,3} out=int8[2,3,5]{15,1,3}", "words 30:1:1 word=1"},
    {"copy x=int8[2,3,5]{1,2,6} out=int8[2,3,5]", "words 5:6:1 3:2:5 2:1:15 word=1"},
    {"copy x=int8[2,2,2,2,2,16]{2000,900,400,180,80,1} out=int8[2,2,2,2,2,16]{1600,784,384,176,80,1}",
     "words 4:1:1 2:20:20 2:45:44 2:100:96 2:225:196 2:500:400 word=4"},
    // Elements before the first word of a long run, where both tensors have as many.
    {"copy x=bf16[128]+1 out=bf16[128]+1", "words 128:1:1 word=2 head=7"},
    {"copy x=bf16[127]+1 out=bf16[127]+1", "words 127:1:1 word=2"},
    {"copy x=bf16[129]+1 out=bf16[129]+2", "words 129:1:1 word=2"},
    {"copy x=fp8_e4m3[300]+3 out=fp8_e4m3[300]+3", "words 300:1:1 word=1 head=13"},
    {"copy x=fp8_e4m3[300] out=fp8_e4m3[300]", "words 18:1:1 word=16 tail=12"},
    {"copy out=bf16[128]+3", "words 128:1:1 word=2 head=5"},
    {"copy x=bf16[300]{2}+1 out=bf16[300]+1", "words 300:2:1 word=2"},
    {"copy x=bf16[300]+1 out=bf16[300]{2}+1", "words 300:1:2 word=2"},
    {"copy x=bf16[2,300]{301,1}+1 out=bf16[2,300]{302,1}+1", "words 300:1:1 2:301:302 word=2"},
    // One axis contiguous in x, another in out, both of at least 8 elements of 2 or 4 bytes.
    {"copy x=bf16[16,24]{1,16} out=bf16[16,24]", "tiles 24:16:1 16:1:24 word=2 across=1"},
    {"copy x=fp32[8,8]{1,8} out=fp32[8,8]", "tiles 8:8:1 8:1:8 word=4 across=1"},
    {"copy x=fp32[3,16,24]{384,1,16} out=fp32[3,16,24]", "tiles 24:16:1 16:1:24 3:384:384 word=4 across=1"},
    {"copy x=fp32[16,3,24]{1,384,16} out=fp32[16,3,24]", "tiles 72:16:1 16:1:72 word=4 across=1"},
    {"copy x=fp32[16,3,24]{1,400,16} out=fp32[16,3,24]", "tiles 24:16:1 3:400:24 16:1:72 word=4 across=2"},
    {"copy x=bf16[7,8]{1,7} out=bf16[7,8]", "words 8:7:1 7:1:8 word=2"},
    {"copy x=bf16[8,7]{1,8} out=bf16[8,7]", "words 7:8:1 8:1:7 word=2"},
    {"copy x=int64[16,24]{1,16} out=int64[16,24]", "words 24:16:1 16:1:24 word=8"},
    {"copy x=bf16[16,24]{1,1} out=bf16[16,24]", "words 24:1:1 16:1:24 word=2"},
    {"copy x=bf16[16,24]{1,16} out=bf16[16,24]{48,2}", "words 24:16:2 16:1:48 word=2"},
    {"copy x=bf16[16,24]{2,32} out=bf16[16,24]", "words 24:32:1 16:2:24 word=2"},
    // Other dtypes: rows of vectors, else elements.
    {"copy x=fp32[17] out=bf16[17]", "vectors 17:1:1 word=1 tail=1"},
    {"copy x=fp32[3,17]{20,1} out=bf16[3,17]", "vectors 17:1:1 3:20:17 word=1"},
    {"copy x=fp32[17]{2} out=bf16[17]", "elements 17:2:1 word=1"},
    {"copy x=fp32[17] out=bf16[17]{2}", "elements 17:1:2 word=1"},
    {"copy x=fp32[2,3,16]{100,20,1} out=bf16[2,3,16]", "elements 16:1:1 3:20:16 2:100:48 word=1"},
};

TEST(Copy, PlansInFull) {
    for (const auto& [line, plan] : kPlans) EXPECT_EQ(planned(line), plan) << line;
}

// Few elements before and behind whole words, in pieces of their own: nothing is lost between them or written beyond.
TEST(Copy, RunsThatBeginAndEndBesideWords) {
    for (const Device device : test::host_devices()) {
        for (const std::int64_t begin : {0, 1, 3, 5, 7}) {
            for (const std::int64_t size : {127, 128, 130, 135, 140, 141, 143}) {
                HostTensor x(DType::bf16, {160}), out(DType::bf16, {160});
                for (std::int64_t i = 0; i < 160; ++i) x.set(i, static_cast<double>(i + 1));
                run(Copy{.x = x.on(device).slice(0, begin, begin + size),
                         .out = out.on(device).slice(0, begin, begin + size)});
                for (std::int64_t i = 0; i < 160; ++i)
                    ASSERT_EQ(out[i], i >= begin && i < begin + size ? static_cast<double>(i + 1) : 0.0);
                run(Copy{.out = out.on(device).slice(0, begin, begin + size), .value = 3});
                for (std::int64_t i = 0; i < 160; ++i)
                    ASSERT_EQ(out[i], i >= begin && i < begin + size ? 3.0 : 0.0);
            }
        }
    }
}

TEST(Copy, PlanMergesAxesAndWidensWords) {
    if (configuration("copy x=fp32[1] out=fp32[1]").empty()) GTEST_SKIP() << "no kernels";
    EXPECT_THAT(configuration("copy x=bf16[4,8,64] out=bf16[4,8,64]"), HasSubstr("words of 16"));
    EXPECT_THAT(configuration("copy x=bf16[1000003] out=bf16[1000003]"), HasSubstr("words of 16"));
    EXPECT_THAT(configuration("copy x=bf16[1000003] out=bf16[1000003]"), HasSubstr("one run, 6 bytes"));
    EXPECT_THAT(configuration("copy x=bf16[512,4096]{1,512} out=bf16[512,4096]"),
                HasSubstr("tiles of 64x64, blocks=512"));
    EXPECT_THAT(configuration("copy x=bf16[16,8]{12,1} out=bf16[16,8]"), HasSubstr("words of 4"));
    EXPECT_THAT(configuration("copy x=fp32[64,512] out=bf16[64,512]"), HasSubstr("converted vectors"));
    EXPECT_THAT(configuration("copy x=fp32[64,512]{1,64} out=bf16[64,512]"), HasSubstr("converted elements"));
    // What each says in full.
    EXPECT_EQ(configuration("copy x=bf16[64] out=bf16[64]"),
              "strides: one run, words of 16, 1 a thread, threads=64 blocks=1");
    EXPECT_EQ(configuration("copy x=bf16[65] out=bf16[65]"),
              "strides: one run, 2 bytes and words of 16, 1 a thread, threads=64 blocks=1");
    EXPECT_EQ(configuration("copy x=bf16[135]+7 out=bf16[135]+7"),
              "strides: one run, 14 bytes and words of 16, 1 a thread, threads=64 blocks=1");
    EXPECT_EQ(configuration("copy x=bf16[8000000] out=bf16[8000000]"),
              "strides: one run, words of 16, 4 a thread, threads=256 blocks=977");
    EXPECT_EQ(configuration("copy x=fp32[2,70,130]{9100,1,70} out=fp32[2,70,130]"),
              "strides: tiles of 64x64, blocks=12");
}

}  // namespace
}  // namespace weft
