// patch_im2col's executable specification.
#include <cmath>

#include "ops/patch_im2col/patch_im2col.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const PatchIm2col& op, Oracle& oracle) {
    const Tensor& image = op.image;
    const std::int64_t p = op.patch, channels = image.shape[3], cols = image.shape[2] / p;
    const Rows out = *fold_rows(op.out);
    for (std::int64_t row = 0; row < out.rows; ++row) {
        const std::int64_t c = row % cols, r = row / cols % (image.shape[1] / p),
                           view = row / cols / (image.shape[1] / p);
        for (std::int64_t i = 0; i < out.dim; ++i) {
            const std::int64_t channel = i % channels, px = i / channels % p, py = i / channels / p;
            const std::int64_t at = view * image.stride[0] + (r * p + py) * image.stride[1] +
                                    (c * p + px) * image.stride[2] + channel * image.stride[3];
            const double pixel = image.dtype == DType::uint8
                                     ? static_cast<double>(load_integer(DType::uint8, image.data, at))
                                     : load_element(image.dtype, image.data, at);
            const double scaled = pixel * op.scale, value = scaled + op.shift;
            const double error = 2 * kEps32 * (std::fabs(scaled) + std::fabs(op.shift));
            oracle.store(op.out, row * out.stride + i, value, std::isfinite(value) ? error : 0);
        }
    }
}

const RegisterReference<PatchIm2col> kReference{reference};

}  // namespace
}  // namespace weft
