// The pipeline's own part: what it refuses, what it says of its calls, and its layers in fp8. tests/parity
// holds the layers against transformers.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <span>

#include "io/safetensors.h"
#include "tests/cli/model_file.h"
#include "weft/device_info.h"
#include "weft/error.h"

namespace weft {
namespace {

using test::change;
using test::checkpoint;
using test::copy_with;
using test::expect_same;
using test::kLayers;
using test::kVocab;
using test::kWidth;
using test::place_of;
using test::run;
using test::weft;
using ::testing::HasSubstr;

SessionOptions small() { return test::small(WEFT_SOURCE_DIR "/assets/coffee.ppm"); }

std::string refused(const SessionOptions& options) {
    try {
        run(options);
    } catch (const Error& e) {
        return e.what();
    }
    return "accepted";
}

TEST(Pipeline, RefusesWhatItsModelLacks) {
    SessionOptions options = small();
    for (const std::int64_t id : {std::int64_t{-1}, kVocab, kVocab + 1}) {
        options.prompt = {2, id};
        EXPECT_THAT(refused(options), HasSubstr("token id " + std::to_string(id) + " is outside [0, 16)"));
    }
    options = small();
    options.crop = 29;
    EXPECT_THAT(refused(options), HasSubstr("29 x 29 pixels don't divide into patches of 14"));
    options.crop = 14000;
    EXPECT_THAT(refused(options), HasSubstr("pi05-encoder.crop: 14000 pixels from an image of"));
}

// The sums over a label's calls: each layer's, and what the calls of one layer move and compute times the layers.
TEST(Pipeline, CountsTheCallsOfEachLabel) {
    SessionOptions options = small();
    const SessionResult all = run(options);
    options.layers = 1;
    const SessionResult first = run(options);
    ASSERT_EQ(all.config.layers, kLayers);
    ASSERT_EQ(first.config.layers, 1);
    ASSERT_EQ(all.labels.size(), first.labels.size());
    for (std::size_t i = 0; i < all.labels.size(); ++i) {
        const LabelTime &many = all.labels[i], &once = first.labels[i];
        const int times = once.label == "embed" || once.label == "final norm" ? 1 : kLayers;
        EXPECT_EQ(many.calls, times * once.calls) << once.label;
        EXPECT_GT(once.bytes, 0) << once.label;
        EXPECT_EQ(many.bytes, times * once.bytes) << once.label;
        EXPECT_EQ(many.flops, times * once.flops) << once.label;
        if (once.op == "gemm" || once.op == "attention") {
            EXPECT_GT(once.flops, 0) << once.label;
        }
    }
    options.layers = 100;
    EXPECT_EQ(run(options).config.layers, kLayers);
}

// A plan is of the calls that a session makes; its floors are sums over them, as the work is.
TEST(Pipeline, PlansTheCallsThatItMakes) {
    if (devices_here().size() == 1) GTEST_SKIP() << "no emulator";
    SessionOptions options = small();
    options.views = 2;
    options.dtype = DType::bf16;  // which the card's kernels take
    const SessionResult done = run(options);
    const DeviceInfo& card = *find_device("h100");
    const std::vector<LabelTime> plan = plan_session(options, card);
    options.layers = 1;
    const std::vector<LabelTime> once = plan_session(options, card);
    std::map<std::string, LabelTime> made;
    for (const LabelTime& label : done.labels) made[label.label + label.op] = label;
    for (std::size_t i = 0; i < plan.size(); ++i) {
        const LabelTime& label = plan[i];
        const int times = label.label == "embed" || label.label == "final norm" ? 1 : kLayers;
        EXPECT_GT(label.floor_us, 0) << label.label;
        EXPECT_DOUBLE_EQ(label.floor_us, times * once[i].floor_us) << label.label;
        if (const auto same = made.find(label.label + label.op); same != made.end()) {
            EXPECT_EQ(label.calls, same->second.calls) << label.label;
            EXPECT_EQ(label.bytes, same->second.bytes) << label.label;
        }
    }
}

TEST(Pipeline, WritesWhatItRanWith) {
    SessionOptions options = small();
    options.dtype = DType::bf16;
    options.out = testing::TempDir() + "/weft_pipeline_out.safetensors";
    const SessionResult done = run(options);
    const SafetensorsFile file(options.out);
    EXPECT_EQ(file.metadata().at("dtype"), "bf16");
    EXPECT_EQ(file.metadata().at("pipeline"), "pi05-encoder");
    for (const auto& [name, values] :
         {std::pair{"embeddings", &done.embeddings}, std::pair{"output", &done.output}}) {
        const auto* found = file.find(name);
        ASSERT_NE(found, nullptr);
        EXPECT_EQ(found->shape, (std::vector<std::int64_t>{done.tokens, kWidth}));
    }
}

TEST(Pipeline, SortsItsSamples) {
    SessionOptions options = small();
    options.repeats = 30;
    const SessionResult timed = run(options);
    ASSERT_EQ(timed.samples_us.size(), 30U);
    EXPECT_TRUE(std::is_sorted(timed.samples_us.begin(), timed.samples_us.end()));
    EXPECT_GT(timed.samples_us.front(), 0);
    for (const LabelTime& label : timed.labels) EXPECT_GT(label.us, 0) << label.label;
}

// The demo's checkpoints are taken as they are where they are there: small ones, and then ones of NaN.
TEST(Demo, EndsAsItsChecksDo) {
    if (cuda_device_count() > 0) GTEST_SKIP() << "it runs at full size";
    namespace fs = std::filesystem;
    const fs::path root = fs::path(testing::TempDir()) / "weft_demo", models = root / ".weft" / "demo";
    fs::remove_all(root);
    fs::create_directories(models);
    fs::create_directory_symlink(fs::path(WEFT_SOURCE_DIR) / "assets", root / "assets");
    for (const char* name : {"gemma-2b-2-layers", "gemma-small"}) {
        ASSERT_EQ(weft({"make-checkpoint", (models / name).string() + ".safetensors", "--layers", "1",
                        "--width", "64", "--ffn", "128", "--vocab", "2048", "--head-dim", "16",
                        "--query-heads", "4", "--kv-heads", "1"})
                      .code,
                  0);
    }
    setenv("WEFT_ROOT", root.c_str(), 1);
    const test::Result right = weft({"demo"});
    EXPECT_EQ(right.code, 0) << right.out << right.error;
    EXPECT_THAT(right.out, HasSubstr("All checks passed."));
    const fs::path spoilt = models / "gemma-2b-2-layers.safetensors";
    std::fstream file(spoilt, std::ios::in | std::ios::out | std::ios::binary);
    std::uint64_t header = 0;
    file.read(reinterpret_cast<char*>(&header), sizeof(header));
    const std::size_t size = fs::file_size(spoilt) - sizeof(header) - header;
    file.seekp(static_cast<std::streamoff>(sizeof(header) + header));
    file << std::string(size, '\x7f');  // 0x7f7f: of bf16 a large number, whose products are infinite
    file.close();
    const test::Result wrong = weft({"demo"});
    unsetenv("WEFT_ROOT");
    EXPECT_EQ(wrong.code, 1) << wrong.out;
    EXPECT_THAT(wrong.out, HasSubstr("FAILED bf16 against fp32"));
}

// A file may begin its data anywhere: a header that is one byte longer says the same.
TEST(Pipeline, TakesWeightsFromOddAddresses) {
    const SessionResult plain = run(small());
    SessionOptions options = small();
    options.checkpoint = copy_with("odd", [](std::string& file, std::size_t data) {
        file.insert(data, 1, ' ');
        const std::uint64_t header = data - sizeof(header) + 1;
        std::memcpy(file.data(), &header, sizeof(header));
    });
    EXPECT_EQ(run(options).output, plain.output);
}

TEST(Pipeline, InFp8IsCloseAndNotTheSame) {
    SessionOptions options = small();
    options.dtype = DType::bf16;
    const SessionResult full = run(options);
    options.precision = Precision::fp8;
    const SessionResult fp8 = run(options);
    expect_same(fp8.embeddings, full.embeddings);
    const Closeness close = closeness(fp8.output, full.output);
    EXPECT_GT(close.relative_error, 1e-3);
    EXPECT_LT(close.relative_error, 0.08);
    EXPECT_GT(close.cosine, 0.995);
}

// What a norm multiplies by a power of two, the product after it divides: each input of a product has a magnitude far from
// those of the others, and the results stay. A scale that is another input's, or another layer's, would be far off.
TEST(Pipeline, InFp8EveryInputHasItsOwnScale) {
    SessionOptions options = small();
    options.precision = Precision::fp8;
    const SessionResult plain = run(options);
    options.checkpoint = copy_with("scaled", [](std::string& file, std::size_t data) {
        const auto scale = [&](const std::string& layer, const char* name, float by) {
            change(file, place_of(file, data, "model.layers." + layer + name),
                   [by](float value) { return value * by; });
        };
        const auto norm = [&](const std::string& layer, const char* name, float by) {
            change(file, place_of(file, data, "model.layers." + layer + name),
                   [by](float value) { return (1 + value) * by - 1; });
        };
        const float attention[] = {0x1p-10f, 0x1p9f}, outputs[] = {0x1p11f, 0x1p-11f},
                    ffn[] = {0x1p12f, 0x1p-8f}, activated[] = {0x1p-11f, 0x1p11f};
        for (std::size_t i = 0; i < kLayers; ++i) {
            const std::string layer = std::to_string(i);
            norm(layer, ".input_layernorm.weight", attention[i]);
            for (const char* name : {"q", "k"})
                scale(layer, (std::string(".self_attn.") + name + "_proj.weight").c_str(), 1 / attention[i]);
            scale(layer, ".self_attn.v_proj.weight", outputs[i] / attention[i]);
            scale(layer, ".self_attn.o_proj.weight", 1 / outputs[i]);
            norm(layer, ".post_attention_layernorm.weight", ffn[i]);
            scale(layer, ".mlp.gate_proj.weight", 1 / ffn[i]);
            scale(layer, ".mlp.up_proj.weight", activated[i] / ffn[i]);
            scale(layer, ".mlp.down_proj.weight", 1 / activated[i]);
        }
    });
    EXPECT_LT(closeness(run(options).output, plain.output).relative_error, 0.02);
    options.precision = Precision::full;
    const SessionResult whole = run(options);
    options.checkpoint = checkpoint();
    // The file's weights of norms are less by 1 than what they multiply by, and round there.
    EXPECT_LT(closeness(whole.output, run(options).output).relative_error, 1e-4);
}

// What an action expert reads: each layer's own keys and values of every token.
TEST(Pipeline, KeepsTheKeysAndValuesOfEachLayer) {
    const Checkpoint file{checkpoint()};
    const GemmaConfig config = gemma_config(file);
    Context context(kCpu);
    const GemmaWeights weights = GemmaWeights::load(file, config, DType::fp32, kCpu);
    Image image{28, 28, std::vector<std::uint8_t>(28 * 28 * 3, 100)};
    Encoder encoder(config, {.views = 1, .image_height = 28, .image_width = 28, .prompt_tokens = 3}, weights,
                    context);
    const std::int64_t prompt[] = {1, 2, 3, 4};
    encoder.set_input(image, std::span(prompt, 3));
    encoder.steps(Precision::full).run();
    const std::vector<std::int64_t> shape = {7, config.kv_heads, config.head_dim};
    std::set<std::vector<float>> different;
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
        for (const Tensor& kept : {encoder.keys(layer), encoder.values(layer)}) {
            EXPECT_EQ(std::vector<std::int64_t>(kept.shape, kept.shape + kept.rank), shape);
            const float* values = static_cast<const float*>(kept.data);
            different.insert({values, values + kept.numel()});
            EXPECT_TRUE(std::any_of(values + kept.numel() - config.head_dim, values + kept.numel(),
                                    [](float value) { return value != 0; }));
        }
    }
    EXPECT_EQ(different.size(), 2U * kLayers);

