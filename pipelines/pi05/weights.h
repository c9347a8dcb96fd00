// The prefix encoder's weights on a device, merged as the ops want them.
#pragma once

#include <vector>

#include "io/gemma_checkpoint.h"
#include "weft/context.h"
#include "weft/memory.h"

namespace weft {

// A matrix [outputs, inputs], and where it was quantised its fp8 codes with their scale.
struct Linear {
    OwnedTensor weight;
    OwnedTensor codes, scale;
};

struct GemmaLayer {
    OwnedTensor input_norm, post_attention_norm;
    Linear qkv;      // q, k and v projections, one below the other
    Linear out;      // attention output
    Linear gate_up;  // gate, then up
    Linear down;
};

struct GemmaWeights {
    std::vector<GemmaLayer> layers;
    OwnedTensor embedding;                 // [vocab, width]
    OwnedTensor patch_weight, patch_bias;  // [width, 3 * patch * patch], [width]
    OwnedTensor final_norm;

    // Reads the first `config.layers` layers in `dtype`, converting where the file has another. A tensor that
    // needs neither a copy nor a conversion stays a view of the checkpoint's memory map, which must then
    // outlive this.
    static GemmaWeights load(const Checkpoint& checkpoint, const GemmaConfig& config, DType dtype,
                             Device device);

    // Fills `codes` and `scale` of every layer's matrices: e4m3, one scale a tensor.
    void quantize(Context& context);
};

}  // namespace weft
