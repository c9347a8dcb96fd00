// concat_pad: frames kept from before and new ones, with zeros around them.
#pragma once

#include <optional>
#include <string>

#include "weft/contract.h"

namespace weft {

// out = pad([cache, x]): what a causal 3-D convolution reads. Along time `front` frames of zeros, the cache, x; along
// height and width `top`, `bottom`, `left` and `right` zeros around each frame. The very bits.
//
// All tensors may have any strides: channels-first ones, and views of channels-last ones in this order of axes.
struct ConcatPad {
    static constexpr std::string_view kName = "concat_pad";

    Tensor x{}, cache{}, out{};
    std::int64_t front = 0, top = 0, bottom = 0, left = 0, right = 0;

    static const Contract& contract();
};

inline const Contract& ConcatPad::contract() {
    using Op = ConcatPad;
    static const DTypeSet kAny = kFloat | kFp8;
    static const Contract contract =
        Describe<Op>(std::string(kName), "out = pad([cache, x])")
            .in("x", &Op::x, "batch channels frames height width", kAny, "the new frames")
            .layout(Layout::strided)
            .in("cache", &Op::cache, "batch channels cache_frames height width", kAny, "the frames before")
            .optional()
            .like("x")
            .layout(Layout::strided)
            .out("out", &Op::out,
                 "batch channels front+cache_frames+frames top+height+bottom left+width+right", kAny,
                 "all of them, with zeros around")
            .like("x")
            .layout(Layout::strided)
            .option("front", &Op::front, 0, 1 << 20, "frames of zeros before the cache", {0, 1, 2})
            .option("top", &Op::top, 0, 1 << 20, "rows of zeros above", {0, 1, 2})
            .option("bottom", &Op::bottom, 0, 1 << 20, "rows of zeros below", {0, 1})
            .option("left", &Op::left, 0, 1 << 20, "columns of zeros before", {0, 1, 2})
            .option("right", &Op::right, 0, 1 << 20, "columns of zeros behind", {0, 1})
            .independent({"batch", "channels"})
            .tolerance("exact")
            .sizes("batch", {1, 1, 2})
            .sizes("channels", {1, 3, 8, 16, 32})
            .sizes("frames", {1, 2, 4})
            .sizes("cache_frames", {0, 1, 2, 2})
            .sizes("height", {1, 3, 8})
            .sizes("width", {1, 5, 8, 20, 61})
            .source(
                "torch.cat and pad before causal 3-D convolutions; fused_causal_conv3d_cat_pad_cuda, "
                "cat_pad_channels_last_3d of SGLang's diffusion kernels");
    return contract;
}

}  // namespace weft
