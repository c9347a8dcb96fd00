// Random but well-behaved Gemma checkpoints under transformers' tensor names.
#include "io/gemma_checkpoint.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <exception>
#include <fstream>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/json_text.h"
#include "io/io_error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// ---- the numbers ----

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // splitmix64's step

constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

// The sum of four 16-bit uniforms less its mean; kSumDeviation is its standard deviation, exactly
// sqrt((2^32 - 1) / 3). An integer below 2^18, so the float made of it is exact, and one product remains.
constexpr double kSumDeviation = 37837.22723720648;

inline std::int32_t centred_sum(std::uint64_t key, std::uint64_t index) {
    const std::uint64_t z = mix(key + index * kGolden);
    constexpr std::uint64_t kMask = 0xffff;
    const std::uint64_t sum = (z & kMask) + ((z >> 16) & kMask) + ((z >> 32) & kMask) + (z >> 48);
    return static_cast<std::int32_t>(sum) - 2 * 0xffff;
}

inline float scale_of(double deviation) { return static_cast<float>(deviation / kSumDeviation); }

// To nearest even, like weft::encode, which is too slow for billions; no NaN, infinity or overflow gets here.
inline std::uint16_t to_bf16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
}

inline std::uint16_t to_fp16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (word >> 16) & 0x8000, magnitude = word & 0x7fffffff;
    // Below 2^-14 the codes count multiples of 2^-24, which is what a sum with 1/2 rounds to.
    const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
                                std::bit_cast<std::uint32_t>(0.5f);
    const std::uint32_t normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    return static_cast<std::uint16_t>(sign | (magnitude < (113u << 23) ? small : normal));
}

template <class T, class Convert>
void fill(T* out, std::uint64_t key, std::uint64_t first, std::uint64_t count, float scale, Convert convert) {
    for (std::uint64_t i = 0; i < count; ++i) {
        out[i] = convert(static_cast<float>(centred_sum(key, first + i)) * scale);
    }
}

void fill(DType dtype, void* out, std::uint64_t key, std::uint64_t first, std::uint64_t count, float scale) {
    if (dtype == DType::bf16)
        return fill(static_cast<std::uint16_t*>(out), key, first, count, scale, to_bf16);
    if (dtype == DType::fp16)
        return fill(static_cast<std::uint16_t*>(out), key, first, count, scale, to_fp16);
    fill(static_cast<float*>(out), key, first, count, scale, [](float value) { return value; });
}

// ---- the tensors ----

struct Weight {
    std::string name;
    std::vector<std::int64_t> shape;
    double deviation;

    std::uint64_t elements() const {
        std::uint64_t product = 1;
        for (const std::int64_t size : shape) product *= static_cast<std::uint64_t>(size);
        return product;
    }
};

double fan_in(std::int64_t inputs) { return 1.0 / std::sqrt(static_cast<double>(inputs)); }

std::vector<Weight> gemma_weights(const GemmaConfig& c) {
    constexpr double kNorm = 0.1, kBias = 0.02;
    const std::int64_t queries = c.query_heads * c.head_dim, keys = c.kv_heads * c.head_dim;
    const double damp = fan_in(2 * c.layers);  // as many products reach the residual stream
    std::vector<Weight> out{{"model.embed_tokens.weight", {c.vocab, c.width}, fan_in(c.width)}};
    for (std::int64_t layer = 0; layer < c.layers; ++layer) {
        const std::string at = fmt::format("model.layers.{}.", layer);
        out.push_back({at + "input_layernorm.weight", {c.width}, kNorm});
        out.push_back({at + "self_attn.q_proj.weight", {queries, c.width}, fan_in(c.width)});
        out.push_back({at + "self_attn.k_proj.weight", {keys, c.width}, fan_in(c.width)});
        out.push_back({at + "self_attn.v_proj.weight", {keys, c.width}, fan_in(c.width)});
        out.push_back({at + "self_attn.o_proj.weight", {c.width, queries}, fan_in(queries) * damp});
        out.push_back({at + "post_attention_layernorm.weight", {c.width}, kNorm});
        out.push_back({at + "mlp.gate_proj.weight", {c.ffn, c.width}, fan_in(c.width)});
        out.push_back({at + "mlp.up_proj.weight", {c.ffn, c.width}, fan_in(c.width)});
        out.push_back({at + "mlp.down_proj.weight", {c.width, c.ffn}, fan_in(c.ffn) * damp});
    }
    out.push_back({"model.norm.weight", {c.width}, kNorm});
    out.push_back({"patch_embed.weight", {c.width, c.patch_values()}, fan_in(c.patch_values())});
    out.push_back({"patch_embed.bias", {c.width}, kBias});
    return out;
}

