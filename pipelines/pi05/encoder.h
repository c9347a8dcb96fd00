// Pi0.5's prefix encoder: Gemma-2B layers, attending in both directions, over image patches and prompt
// tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/image.h"
#include "ops/gemm/gemm.h"
#include "pipelines/pi05/step.h"
#include "pipelines/pi05/weights.h"

namespace weft {

enum class Precision {
    full,  // every tensor in the weights' dtype
    fp8,   // the layers' GEMMs on e4m3 codes: weights with one scale a tensor, activations with calibrated
           // scales
};

struct EncoderShape {
    std::int64_t views = 1, image_height = 0,
                 image_width = 0;  // every view of one size, a multiple of the patch
    std::int64_t prompt_tokens = 0;
};

// Owns the activations; borrows the weights and the context. All work goes to the context's stream.
class Encoder {
   public:
    Encoder(const GemmaConfig& config, const EncoderShape& shape, const GemmaWeights& weights,
            Context& context);

    // The same photograph for every view, and the prompt's token ids. Throws where sizes or ids don't fit.
    void set_input(Image& image, std::span<const std::int64_t> prompt);

    // The forward pass as prepared calls, the final norm included. fp8 needs quantised weights and
    // calibrate().
    Steps steps(Precision precision) const;
    // One forward pass in full precision that records each GEMM input's amax, and sets the static scales from
    // it.
    void calibrate();

    std::int64_t tokens() const { return tokens_; }
    const Tensor& embeddings() const {
        return stream_.view;
    }  // [tokens, width] after the steps labelled "embed"
    const Tensor& output() const { return output_.view; }  // [tokens, width] after all steps
    const Tensor& keys(std::int64_t layer) const { return keys_[static_cast<std::size_t>(layer)].view; }
    const Tensor& values(std::int64_t layer) const { return values_[static_cast<std::size_t>(layer)].view; }

   private:
    // The inputs of a layer's four GEMMs, which fp8 stores quantised, are sites: where `amax` is recorded,
    // and the scale made of it. fp32 [layers, sites, spacing]: each at a multiple of 16 bytes, as cuBLASLt
    // wants scales.
    static constexpr std::int64_t kSites = 4, kSpacing = 4;
    Tensor site(const Tensor& table, std::int64_t layer, std::int64_t index) const;

    void add_embedding(Steps& steps) const;
    void add_layer(Steps& steps, std::int64_t index, Precision precision, bool record) const;
    // The product with a projection's weights, of activations that were measured at `site`.
    Gemm product(const Linear& linear, const Tensor& in, std::int64_t layer, std::int64_t site,
                 const Tensor& out) const;
    void add_to_stream(Steps& steps, const char* label, Gemm gemm) const;
    void add_gated(Steps& steps, const Linear& gate_up, const Tensor& in, std::int64_t layer,
                   const Tensor& out, const Tensor& out_scale) const;
    void record(Steps& steps, bool on, const Tensor& x, std::int64_t layer, std::int64_t index) const;

    GemmaConfig config_;
    EncoderShape shape_;
    const GemmaWeights& weights_;
    Context& context_;
    std::int64_t tokens_, patches_;
    DType dtype_;
    OwnedTensor image_, ids_, patch_rows_;
    OwnedTensor stream_, normed_, qkv_, queries_, attended_, gate_up_, activated_, output_;
    OwnedTensor normed8_, attended8_, activated8_, amax_, scales_;
    std::vector<OwnedTensor> keys_,
        values_;  // by layer: the prefix cache, which is what an action expert reads
};

}  // namespace weft
