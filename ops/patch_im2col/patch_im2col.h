// An image cut into patches, one row of a matrix each: a patch embedding is then a GEMM.
#pragma once

#include <optional>

#include "weft/contract.h"

namespace weft {

// out[(view·rows + r)·cols + c, (py·patch + px)·channels + ch] = image[view, r·patch + py, c·patch + px,
// ch]·scale
// + shift, in fp32, rounded once: 1/127.5 and −1 take bytes to [−1, 1]. The image may have any strides (a
// crop, channels first), its height and width are multiples of `patch`.
struct PatchIm2col {
    static constexpr std::string_view kName = "patch_im2col";

    Tensor image{}, out{};
    std::int64_t patch = 14;
    float scale = 1.0f, shift = 0.0f;

    static const Contract& contract();
};

inline const Contract& PatchIm2col::contract() {
    using Op = PatchIm2col;
    static const Contract contract =
        Describe<Op>(std::string(kName), "out[view·row·col, py·px·channel] = image · scale + shift")
            .in("image", &Op::image, "views rows*patch cols*patch channels", kFloat | DType::uint8,
                "pixels, channels last")
            .layout(Layout::strided)
            .fill(Fill::uniform(0, 255))
            .out("out", &Op::out, "views*rows*cols patch*patch*channels", kFloat, "one patch a row")
            .option("patch", &Op::patch, 1, 4096, "a patch's height and width", {14, 16, 2, 1})
            .option("scale", &Op::scale, -1e30, 1e30, "what each pixel is multiplied by", {1, 1 / 127.5})
            .option("shift", &Op::shift, -1e30, 1e30, "what is added then", {0, -1})
            .independent({"views"})
            .tolerance("2·ε₃₂·(|image·scale| + |shift|)")
            .sizes("views", {1, 2, 3})
            .sizes("rows", {1, 2, 5})
            .sizes("cols", {1, 3, 4})
            .sizes("channels", {1, 3, 4})
            .source("patch_im2col of vision encoders (ViT, SigLIP), there for 224 by 224 by 3 and patch 14");
    return contract;
}

}  // namespace weft
