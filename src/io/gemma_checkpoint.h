// Random but well-behaved Gemma checkpoints under transformers' tensor names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "io/safetensors.h"

namespace weft {

// The Gemma-2B of PaliGemma, which is Pi0.5's prefix encoder.
struct GemmaConfig {
    std::int64_t layers = 18;
    std::int64_t width = 2048;
    std::int64_t query_heads = 8;
    std::int64_t kv_heads = 1;
    std::int64_t head_dim = 256;
    std::int64_t ffn = 16384;
    std::int64_t vocab = 257152;
    std::int64_t patch = 14;  // pixels a side; a patch has 3 * patch * patch values
    float rope_base = 10000.0f;
    float norm_eps = 1e-6f;

    std::int64_t patch_values() const { return 3 * patch * patch; }
    friend bool operator==(const GemmaConfig&, const GemmaConfig&) = default;
};

// The configuration of a checkpoint: sizes from the tensors' shapes; head_dim, rope_base and norm_eps, which
// shapes do not show, from the metadata that write_random_checkpoint leaves, else the defaults above.
GemmaConfig gemma_config(const Checkpoint& checkpoint);

struct RandomCheckpointOptions {
    DType dtype = DType::bf16;  // bf16, fp16 or fp32
    std::uint64_t seed = 0;
    std::uint64_t shard_bytes = 0;  // most bytes of tensors in a file; 0: all in one
    int threads = 0;                // 0: one a core
    std::function<void(std::uint64_t done, std::uint64_t total)> progress =
        nullptr;  // bytes; one caller at a time
};

// `path` ending in .safetensors is written as that one file; any other is a folder, which gets
// model.safetensors or shards with their index, and a config.json that transformers reads.
//
// Names are transformers' (model.embed_tokens.weight, model.layers.N.self_attn.q_proj.weight, ...), and two
// that stand in for the vision tower: patch_embed.weight [width, 3 * patch * patch], whose columns are in the
// order in which the op patch_im2col lays out a patch, and patch_embed.bias [width].
//
// Every element is a function of the seed, the tensor's name and the element's index alone: see
// random_element(). Matrices have a standard deviation of 1 / sqrt(inputs), those that write to the residual
// stream (o_proj, down_proj) are damped by 1 / sqrt(2 * layers) on top, norm weights have 0.1 around 0
// (Gemma adds 1), the patch bias has 0.02.
void write_random_checkpoint(const std::filesystem::path& path, const GemmaConfig& config,
                             const RandomCheckpointOptions& options = {});

// The key of a tensor's numbers, and number `index` of it: near normal (the sum of four 16-bit uniforms),
// of standard deviation `deviation`, never beyond 3.5 of them. The same bits on every machine.
std::uint64_t random_key(std::uint64_t seed, std::string_view name);
float random_element(std::uint64_t key, std::uint64_t index, double deviation);

}  // namespace weft
