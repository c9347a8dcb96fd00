// Loading: checkpoint to device, with the matrices that one GEMM serves put together.
#include "pipelines/pi05/weights.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <string>

#include "ops/quantize/quantize.h"
#include "weft/op.h"

namespace weft {
namespace {

class Loader {
   public:
    Loader(const Checkpoint& checkpoint, DType dtype, Device device)
        : checkpoint_(checkpoint), dtype_(dtype), device_(device) {}

    OwnedTensor tensor(const std::string& name, std::initializer_list<std::int64_t> shape) const {
        const Tensor source = checkpoint_.require(name, kFloat, shape);
        const auto alignment = static_cast<std::uintptr_t>(bytes(dtype_, 1));
        const bool usable = source.dtype == dtype_ && device_.type != DeviceType::cuda &&
                            reinterpret_cast<std::uintptr_t>(source.data) % alignment == 0;
        if (usable) {
            OwnedTensor view{Buffer(), source};
            view.view.device = device_;
            return view;
        }
        OwnedTensor owned = allocate(dtype_, shape, device_);
        place(source, owned.view);
        return owned;
    }

    // Matrices of `inputs` columns, stacked: (name, rows) each.
    OwnedTensor stacked(std::initializer_list<std::pair<std::string, std::int64_t>> parts,
                        std::int64_t inputs) const {
        std::int64_t rows = 0;
        for (const auto& [name, count] : parts) rows += count;
        OwnedTensor all = allocate(dtype_, {rows, inputs}, device_);
        std::int64_t row = 0;
        for (const auto& [name, count] : parts) {
            place(checkpoint_.require(name, kFloat, {count, inputs}), all.view.slice(0, row, row + count));
            row += count;
        }
        return all;
    }

   private:
    void place(const Tensor& source, const Tensor& target) const {
        const auto size = static_cast<std::size_t>(bytes(dtype_, target.numel()));
        if (source.dtype == dtype_) return copy_bytes(target.data, device_, source.data, kCpu, size);
        std::vector<std::byte> converted(size);
        for (std::int64_t i = 0; i < source.numel(); ++i) {
            store_element(dtype_, converted.data(), i, load_element(source.dtype, source.data, i));
        }
        copy_bytes(target.data, device_, converted.data(), kCpu, size);
    }

    const Checkpoint& checkpoint_;
    DType dtype_;
    Device device_;
};

GemmaLayer load_layer(const Loader& load, const GemmaConfig& c, std::int64_t index) {
    const std::string prefix = fmt::format("model.layers.{}.", index), attention = prefix + "self_attn.",
                      mlp = prefix + "mlp.";
    const std::int64_t q = c.query_heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    GemmaLayer layer;
    layer.input_norm = load.tensor(prefix + "input_layernorm.weight", {c.width});
    layer.post_attention_norm = load.tensor(prefix + "post_attention_layernorm.weight", {c.width});
    layer.qkv.weight = load.stacked({{attention + "q_proj.weight", q},
                                     {attention + "k_proj.weight", kv},
                                     {attention + "v_proj.weight", kv}},
                                    c.width);
    layer.out.weight = load.tensor(attention + "o_proj.weight", {c.width, q});
    layer.gate_up.weight =
        load.stacked({{mlp + "gate_proj.weight", c.ffn}, {mlp + "up_proj.weight", c.ffn}}, c.width);
    layer.down.weight = load.tensor(mlp + "down_proj.weight", {c.width, c.ffn});
    return layer;
}

void quantize_linear(Linear& linear, Context& context) {
    const Tensor& w = linear.weight.view;
    linear.codes = allocate(DType::fp8_e4m3, {w.shape[0], w.shape[1]}, w.device);
    linear.scale = allocate(DType::fp32, {1}, w.device);
    run(Quantize{.x = w, .out = linear.codes.view, .tensor_scale = linear.scale.view}, context);
}

}  // namespace

GemmaWeights GemmaWeights::load(const Checkpoint& checkpoint, const GemmaConfig& config, DType dtype,
                                Device device) {
    const Loader loader(checkpoint, dtype, device);
    GemmaWeights weights;
    weights.embedding = loader.tensor("model.embed_tokens.weight", {config.vocab, config.width});
    weights.patch_weight = loader.tensor("patch_embed.weight", {config.width, config.patch_values()});
    weights.patch_bias = loader.tensor("patch_embed.bias", {config.width});
    weights.final_norm = loader.tensor("model.norm.weight", {config.width});
    for (std::int64_t i = 0; i < config.layers; ++i) weights.layers.push_back(load_layer(loader, config, i));
    return weights;
}

void GemmaWeights::quantize(Context& context) {
    for (GemmaLayer& layer : layers) {
        for (Linear* linear : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down})
            quantize_linear(*linear, context);
    }
    synchronize(context.device(), context.stream());
}

}  // namespace weft