void check(const GemmaConfig& c, DType dtype) {
    constexpr std::int64_t kLargest = 1 << 24;  // keeps every product of two within 64 bits
    const std::pair<const char*, std::int64_t> sizes[] = {
        {"layers", c.layers},     {"width", c.width},       {"query_heads", c.query_heads},
        {"kv_heads", c.kv_heads}, {"head_dim", c.head_dim}, {"ffn", c.ffn},
        {"vocab", c.vocab},       {"patch", c.patch},
    };
    for (const auto& [what, size] : sizes) {
        if (size >= 1 && size <= kLargest) continue;
        throw Error(ErrorCode::invalid_argument, "make-checkpoint", what,
                    fmt::format("expected 1 to {}, got {}", kLargest, size));
    }
    if (c.query_heads % c.kv_heads != 0) {
        throw Error(
            ErrorCode::invalid_argument, "make-checkpoint", "kv_heads",
            fmt::format("expected a divisor of the {} query heads, got {}", c.query_heads, c.kv_heads));
    }
    if (!kFloat.contains(dtype)) {
        throw Error(ErrorCode::invalid_argument, "make-checkpoint", "dtype",
                    fmt::format("expected fp32, bf16 or fp16, got {}", name(dtype)));
    }
}

// ---- the files ----

constexpr std::uint64_t kChunk = 1 << 20;  // elements that a thread makes and writes at a time

// Runs work(i) for i < count on several threads; throws the first failure after all have stopped.
template <class Work>
void parallel(int threads, std::uint64_t count, Work work) {
    std::atomic<std::uint64_t> next = 0;
    std::exception_ptr failure;
    std::mutex mutex;
    auto run = [&] {
        try {
            for (std::uint64_t i = next++; i < count; i = next++) work(i);
        } catch (...) {
            next = count;
            const std::lock_guard lock(mutex);
            if (!failure) failure = std::current_exception();
        }
    };
    std::vector<std::jthread> pool;
    for (int t = 1; t < threads; ++t) pool.emplace_back(run);
    run();
    pool.clear();
    if (failure) std::rethrow_exception(failure);
}

class ShardMaker {
   public:
    ShardMaker(const GemmaConfig& config, const RandomCheckpointOptions& options, std::uint64_t total)
        : config_(config), options_(options), total_(total) {
        const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
        threads_ = options.threads > 0 ? options.threads : cores;
    }

    void write(const fs::path& path, std::span<const Weight> weights) {
        struct Chunk {
            const Weight* weight;
            std::uint64_t first;
        };
        std::vector<Chunk> chunks;
        SafetensorsWriter writer(path);
        writer.set_metadata("format", "pt");  // transformers declines a file without it
        writer.set_metadata("weft.head_dim", fmt::format("{}", config_.head_dim));
        writer.set_metadata("weft.rope_base", fmt::format("{}", config_.rope_base));
        writer.set_metadata("weft.norm_eps", fmt::format("{}", config_.norm_eps));
        for (const Weight& weight : weights) {
            writer.declare(weight.name, options_.dtype, weight.shape);
            for (std::uint64_t first = 0; first < weight.elements(); first += kChunk)
                chunks.push_back({&weight, first});
        }
        writer.begin();
        const auto element = static_cast<std::uint64_t>(bits(options_.dtype)) / 8;
        parallel(threads_, chunks.size(), [&](std::uint64_t i) {
            const auto& [weight, first] = chunks[i];
            const std::uint64_t count = std::min(kChunk, weight->elements() - first);
            thread_local std::vector<std::byte> buffer;
            buffer.resize(count * element);
            fill(options_.dtype, buffer.data(), random_key(options_.seed, weight->name), first, count,
                 scale_of(weight->deviation));
            writer.write_bytes(weight->name, first * element, buffer);
            report(buffer.size());
        });
        writer.finish();
    }

   private:
    void report(std::uint64_t bytes) {
        if (!options_.progress) return;
        const std::lock_guard lock(mutex_);
        done_ += bytes;
        options_.progress(done_, total_);
    }

    const GemmaConfig& config_;
    const RandomCheckpointOptions& options_;
    std::uint64_t total_, done_ = 0;
    int threads_ = 1;
    std::mutex mutex_;
};

void write_text(const fs::path& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << text << '\n';
    out.close();
    if (!out) fail_io("{}: cannot write: {}", path.string(), system_error());
}

void write_config(const fs::path& folder, const GemmaConfig& c, DType dtype) {
    const char* const dtype_text = dtype == DType::bf16   ? "bfloat16"
                                   : dtype == DType::fp16 ? "float16"
                                                          : "float32";
    const nlohmann::ordered_json config{
        {"architectures", {"GemmaForCausalLM"}},
        {"model_type", "gemma"},
        {"hidden_size", c.width},
        {"num_hidden_layers", c.layers},
        {"num_attention_heads", c.query_heads},
        {"num_key_value_heads", c.kv_heads},
        {"head_dim", c.head_dim},
        {"intermediate_size", c.ffn},
        {"vocab_size", c.vocab},
        {"hidden_act", "gelu_pytorch_tanh"},
        {"rope_theta", static_cast<double>(c.rope_base)},
        {"rms_norm_eps", std::stod(fmt::format("{}", c.norm_eps))},  // 1e-06, not the float's long expansion
        {"tie_word_embeddings", true},
        {"torch_dtype", dtype_text},
    };
    write_text(folder / "config.json", json_text(config, 2));
}