    const auto said = [&](Image& given, std::size_t count) {
        try {
            encoder.set_input(given, std::span(prompt, count));
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string("accepted");
    };
    EXPECT_EQ(said(image, 4), "pi05-encoder.prompt: expected 3 token ids, got 4");
    EXPECT_EQ(said(image, 2), "pi05-encoder.prompt: expected 3 token ids, got 2");
    for (const auto& [high, wide] : {std::pair{14, 28}, std::pair{28, 14}}) {
        Image other{high, wide, std::vector<std::uint8_t>(static_cast<std::size_t>(high * wide * 3))};
        EXPECT_EQ(said(other, 3),
                  fmt::format("pi05-encoder.image: expected 28 x 28 pixels, got {} x {}", high, wide));
    }
    const EncoderShape odd[] = {{.image_height = 28, .image_width = 27, .prompt_tokens = 1},
                                {.image_height = 15, .image_width = 28, .prompt_tokens = 1}};
    for (const EncoderShape& shape : odd) EXPECT_THROW(Encoder(config, shape, weights, context), Error);
}

// What is 0 at a site has no largest magnitude to be divided by.
TEST(Pipeline, InFp8OfAModelOfZerosIsZero) {
    SessionOptions options = small();
    options.checkpoint = copy_with("zeros", [](std::string& file, std::size_t data) {
        std::fill(file.begin() + static_cast<std::ptrdiff_t>(data), file.end(), '\0');
    });
    options.precision = Precision::fp8;
    options.dtype = DType::bf16;
    EXPECT_THAT(run(options).output, testing::Each(0.0f));
}

}  // namespace
}  // namespace weft
