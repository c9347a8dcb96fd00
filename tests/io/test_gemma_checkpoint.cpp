// Random Gemma checkpoints: names, shapes, statistics, and the same bits however they are written.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/json_text.h"
#include "files.h"
#include "io/gemma_checkpoint.h"

namespace weft {
namespace {

using test::Folder;
using test::message_of;
using testing::HasSubstr;

GemmaConfig small_config() {
    GemmaConfig config;
    config.layers = 2;
    config.width = 64;
    config.query_heads = 4;
    config.kv_heads = 2;
    config.head_dim = 16;
    config.ffn = 96;
    config.vocab = 70'000;  // more than one chunk of a thread
    config.norm_eps = 1e-5f;
    return config;
}

RandomCheckpointOptions options_of(DType dtype, std::uint64_t seed, std::uint64_t shard_bytes, int threads) {
    RandomCheckpointOptions options;
    options.dtype = dtype;
    options.seed = seed;
    options.shard_bytes = shard_bytes;
    options.threads = threads;
    return options;
}

struct Statistics {
    double mean = 0, deviation = 0, largest = 0;
};

Statistics statistics(const Tensor& tensor) {
    double sum = 0, squares = 0, largest = 0;
    const auto count = static_cast<double>(tensor.numel());
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
        const double value = load_element(tensor.dtype, tensor.data, i);
        sum += value;
        squares += value * value;
        largest = std::max(largest, std::abs(value));
    }
    return {sum / count, std::sqrt(squares / count - sum * sum / count / count), largest};
}

TEST(GemmaCheckpoint, HasTransformersNamesAndShapes) {
    const Folder folder;
    const GemmaConfig config = small_config();
    write_random_checkpoint(folder / "m.safetensors", config, options_of(DType::bf16, 7, 0, 2));
    const Checkpoint checkpoint(folder / "m.safetensors");
    EXPECT_EQ(checkpoint.names().size(), 1u + 2 * 9 + 1 + 2);
    checkpoint.require("model.embed_tokens.weight", DType::bf16, {70'000, 64});
    checkpoint.require("model.norm.weight", DType::bf16, {64});
    checkpoint.require("patch_embed.weight", DType::bf16, {64, 588});
    checkpoint.require("patch_embed.bias", DType::bf16, {64});
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
        checkpoint.require(layer + "input_layernorm.weight", DType::bf16, {64});
        checkpoint.require(layer + "post_attention_layernorm.weight", DType::bf16, {64});
        checkpoint.require(layer + "self_attn.q_proj.weight", DType::bf16, {64, 64});
        checkpoint.require(layer + "self_attn.k_proj.weight", DType::bf16, {32, 64});
        checkpoint.require(layer + "self_attn.v_proj.weight", DType::bf16, {32, 64});
        checkpoint.require(layer + "self_attn.o_proj.weight", DType::bf16, {64, 64});
        checkpoint.require(layer + "mlp.gate_proj.weight", DType::bf16, {96, 64});
        checkpoint.require(layer + "mlp.up_proj.weight", DType::bf16, {96, 64});
        checkpoint.require(layer + "mlp.down_proj.weight", DType::bf16, {64, 96});
    }
    EXPECT_EQ(gemma_config(checkpoint), config);
}

TEST(GemmaCheckpoint, IsTheSameHoweverItIsWritten) {
    const Folder folder;
    const GemmaConfig config = small_config();
    std::uint64_t last = 0, total = 0;
    RandomCheckpointOptions alone = options_of(DType::fp16, 3, 0, 1);
    alone.progress = [&](std::uint64_t done, std::uint64_t all) {
        EXPECT_GT(done, last);
        last = done;
        total = all;
    };
    write_random_checkpoint(folder / "one", config, alone);
    EXPECT_EQ(last, total);
    write_random_checkpoint(folder / "shards", config, options_of(DType::fp16, 3, 20'000, 3));
    write_random_checkpoint(folder / "other.safetensors", config, options_of(DType::fp16, 4, 0, 2));
    EXPECT_TRUE(std::filesystem::exists(folder / "shards" / "model.safetensors.index.json"));
    EXPECT_TRUE(std::filesystem::exists(folder / "one" / "model.safetensors"));

    const Checkpoint one(folder / "one"), shards(folder / "shards"), other(folder / "other.safetensors");
    EXPECT_EQ(one.names(), shards.names());
    EXPECT_EQ(gemma_config(shards), config);
    for (const std::string& name : one.names()) {
        const auto& shape = one.find(name)->shape;
        const Tensor a = one.require(name, DType::fp16, shape), b = shards.require(name, DType::fp16, shape),
                     c = other.require(name, DType::fp16, shape);
        const auto size = static_cast<std::size_t>(bytes(a.dtype, a.numel()));
        EXPECT_EQ(std::memcmp(a.data, b.data, size), 0) << name;
        EXPECT_NE(std::memcmp(a.data, c.data, size), 0) << name;
    }
}

// A seed means the same numbers in every version: people compare what they measured with them.
TEST(GemmaCheckpoint, OfASeedStaysTheSame) {
    const std::uint64_t key = random_key(5, "model.norm.weight");
    EXPECT_EQ(key, 4356532459733611814u);
    EXPECT_EQ(random_key(5, ""), 16457715981025923908u);
    const std::vector<float> elements = {random_element(key, 0, 0.125), random_element(key, 1, 0.125),
                                         random_element(key, 1'000'000'007, 2.0)};
    EXPECT_THAT(elements, testing::ElementsAre(0x1.a33954p-4f, -0x1.687f22p-3f, 0x1.c86dep+1f));
}

// Each shard takes what fits, and no weight more.
TEST(GemmaCheckpoint, FillsEachShardToItsLimit) {
    const Folder folder;
    GemmaConfig config = small_config();
    config.vocab = 16;
    constexpr std::uint64_t kLimit = 20'608;  // two projections and a norm, to the last byte
    write_random_checkpoint(folder.path(), config, options_of(DType::bf16, 1, kLimit, 2));
    const auto index = parse_json(test::read_all(folder / "model.safetensors.index.json"));
    const Checkpoint checkpoint(folder.path());
    std::map<std::string, std::vector<std::uint64_t>> shards;
    std::uint64_t total = 0;
    for (const auto& [name, file] : index["weight_map"].items()) {
        const Tensor view = checkpoint.require(name, DType::bf16, checkpoint.find(name)->shape);
        shards[file].push_back(static_cast<std::uint64_t>(bytes(view.dtype, view.numel())));
        total += shards[file].back();
    }
    EXPECT_EQ(index["metadata"]["total_size"], total);
    std::vector<std::uint64_t> sizes;
    for (const auto& [file, of] : shards)
        sizes.push_back(std::accumulate(of.begin(), of.end(), std::uint64_t{0}));
    EXPECT_THAT(sizes,
                testing::ElementsAre(18560, 20608, 12288, 20608, 16512, 12288, 12288, 12416, 75264, 128));
    EXPECT_EQ(shards.begin()->first, "model-00001-of-00010.safetensors");

    const auto whole = options_of(DType::bf16, 1, total, 2), less = options_of(DType::bf16, 1, total - 1, 2);
    EXPECT_NO_THROW(write_random_checkpoint(folder / "m.safetensors", config, whole));
    EXPECT_THAT(message_of([&] { write_random_checkpoint(folder / "m.safetensors", config, less); }),
                HasSubstr("name a folder to write shards"));
    write_random_checkpoint(folder / "whole", config, whole);
    EXPECT_TRUE(std::filesystem::exists(folder / "whole" / "model.safetensors"));
}

TEST(GemmaCheckpoint, ReplacesTheOtherLayoutInAFolder) {
    const Folder folder;
    GemmaConfig config = small_config();
    config.vocab = 8;
    write_random_checkpoint(folder.path(), config, options_of(DType::bf16, 1, 20'000, 1));
    config.vocab = 16;
    write_random_checkpoint(folder.path(), config, options_of(DType::bf16, 1, 0, 1));
    EXPECT_EQ(gemma_config(Checkpoint(folder.path())).vocab, 16);
    config.vocab = 24;
    write_random_checkpoint(folder.path(), config, options_of(DType::bf16, 1, 20'000, 1));
    EXPECT_EQ(gemma_config(Checkpoint(folder.path())).vocab, 24);
    const auto json = parse_json(test::read_all(folder / "config.json"));
    EXPECT_EQ(json["vocab_size"], 24);
    EXPECT_EQ(json["rms_norm_eps"], 1e-5);
}

TEST(GemmaCheckpoint, RoundsEveryElementToNearestEven) {
    const Folder folder;
    GemmaConfig config = small_config();
    config.vocab = 3000;
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
        write_random_checkpoint(folder / "m.safetensors", config, options_of(dtype, 5, 0, 2));
        const Checkpoint checkpoint(folder / "m.safetensors");
        const Tensor view = checkpoint.require("model.embed_tokens.weight", dtype, {3000, 64});
        const std::uint64_t key = random_key(5, "model.embed_tokens.weight");
        for (std::int64_t i = 0; i < view.numel(); ++i) {
            const float exact = random_element(key, static_cast<std::uint64_t>(i), 0.125);
            ASSERT_EQ(load_element(dtype, view.data, i), round_to(dtype, exact)) << i;
        }
    }
}

TEST(GemmaCheckpoint, IsDampedAndCentred) {
    const Folder folder;
    GemmaConfig config = small_config();
    write_random_checkpoint(folder / "m.safetensors", config, options_of(DType::fp32, 11, 0, 2));
    const Checkpoint checkpoint(folder / "m.safetensors");
    auto expect = [&](const char* name, double deviation) {
        const Tensor view = checkpoint.require(name, DType::fp32, checkpoint.find(name)->shape);
        const auto [mean, got, largest] = statistics(view);
        const double error =
            1.0 / std::sqrt(static_cast<double>(view.numel()));  // of the mean, in deviations
        EXPECT_NEAR(mean, 0, 5 * error * deviation) << name;
        EXPECT_NEAR(got, deviation, 5 * error * deviation) << name;
        EXPECT_LT(largest, 3.5 * deviation) << name;
    };
    expect("model.embed_tokens.weight", 1.0 / 8);
    expect("model.layers.1.self_attn.q_proj.weight", 1.0 / 8);
    expect("model.layers.1.self_attn.o_proj.weight", 1.0 / 8 / 2);
    expect("model.layers.0.mlp.down_proj.weight", 1.0 / std::sqrt(96) / 2);
    expect("model.layers.0.input_layernorm.weight", 0.1);
    expect("patch_embed.weight", 1.0 / std::sqrt(588));
    expect("patch_embed.bias", 0.02);
}

TEST(GemmaCheckpoint, RejectsWhatItCannotWrite) {
    const Folder folder;
    auto refuse = [&](const GemmaConfig& config, DType dtype) {
        return message_of(
            [&] { write_random_checkpoint(folder / "m.safetensors", config, options_of(dtype, 0, 0, 1)); },
            ErrorCode::invalid_argument);
    };
    GemmaConfig config = small_config();
    config.layers = 0;
    EXPECT_THAT(refuse(config, DType::bf16),
                HasSubstr("make-checkpoint.layers: expected 1 to 16777216, got 0"));
    config = small_config();
    config.kv_heads = 3;
    EXPECT_THAT(refuse(config, DType::bf16),
                HasSubstr("kv_heads: expected a divisor of the 4 query heads, got 3"));
    EXPECT_THAT(refuse(small_config(), DType::fp8_e4m3),
                HasSubstr("dtype: expected fp32, bf16 or fp16, got fp8_e4m3"));
    EXPECT_THAT(message_of([&] {
                    write_random_checkpoint(folder / "m.safetensors", small_config(),
                                            options_of(DType::bf16, 0, 1000, 1));
                }),
                HasSubstr("exceed the 1000 of one file; name a folder to write shards"));
    folder.write("file", "");
    EXPECT_THAT(message_of([&] { write_random_checkpoint(folder / "file", small_config()); }),
                HasSubstr("cannot create the folder"));
    EXPECT_THAT(message_of([&] { write_random_checkpoint(folder / "no" / "m.safetensors", small_config()); }),
                HasSubstr("cannot create: No such file"));
}

TEST(GemmaConfig, NamesWhatACheckpointLacks) {
    const Folder folder;
    float data[6] = {};
    auto config_of = [&](std::vector<NamedTensor> tensors,
                         const std::map<std::string, std::string>& metadata) {
        write_safetensors(folder / "m.safetensors", tensors, metadata);
        return message_of([&] { gemma_config(Checkpoint(folder / "m.safetensors")); });
    };
    const NamedTensor embedding{"model.embed_tokens.weight", Tensor(data, DType::fp32, {3, 2})};
    const NamedTensor query{"model.layers.0.self_attn.q_proj.weight", Tensor(data, DType::fp32, {3, 2})};
    EXPECT_THAT(config_of({}, {}), HasSubstr("tensor 'model.embed_tokens.weight': missing"));
    EXPECT_THAT(config_of({embedding}, {}),
                HasSubstr("tensor 'model.layers.0.self_attn.q_proj.weight': missing"));
    EXPECT_THAT(config_of({embedding, query}, {}),
                HasSubstr("q_proj.weight': expected rows in heads of 256, got 3"));
    EXPECT_THAT(config_of({embedding, query}, {{"weft.head_dim", "0"}}),
                HasSubstr("metadata 'weft.head_dim': expected a positive number, got '0'"));
    const std::map<std::string, std::string> heads_of_three = {{"weft.head_dim", "3"}};
    const NamedTensor key{"model.layers.0.self_attn.k_proj.weight", Tensor(data, DType::fp32, {3, 2})};
    const NamedTensor gate{"model.layers.0.mlp.gate_proj.weight", Tensor(data, DType::fp32, {1, 2})};
    const NamedTensor patches{"patch_embed.weight", Tensor(data, DType::fp32, {2, 3})};
    const NamedTensor odd{"patch_embed.weight", Tensor(data, DType::fp32, {2, 2})};
    write_safetensors(folder / "m.safetensors", std::vector{embedding, query, key, gate, patches},
                      heads_of_three);
    EXPECT_EQ(gemma_config(Checkpoint(folder / "m.safetensors")).patch, 1);
    EXPECT_THAT(config_of({embedding, query, key, gate, odd}, heads_of_three),
                HasSubstr("tensor 'patch_embed.weight': 2 columns are no square patch of 3 channels"));
    EXPECT_THAT(config_of({embedding, query}, {{"weft.rope_base", "10x"}}), HasSubstr("got '10x'"));
    EXPECT_THAT(config_of({embedding, query}, {{"weft.norm_eps", "nan"}}), HasSubstr("got 'nan'"));
}

}  // namespace
}  // namespace weft
