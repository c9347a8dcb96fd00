// Random checkpoints: the sizes they may have, how far they are, what each piece holds, and what their shapes say.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/json_text.h"
#include "files.h"
#include "io/gemma_checkpoint.h"

namespace weft {
namespace {

using test::Folder;
using test::message_of;
using testing::HasSubstr;
using Map = std::map<std::string, std::string>;

GemmaConfig tiny() {
    GemmaConfig config;
    config.layers = 1, config.width = 4, config.query_heads = 2, config.kv_heads = 1, config.head_dim = 2;
    config.ffn = 4, config.vocab = 3, config.patch = 2;
    return config;
}

TEST(RandomCheckpoints, HaveSizesFromOneToSixteenMillion) {
    const Folder folder;
    const std::pair<const char*, std::int64_t GemmaConfig::*> sizes[] = {
        {"layers", &GemmaConfig::layers},
        {"width", &GemmaConfig::width},
        {"query_heads", &GemmaConfig::query_heads},
        {"kv_heads", &GemmaConfig::kv_heads},
        {"head_dim", &GemmaConfig::head_dim},
        {"ffn", &GemmaConfig::ffn},
        {"vocab", &GemmaConfig::vocab},
        {"patch", &GemmaConfig::patch}};
    for (const auto& [name, member] : sizes) {
        for (const std::int64_t size : {std::int64_t{0}, std::int64_t{-1}, (std::int64_t{1} << 24) + 1}) {
            GemmaConfig config = tiny();
            config.*member = size;
            EXPECT_EQ(message_of([&] { write_random_checkpoint(folder / "m.safetensors", config); },
                                 ErrorCode::invalid_argument),
                      "make-checkpoint." + std::string(name) + ": expected 1 to 16777216, got " +
                          std::to_string(size));
        }
        GemmaConfig config = tiny();
        config.*member = 1;
        if (std::string(name) == "query_heads") config.kv_heads = 1;
        EXPECT_NO_THROW(write_random_checkpoint(folder / "m.safetensors", config)) << name;
        EXPECT_EQ(gemma_config(Checkpoint(folder / "m.safetensors")), config) << name;
    }
    GemmaConfig config = tiny();
    config.head_dim = 1 << 24;
    config.kv_heads = 3;
    EXPECT_THAT(message_of([&] { write_random_checkpoint(folder / "m.safetensors", config); },
                           ErrorCode::invalid_argument),
                HasSubstr("kv_heads"))
        << "the largest size is none too large";
}

TEST(RandomCheckpoints, SayHowFarTheyAre) {
    const Folder folder;
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        RandomCheckpointOptions options;
        options.dtype = dtype;
        options.threads = 1;
        std::vector<std::uint64_t> done, totals;
        options.progress = [&](std::uint64_t now, std::uint64_t total) {
            done.push_back(now);
            totals.push_back(total);
        };
        write_random_checkpoint(folder.path(), tiny(), options);
        const Checkpoint checkpoint(folder.path());
        std::uint64_t bytes = 0;
        for (const std::string& name : checkpoint.names())
            bytes += checkpoint.find(name)->end - checkpoint.find(name)->begin;
        EXPECT_EQ(done.size(), checkpoint.names().size());
        EXPECT_TRUE(std::ranges::is_sorted(done));
        EXPECT_EQ(done.back(), bytes);
        EXPECT_THAT(totals, testing::Each(bytes));
        const auto json = parse_json(test::read_all(folder / "config.json"));
        EXPECT_EQ(json["torch_dtype"], dtype == DType::fp32 ? "float32" : "bfloat16");
        EXPECT_EQ(json["hidden_size"], 4);
        EXPECT_EQ(json["num_attention_heads"], 2);
        EXPECT_EQ(json["num_key_value_heads"], 1);
        EXPECT_EQ(json["num_hidden_layers"], 1);
        EXPECT_EQ(json["intermediate_size"], 4);
        EXPECT_EQ(json["rope_theta"], 10000);
        EXPECT_EQ(json["tie_word_embeddings"], true);
        EXPECT_EQ(checkpoint.metadata("format"), "pt") << "transformers declines a file without it";
    }
    RandomCheckpointOptions half;
    half.dtype = DType::fp16;
    write_random_checkpoint(folder.path(), tiny(), half);
    EXPECT_EQ(parse_json(test::read_all(folder / "config.json"))["torch_dtype"], "float16");
}

// Tensors are made a million elements at a time: those of the second million follow from their own indices.
TEST(RandomCheckpoints, GoOnWhereAPieceEnds) {
    const Folder folder;
    GemmaConfig config = tiny();
    config.vocab = (1 << 18) + 3;  // four a row: a piece and twelve elements
    RandomCheckpointOptions options;
    options.dtype = DType::fp32;
    options.threads = 2;
    write_random_checkpoint(folder / "m.safetensors", config, options);
    const Checkpoint checkpoint(folder / "m.safetensors");
    const Tensor view = checkpoint.require("model.embed_tokens.weight", DType::fp32, {config.vocab, 4});
    const std::uint64_t key = random_key(0, "model.embed_tokens.weight");
    for (std::int64_t i = (1 << 20) - 20; i < view.numel(); ++i)
        ASSERT_EQ(view.as<float>()[i], random_element(key, static_cast<std::uint64_t>(i), 0.5)) << i;
}

std::set<std::thread::id> threads_of(int threads) {
    const Folder folder;
    RandomCheckpointOptions options;
    options.threads = threads;
    std::set<std::thread::id> ids;
    options.progress = [&](std::uint64_t, std::uint64_t) {
        ids.insert(std::this_thread::get_id());
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    };
    GemmaConfig config = tiny();
    config.layers = 4;
    write_random_checkpoint(folder.path(), config, options);
    return ids;
}

TEST(RandomCheckpoints, AreMadeByAsManyThreadsAsAreAskedFor) {
    EXPECT_EQ(threads_of(1).size(), 1u);
    EXPECT_EQ(threads_of(3).size(), 3u);
}

TEST(RandomCheckpoints, HaveNoShardWithoutATensor) {
    const Folder folder;
    RandomCheckpointOptions options;
    options.shard_bytes = 1;  // less than any tensor
    EXPECT_THAT(message_of([&] { write_random_checkpoint(folder / "m.safetensors", tiny(), options); }),
                HasSubstr("exceed the 1 of one file"));
    write_random_checkpoint(folder.path(), tiny(), options);
    const Checkpoint checkpoint(folder.path());
    const auto index = parse_json(test::read_all(folder / "model.safetensors.index.json"));
    std::set<std::string> files;
    for (const auto& [name, file] : index["weight_map"].items()) files.insert(file);
    EXPECT_EQ(files.size(), checkpoint.names().size());
    EXPECT_EQ(*files.begin(), "model-00001-of-00013.safetensors");
}

// Of twelve inputs the numbers are multiples of one that has few bits: some lie halfway between two of bf16.
TEST(RandomCheckpoints, RoundTiesToEven) {
    const Folder folder;
    GemmaConfig config = tiny();
    config.width = 12, config.vocab = 4096;
    write_random_checkpoint(folder / "m.safetensors", config);
    const Checkpoint checkpoint(folder / "m.safetensors");
    const Tensor view = checkpoint.require("model.embed_tokens.weight", DType::bf16, {config.vocab, 12});
    const std::uint64_t key = random_key(0, "model.embed_tokens.weight");
    int even = 0, odd = 0;
    for (std::int64_t i = 0; i < view.numel(); ++i) {
        const float exact = random_element(key, static_cast<std::uint64_t>(i), 1 / std::sqrt(12.0));
        const auto word = std::bit_cast<std::uint32_t>(exact);
        if ((word & 0xffff) != 0x8000) continue;
        ++((word >> 16 & 1) == 0 ? even : odd);
        ASSERT_EQ(load_element(DType::bf16, view.data, i), round_to(DType::bf16, exact)) << i;
    }
    EXPECT_GT(even, 0);
    EXPECT_GT(odd, 0);
}

TEST(RandomCheckpoints, AreReadBackByTheirShapes) {
    const Folder folder;
    float data[64] = {};
    const auto tensor = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
        return NamedTensor{name, Tensor(data, DType::fp32, {rows, columns})};
    };
    const auto weight = [&](const std::string& name) {
        return NamedTensor{name, Tensor(data, DType::fp32, {2})};
    };
    std::vector<NamedTensor> tensors = {tensor("model.embed_tokens.weight", 5, 2),
                                        weight("model.layers.0.input_layernorm.weight"),
                                        weight("model.layers.1.input_layernorm.weight"),
                                        weight("model.layers.3.input_layernorm.weight"),
                                        tensor("model.layers.0.self_attn.q_proj.weight", 8, 2),
                                        tensor("model.layers.0.self_attn.k_proj.weight", 4, 2),
                                        tensor("model.layers.0.mlp.gate_proj.weight", 7, 2)};
    const auto read = [&](const Map& metadata) {
        write_safetensors(folder / "m.safetensors", tensors, metadata);
        return gemma_config(Checkpoint(folder / "m.safetensors"));
    };
    GemmaConfig expected;
    expected.layers = 2, expected.vocab = 5, expected.width = 2, expected.ffn = 7;
    expected.head_dim = 2, expected.query_heads = 4, expected.kv_heads = 2;
    EXPECT_EQ(read({{"weft.head_dim", "2"}}), expected)
        << "without patches, a rope base or an epsilon: the defaults";
    expected.rope_base = 500.5f, expected.norm_eps = 0.25f;
    EXPECT_EQ(read({{"weft.head_dim", "2"}, {"weft.rope_base", "500.5"}, {"weft.norm_eps", "0.25"}}),
              expected);
    for (const char* bad : {"", "x", "2x", "-2", "0", "1e99999"})
        EXPECT_THAT(
            message_of([&] { read({{"weft.head_dim", "2"}, {"weft.rope_base", bad}}); }),
            HasSubstr("metadata 'weft.rope_base': expected a positive number, got '" + std::string(bad)));
    tensors.push_back(tensor("patch_embed.weight", 2, 12));
    EXPECT_EQ(read({{"weft.head_dim", "2"}}).patch, 2);
    tensors.back() = tensor("patch_embed.weight", 2, 27);
    EXPECT_EQ(read({{"weft.head_dim", "2"}}).patch, 3);
    tensors[4] = tensor("model.layers.0.self_attn.q_proj.weight", 0, 2);
    EXPECT_THAT(message_of([&] { read({{"weft.head_dim", "2"}}); }),
                HasSubstr("expected rows in heads of 2, got 0"));
}

}  // namespace
}  // namespace weft
