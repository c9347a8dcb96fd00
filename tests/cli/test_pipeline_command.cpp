// `weft run pi05-encoder`: what each option changes, and what is printed of a run.
#include <cmath>
#include <utility>

#include "io/safetensors.h"
#include "pipelines/pi05/tool/report.h"
#include "tests/cli/small_model.h"
#include "verify/fuzz.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

test::Result encoder(std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "pi05-encoder", "--checkpoint", test::checkpoint(), "--image",
                                 WEFT_SOURCE_DIR "/assets/coffee.ppm"});
    return test::weft(words);
}
// On a small picture, and ids that the model has.
std::vector<std::string> small(std::vector<std::string> words) {
    words.insert(words.begin(), {"--crop", "28", "--prompt", "2,5,0,15"});
    return words;
}
nlohmann::json told(std::vector<std::string> words) {
    words.push_back("--json");
    const test::Result r = encoder(small(std::move(words)));
    EXPECT_EQ(r.code, 0) << r.error;
    return parse_json(r.out);
}
// Of each label and op: how many calls.
std::vector<std::pair<std::string, int>> calls(const nlohmann::json& result) {
    std::vector<std::pair<std::string, int>> found;
    for (const auto& label : result.at("labels")) {
        found.emplace_back(label.at("label").get<std::string>() + ": " + label.at("op").get<std::string>(),
                           label.at("calls").get<int>());
    }
    return found;
}

TEST(PipelineCommand, TellsTheCallsOfAForwardPass) {
    const nlohmann::json full = told({"--dtype", "fp32"});
    EXPECT_EQ(full.at("tokens"), 4 + 4);
    EXPECT_EQ(full.at("layers"), 2);
    EXPECT_TRUE(full.at("samples_us").empty());
    const std::vector<std::pair<std::string, int>> expected = {
        {"embed: patch_im2col", 1},     {"embed: gemm", 1}, {"embed: embedding", 1},
        {"norm: rms_norm", 4},          {"qkv: gemm", 2},   {"rope: qkv_split_rope", 2},
        {"attention: attention", 2},    {"out: gemm", 2},   {"gate_up: gemm", 2},
        {"geglu: gated_activation", 2}, {"down: gemm", 2},  {"final norm: rms_norm", 1}};
    EXPECT_EQ(calls(full), expected);
    auto quantized = expected;
    quantized.insert(quantized.begin() + 7, {"quantize: quantize", 2});
    EXPECT_EQ(calls(told({"--precision", "fp8"})), quantized);
}

TEST(PipelineCommand, TakesItsOptions) {
    EXPECT_EQ(told({"--views", "3"}).at("tokens"), 3 * 4 + 4);
    EXPECT_EQ(told({"--layers", "1"}).at("layers"), 1);
    const nlohmann::json timed = told({"--repeats", "3", "--layers", "1"});
    EXPECT_EQ(timed.at("samples_us").size(), 3U);
    for (const auto& label : timed.at("labels")) EXPECT_GT(label.at("us"), 0) << label;
    const auto phases = [](std::vector<std::string> words) { return encoder(small(std::move(words))).error; };
    const std::string plain = phases({});
    EXPECT_THAT(plain, HasSubstr("loading 2 layers as bf16 on "));
    EXPECT_THAT(plain, HasSubstr("running 8 tokens"));
    EXPECT_THAT(plain, Not(HasSubstr("calibrating")));
    EXPECT_THAT(phases({"--precision", "fp8", "--dtype", "fp16"}),
                testing::AllOf(HasSubstr("loading 2 layers as fp16"), HasSubstr("calibrating")));
    const std::string out = testing::TempDir() + "/weft_command.safetensors";
    told({"--out", out, "--dtype", "fp16"});
    EXPECT_EQ(SafetensorsFile(out).metadata().at("dtype"), "fp16");
}

// Without a prompt ids are made up, which this model does not have; without a crop the picture is taken whole.
TEST(PipelineCommand, MakesUpWhatIsNotGiven) {
    EXPECT_EQ(made_up_prompt(5), (std::vector<std::int64_t>{2, 772, 1541, 265, 1034}));
    EXPECT_EQ(made_up_prompt(1), (std::vector<std::int64_t>{2}));
    EXPECT_TRUE(made_up_prompt(0).empty());
    for (const std::int64_t id : made_up_prompt(4000)) EXPECT_TRUE(id >= 2 && id < 2048) << id;
    EXPECT_THAT(encoder({"--crop", "28"}).error, HasSubstr("token id 772 is outside [0, 16)"));
    const test::Result one = encoder({"--crop", "28", "--prompt-tokens", "1"});
    EXPECT_EQ(one.code, 0) << one.error;
    EXPECT_THAT(one.out, HasSubstr("5 tokens, 2 layers of width 32"));
}