// Consecutive runs of weights, each within the limit unless one weight alone exceeds it.
std::vector<std::span<const Weight>> split(std::span<const Weight> weights, DType dtype,
                                           std::uint64_t limit) {
    std::vector<std::span<const Weight>> out;
    std::size_t first = 0;
    std::uint64_t filled = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        const std::uint64_t size = weights[i].elements() * static_cast<std::uint64_t>(bits(dtype)) / 8;
        if (limit > 0 && i > first && filled + size > limit) {
            out.push_back(weights.subspan(first, i - first));
            first = i;
            filled = 0;
        }
        filled += size;
    }
    out.push_back(weights.subspan(first));
    return out;
}

void write_shards(const fs::path& folder, std::span<const std::span<const Weight>> shards,
                  std::uint64_t total, ShardMaker& maker) {
    nlohmann::ordered_json index{{"metadata", {{"total_size", total}}},
                                 {"weight_map", nlohmann::json::object()}};
    for (std::size_t i = 0; i < shards.size(); ++i) {
        const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
        maker.write(folder / file, shards[i]);
        for (const Weight& weight : shards[i]) index["weight_map"][weight.name] = file;
    }
    write_text(folder / "model.safetensors.index.json", json_text(index, 2));
}

// ---- the configuration ----

template <class T>
void read_number(const Checkpoint& checkpoint, const char* key, T& value) {
    const auto text = checkpoint.metadata(key);
    if (!text) return;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size() || !(value > 0)) {
        fail_io("{}: metadata {}: expected a positive number, got {}", checkpoint.path(), quote(key),
                quote(*text));
    }
}

}  // namespace

std::uint64_t random_key(std::uint64_t seed, std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return mix(mix(seed + kGolden) ^ hash);
}

float random_element(std::uint64_t key, std::uint64_t index, double deviation) {
    return static_cast<float>(centred_sum(key, index)) * scale_of(deviation);
}

void write_random_checkpoint(const fs::path& path, const GemmaConfig& config,
                             const RandomCheckpointOptions& options) {
    check(config, options.dtype);
    const std::vector<Weight> weights = gemma_weights(config);
    std::uint64_t total = 0;
    for (const Weight& weight : weights)
        total += weight.elements() * static_cast<std::uint64_t>(bits(options.dtype)) / 8;
    ShardMaker maker(config, options, total);
    if (path.extension() == ".safetensors") {
        if (options.shard_bytes > 0 && options.shard_bytes < total) {
            fail_io("{}: {} bytes of weights exceed the {} of one file; name a folder to write shards",
                    path.string(), total, options.shard_bytes);
        }
        return maker.write(path, weights);
    }
    std::error_code failure;
    fs::create_directories(path, failure);
    if (failure) fail_io("{}: cannot create the folder: {}", path.string(), failure.message());
    const auto shards = split(weights, options.dtype, options.shard_bytes);
    // What an earlier run left under the other layout's name would be read in place of this one.
    fs::remove(path / (shards.size() == 1 ? "model.safetensors.index.json" : "model.safetensors"), failure);
    if (shards.size() == 1) {
        maker.write(path / "model.safetensors", weights);
    } else {
        write_shards(path, shards, total, maker);
    }
    write_config(path, config, options.dtype);
}

GemmaConfig gemma_config(const Checkpoint& checkpoint) {
    GemmaConfig config;
    read_number(checkpoint, "weft.head_dim", config.head_dim);
    read_number(checkpoint, "weft.rope_base", config.rope_base);
    read_number(checkpoint, "weft.norm_eps", config.norm_eps);
    const Tensor embedding = checkpoint.require("model.embed_tokens.weight", kFloat, {kAnySize, kAnySize});
    config.vocab = embedding.shape[0];
    config.width = embedding.shape[1];
    for (config.layers = 0;
         checkpoint.contains(fmt::format("model.layers.{}.input_layernorm.weight", config.layers));) {
        ++config.layers;
    }
    auto heads = [&](const char* name) {
        const std::int64_t rows = checkpoint.require(name, kFloat, {kAnySize, config.width}).shape[0];
        if (rows == 0 || rows % config.head_dim != 0) {
            fail_io("{}: tensor {}: expected rows in heads of {}, got {}", checkpoint.path(), quote(name),
                    config.head_dim, rows);
        }
        return rows / config.head_dim;
    };
    config.query_heads = heads("model.layers.0.self_attn.q_proj.weight");
    config.kv_heads = heads("model.layers.0.self_attn.k_proj.weight");
    config.ffn =
        checkpoint.require("model.layers.0.mlp.gate_proj.weight", kFloat, {kAnySize, config.width}).shape[0];
    if (checkpoint.contains("patch_embed.weight")) {
        const std::int64_t values =
            checkpoint.require("patch_embed.weight", kFloat, {config.width, kAnySize}).shape[1];
        config.patch = std::llround(std::sqrt(static_cast<double>(values) / 3.0));
        if (config.patch_values() != values) {
            fail_io("{}: tensor 'patch_embed.weight': {} columns are no square patch of 3 channels",
                    checkpoint.path(), values);
        }
    }
    return config;
}

}  // namespace weft
