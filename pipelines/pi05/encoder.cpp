// The encoder's forward pass, op by op.
#include "pipelines/pi05/encoder.h"

#include <fmt/format.h>

#include <cmath>

#include "ops/amax/amax.h"
#include "ops/attention/attention.h"
#include "ops/embedding/embedding.h"
#include "ops/gated_activation/gated_activation.h"
#include "ops/gemm/gemm.h"
#include "ops/patch_im2col/patch_im2col.h"
#include "ops/qkv_split_rope/qkv_split_rope.h"
#include "ops/quantize/quantize.h"
#include "ops/rms_norm/rms_norm.h"

namespace weft {
namespace {

enum Site : std::int64_t { attention_norm, attention_output, ffn_norm, ffn_activation };

[[noreturn]] void reject(const char* field, std::string message) {
    throw Error(ErrorCode::invalid_argument, "pi05-encoder", field, std::move(message));
}

}  // namespace

Encoder::Encoder(const GemmaConfig& config, const EncoderShape& shape, const GemmaWeights& weights,
                 Context& context)
    : config_(config),
      shape_(shape),
      weights_(weights),
      context_(context),
      dtype_(weights.final_norm.view.dtype) {
    const std::int64_t patch = config.patch;
    if (shape.image_height % patch != 0 || shape.image_width % patch != 0) {
        reject("image", fmt::format("{} x {} pixels don't divide into patches of {}", shape.image_height,
                                    shape.image_width, patch));
    }
    patches_ = shape.views * (shape.image_height / patch) * (shape.image_width / patch);
    tokens_ = patches_ + shape.prompt_tokens;
    const Device device = context.device();
    const std::int64_t q = config.query_heads, kv = config.kv_heads, d = config.head_dim;
    auto activation = [&](std::initializer_list<std::int64_t> dims) {
        return allocate(dtype_, dims, device);
    };
    auto codes = [&](std::int64_t columns) { return allocate(DType::fp8_e4m3, {tokens_, columns}, device); };
    image_ = allocate(DType::uint8, {shape.views, shape.image_height, shape.image_width, 3}, device);
    ids_ = allocate(DType::int64, {shape.prompt_tokens}, device);
    patch_rows_ = activation({patches_, config.patch_values()});
    stream_ = activation({tokens_, config.width});
    normed_ = activation({tokens_, config.width});
    qkv_ = activation({tokens_, (q + 2 * kv) * d});
    queries_ = activation({tokens_, q, d});
    attended_ = activation({tokens_, q * d});
    gate_up_ = activation({tokens_, 2 * config.ffn});
    activated_ = activation({tokens_, config.ffn});
    output_ = activation({tokens_, config.width});
    normed8_ = codes(config.width);
    attended8_ = codes(q * d);
    activated8_ = codes(config.ffn);
    amax_ = allocate(DType::fp32, {config.layers, kSites, kSpacing}, device);
    scales_ = allocate(DType::fp32, {config.layers, kSites, kSpacing}, device);
    for (std::int64_t i = 0; i < config.layers; ++i) {
        keys_.push_back(activation({tokens_, kv, d}));
        values_.push_back(activation({tokens_, kv, d}));
    }
}

void Encoder::set_input(Image& image, std::span<const std::int64_t> prompt) {
    if (image.height != shape_.image_height || image.width != shape_.image_width) {
        reject("image", fmt::format("expected {} x {} pixels, got {} x {}", shape_.image_height,
                                    shape_.image_width, image.height, image.width));
    }
    if (static_cast<std::int64_t>(prompt.size()) != shape_.prompt_tokens) {
        reject("prompt", fmt::format("expected {} token ids, got {}", shape_.prompt_tokens, prompt.size()));
    }
    for (const std::int64_t id : prompt) {
        if (id < 0 || id >= config_.vocab)
            reject("prompt", fmt::format("token id {} is outside [0, {})", id, config_.vocab));
    }
    for (std::int64_t view = 0; view < shape_.views; ++view) {
        copy(image_.view.slice(0, view, view + 1), image.view());
    }
    copy_bytes(ids_.view.data, context_.device(), prompt.data(), kCpu, prompt.size_bytes());
}

Tensor Encoder::site(const Tensor& table, std::int64_t layer, std::int64_t index) const {
    return table.slice(0, layer, layer + 1).slice(1, index, index + 1).slice(2, 0, 1).reshape({1});
}

void Encoder::add_embedding(Steps& steps) const {
    const float sqrt_width =
        static_cast<float>(round_to(dtype_, std::sqrt(static_cast<double>(config_.width))));
    steps.add("embed", PatchIm2col{.image = image_.view,
                                   .out = patch_rows_.view,
                                   .patch = config_.patch,
                                   .scale = 1 / 127.5f,
                                   .shift = -1});
    steps.add("embed", Gemm{.a = patch_rows_.view,
                            .b = weights_.patch_weight.view,
                            .bias = weights_.patch_bias.view,
                            .out = stream_.view.slice(0, 0, patches_)});
    steps.add("embed", Embedding{.ids = ids_.view,
                                 .table = weights_.embedding.view,
                                 .out = stream_.view.slice(0, patches_, tokens_),
                                 .scale = sqrt_width});
}

void Encoder::record(Steps& steps, bool on, const Tensor& x, std::int64_t layer, std::int64_t index) const {
    if (on) steps.add("calibrate", Amax{.x = x, .amax = site(amax_.view, layer, index)});
}

Gemm Encoder::product(const Linear& linear, const Tensor& in, std::int64_t layer, std::int64_t index,
                      const Tensor& out) const {
    Gemm gemm{.a = in, .b = linear.weight.view, .out = out};
    if (is_fp8(in.dtype)) {
        gemm.b = linear.codes.view;
        gemm.a_scale = site(scales_.view, layer, index);
        gemm.b_scale = linear.scale.view;
        gemm.fast_accumulation = true;
    }
    return gemm;
}

void Encoder::add_to_stream(Steps& steps, const char* label, Gemm gemm) const {
    gemm.residual = gemm.out;
    steps.add(label, gemm);
}

// One product that gates where a kernel is made for that; else the product of both halves, and a pass over them.
void Encoder::add_gated(Steps& steps, const Linear& gate_up, const Tensor& in, std::int64_t layer,
                        const Tensor& out, const Tensor& out_scale) const {
    Gemm gated = product(gate_up, in, layer, ffn_norm, out);
    const Tensor both = gated.b;
    gated.b = both.slice(0, 0, config_.ffn);
    gated.up = both.slice(0, config_.ffn, 2 * config_.ffn);
    gated.up_scale = gated.b_scale;
    gated.out_scale = out_scale;
    gated.activation = Gemm::Activation::gelu_tanh;
    if (Prepared<Gemm>(gated, context_).implementation() == "wgmma") return steps.add("gate_up", gated);
    steps.add("gate_up", product(gate_up, in, layer, ffn_norm, gate_up_.view));
    steps.add("geglu", GatedActivation{.out = out,
                                       .x = gate_up_.view,
                                       .scale = out_scale,
                                       .activation = GatedActivation::Activation::gelu_tanh});
}

void Encoder::add_layer(Steps& steps, std::int64_t index, Precision precision, bool recording) const {
    const GemmaLayer& layer = weights_.layers[static_cast<std::size_t>(index)];
    const bool fp8 = precision == Precision::fp8;
    const std::int64_t d = config_.head_dim;
    auto scale = [&](Site s) { return fp8 ? site(scales_.view, index, s) : Tensor(); };
    const Tensor &normed = fp8 ? normed8_.view : normed_.view,
                 &activated = fp8 ? activated8_.view : activated_.view;
    const Tensor &keys = keys_[static_cast<std::size_t>(index)].view,
                 &values = values_[static_cast<std::size_t>(index)].view;

    steps.add("norm", RmsNorm{.x = stream_.view,
                              .weight = layer.input_norm.view,
                              .out = normed,
                              .scale = scale(attention_norm),
                              .eps = config_.norm_eps,
                              .weight_offset = 1});
    record(steps, recording, normed, index, attention_norm);
    steps.add("qkv", product(layer.qkv, normed, index, attention_norm, qkv_.view));
    steps.add("rope", QkvSplitRope{.qkv = qkv_.view,
                                   .q = queries_.view,
                                   .k_cache = keys,
                                   .v_cache = values,
                                   .base = config_.rope_base});
    steps.add("attention", Attention{.q = queries_.view.reshape({1, tokens_, config_.query_heads, d}),
                                     .k = keys.reshape({1, tokens_, config_.kv_heads, d}),
                                     .v = values.reshape({1, tokens_, config_.kv_heads, d}),
                                     .out = attended_.view.reshape({1, tokens_, config_.query_heads, d})});
    record(steps, recording, attended_.view, index, attention_output);
    if (fp8) {
        steps.add("quantize",
                  Quantize{.x = attended_.view, .out = attended8_.view, .scale = scale(attention_output)});
    }
    add_to_stream(
        steps, "out",
        product(layer.out, fp8 ? attended8_.view : attended_.view, index, attention_output, stream_.view));
    steps.add("norm", RmsNorm{.x = stream_.view,
                              .weight = layer.post_attention_norm.view,
                              .out = normed,
                              .scale = scale(ffn_norm),
                              .eps = config_.norm_eps,
                              .weight_offset = 1});
    record(steps, recording, normed, index, ffn_norm);
    add_gated(steps, layer.gate_up, normed, index, activated, scale(ffn_activation));
    record(steps, recording, activated, index, ffn_activation);
    add_to_stream(steps, "down", product(layer.down, activated, index, ffn_activation, stream_.view));
}

Steps Encoder::steps(Precision precision) const {
    Steps steps(context_);
    add_embedding(steps);
    for (std::int64_t i = 0; i < config_.layers; ++i) add_layer(steps, i, precision, false);
    steps.add("final norm", RmsNorm{.x = stream_.view,
                                    .weight = weights_.final_norm.view,
                                    .out = output_.view,
                                    .eps = config_.norm_eps,
                                    .weight_offset = 1});
    return steps;
}

void Encoder::calibrate() {
    fill_bytes(amax_.view.data, context_.device(), 0, amax_.buffer.size());
    Steps recording(context_);
    add_embedding(recording);
    for (std::int64_t i = 0; i < config_.layers; ++i) add_layer(recording, i, Precision::full, true);
    recording.run();
    synchronize(context_.device(), context_.stream());
    std::vector<float> values(static_cast<std::size_t>(config_.layers * kSites * kSpacing));
    const std::size_t size = values.size() * sizeof(float);
    copy_bytes(values.data(), kCpu, amax_.view.data, context_.device(), size);
    const auto largest = static_cast<float>(max_value(DType::fp8_e4m3));
    for (float& v : values) v = v > 0 ? v / largest : 1;
    copy_bytes(scales_.view.data, context_.device(), values.data(), kCpu, size);
}

}  // namespace weft