TEST(PipelineCommand, RunsWhereItIsTold) {
    if (devices_here().size() == 1) GTEST_SKIP() << "no emulator";
    const auto taken = [](const nlohmann::json& result, const std::string& name) {
        for (const auto& label : result.at("labels")) {
            if (label.at("label") == name) return label.at("implementation").get<std::string>();
        }
        return std::string();
    };
    const nlohmann::json here = told({"--layers", "1"}),
                         emulated = told({"--layers", "1", "--device", "emulator"});
    EXPECT_EQ(taken(here, "norm"), "reference");
    const std::string first = taken(emulated, "norm");
    EXPECT_NE(first, "reference");
    const test::Result other =
        encoder(small({"--layers", "1", "--device", "emulator", "--json", "--avoid", "nobody," + first}));
    if (other.code == 0) {
        EXPECT_NE(taken(parse_json(other.out), "norm"), first);
    } else {
        EXPECT_THAT(other.error, HasSubstr("rms_norm: no implementation for emulator takes this call"));
    }
}

SessionResult made_up() {
    SessionResult result;
    result.config.layers = 18;
    result.tokens = 968;
    for (int i = 1; i <= 11; ++i) result.samples_us.push_back(1000 * i);
    result.launches_per_layer = 8.5;
    LabelTime norm{.label = "norm", .op = "rms_norm", .implementation = "rows", .config = "", .calls = 4};
    norm.us = 40, norm.floor_us = 10, norm.bytes = 4e7, norm.flops = 1e12;
    LabelTime qkv{.label = "qkv", .op = "gemm", .implementation = "wgmma", .config = "", .calls = 2};
    qkv.us = 120, qkv.floor_us = 60, qkv.bytes = 1e6, qkv.flops = 6e10, qkv.math = DType::bf16;
    LabelTime rope{
        .label = "rope", .op = "qkv_split_rope", .implementation = "rows", .config = "", .calls = 1};
    rope.us = 40, rope.bytes = 8e6, rope.flops = 150 * 8e6, rope.math = DType::bf16;
    result.labels = {norm, qkv, rope};
    return result;
}
std::string printed(const SessionResult& result) {
    testing::internal::CaptureStdout();
    print_report(result);
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
}

// Arithmetic bounds the product alone: of the others one computes in fp32, one has as many operations as bytes allow.
TEST(PipelineCommand, PrintsWhatWasTimed) {
    SessionResult result = made_up();
    EXPECT_EQ(printed(result),
              R"(968 tokens, 18 layers of width 2048
latency 6.000 ms (p10 2.000, p90 10.000), 8.5 launches a layer

step        op                implementation          calls  us a call   share           rate  % floor
norm        rms_norm          rows                        4      10.00   20.0%      1.00 TB/s       25
qkv         gemm              wgmma                       2      60.00   60.0%    500 TFLOP/s       50
rope        qkv_split_rope    rows                        1      40.00   20.0%      0.20 TB/s        -
sum of the steps, each label's calls alone: 0.200 ms
)");
    result.launches_per_layer = 0;
    EXPECT_THAT(printed(result), HasSubstr("(p10 2.000, p90 10.000)\n\nstep"));
    result.samples_us.clear();
    EXPECT_EQ(printed(result), "968 tokens, 18 layers of width 2048\n");
}

TEST(PipelineCommand, TellsEachFigureByItsName) {
    const nlohmann::json all = to_json(made_up());
    EXPECT_EQ(all.at("tokens"), 968);
    EXPECT_EQ(all.at("layers"), 18);
    EXPECT_EQ(all.at("launches_per_layer"), 8.5);
    EXPECT_EQ(all.at("samples_us").size(), 11U);
    EXPECT_EQ(all.size(), 5U);
    EXPECT_EQ(all.at("labels").size(), 3U);
    EXPECT_EQ(all.at("labels")[1], (nlohmann::json{{"label", "qkv"},
                                                   {"op", "gemm"},
                                                   {"implementation", "wgmma"},
                                                   {"calls", 2},
                                                   {"us", 120.0},
                                                   {"floor_us", 60.0},
                                                   {"bytes", 1e6},
                                                   {"flops", 6e10}}));
}

TEST(PipelineCommand, SharesOfSamplesAndDistancesOfResults) {
    EXPECT_EQ(quantile({}, 0.5), 0);
    const std::vector<double> four = {1, 2, 3, 4};
    EXPECT_EQ(quantile(four, 0), 1);
    EXPECT_EQ(quantile(four, 0.5), 3);
    EXPECT_EQ(quantile(four, 0.8), 3);
    EXPECT_EQ(quantile(four, 1), 4);
    const Closeness close = closeness({3, 4, 0}, {3, 0, 4});
    EXPECT_DOUBLE_EQ(close.relative_error, std::sqrt(32.0) / 5);
    EXPECT_DOUBLE_EQ(close.cosine, 9.0 / 25);
    EXPECT_DOUBLE_EQ(closeness({2, 0}, {4, 0}).cosine, 1);
    EXPECT_DOUBLE_EQ(closeness({2, 0}, {4, 0}).relative_error, 0.5);
}

}  // namespace
}  // namespace weft
