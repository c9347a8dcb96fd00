// patch_im2col's kernel.
#pragma once

#include "kit/elementwise.cuh"
#include "kit/ptx/pdl.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;

template <class T>
struct Image {
    const T* data;
    std::int64_t view_stride, y_stride, x_stride, channel_stride;
    std::int64_t rows, cols;  // patches down and across
    unsigned patch, channels;
};

struct PatchOut {
    void* data;
    std::int64_t stride;
    DType dtype;
    bool aligned;
    float scale, shift;
};

template <class T>
__device__ __forceinline__ float pixel(T value) {
    if constexpr (std::is_same_v<T, std::uint8_t>) {
        return static_cast<float>(value);
    } else {
        return kit::to_float(value);
    }
}

// What     out[patch, (py, px, channel)] = image[view, y, x, channel] · scale + shift
// Mapping  a thread owns 8 neighbouring columns of one patch (kit/elementwise.cuh): it divides once to find
// the
//          first one's pixel and steps from there, since the image may have any strides
// Traffic  image and out once, reads element by element through L1: latency, at the sizes that images have
// Needs    height and width are multiples of the patch
template <class T>
__global__ void __launch_bounds__(256) patch_im2col(Image<T> image, PatchOut out, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_tile<kWidth, 1>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t) {
        const std::int64_t tall = row / image.cols, view = tall / image.rows;
        const T* corner = image.data + view * image.view_stride +
                          (tall - view * image.rows) * image.patch * image.y_stride +
                          (row - tall * image.cols) * image.patch * image.x_stride;
        const auto first = static_cast<unsigned>(column), dots = first / image.channels;
        unsigned channel = first % image.channels, py = dots / image.patch, px = dots % image.patch;
        const int count = kit::left<kWidth>(tiles.dim, column);
        float values[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            const std::int64_t at =
                py * image.y_stride + px * image.x_stride + channel * image.channel_stride;
            values[i] = i < count ? pixel(corner[at]) * out.scale + out.shift : 0.0f;
            if (++channel < image.channels) continue;
            channel = 0;
            if (++px < image.patch) continue;
            px = 0;
            ++py;
        }
        kit::store_floats(out.dtype, out.data, row * out.stride + column, values, count, out.aligned);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
