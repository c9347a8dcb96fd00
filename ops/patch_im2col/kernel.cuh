// patch_im2col's kernels.
#pragma once

#include "kit/elementwise.cuh"

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
    kit::VectorRows rows;
    float scale, shift;
};

// Where the pixels of a patch's row are neighbours, in the image as in the output, and the rows of all views
// are evenly spaced.
struct Runs {
    const void* image;
    std::int64_t pitch;            // bytes from a row of pixels to the next
    unsigned vectors;              // in all views
    kit::Divisor row, run, patch;  // vectors in a row of pixels, in a patch's row; pixels down a patch
    unsigned patches;              // across
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
// Mapping  a thread owns kEach vectors of the image, a block's threads apart: three divisions, by multiplication, tell
//          where one goes
// Traffic  image and out once, neighbouring threads next to each other in both: an image of a few bytes is bound by the
//          launch, a large one by memory
// Needs    runs of whole, aligned vectors of kRun elements
template <class T, int kRun, int kEach>
__global__ void __launch_bounds__(128) patch_im2col_runs(Runs runs, PatchOut out) {
    const unsigned first = blockIdx.x * blockDim.x * kEach + threadIdx.x;
    kit::Words<T, kRun> words[kEach];
    kit::WholeVector to[kEach];
    kit::dependency_wait();
    kit::dependents_launch();
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
        const unsigned n = first + e * blockDim.x;
        const unsigned line = runs.row.quotient(n), across = n - line * runs.row.divisor;
        const unsigned column = runs.run.quotient(across), down = runs.patch.quotient(line);
        to[e] = {down * runs.patches + column, (line - down * runs.patch.divisor) * runs.run.divisor +
                                                   (across - column * runs.run.divisor)};
        const char* from = static_cast<const char*>(runs.image) + line * runs.pitch;
        if (n < runs.vectors)
            words[e] = kit::load_words<kRun>(reinterpret_cast<const T*>(from) + across * kRun);
    }
    kit::with_wide_type(out.rows.dtype, [&](auto* type) {
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
            if (first + e * blockDim.x >= runs.vectors) return;
            const auto pixels = kit::as_vector<T, kRun>(words[e]);
            float values[kRun];
#pragma unroll
            for (int i = 0; i < kRun; ++i) values[i] = pixel(pixels[i]) * out.scale + out.shift;
            kit::store<std::remove_pointer_t<decltype(type)>>(out.rows, to[e], values);
        }
    });
}

// What     the same, for any strides of the image
// Mapping  a thread owns 8 neighbouring columns of one patch (kit/elementwise.cuh): it divides once to find the
//          first one's pixel and steps from there
// Traffic  image and out once, reads element by element through L1: latency, at the sizes that images have
// Needs    height and width are multiples of the patch
template <class T>
__global__ void __launch_bounds__(256) patch_im2col(Image<T> image, PatchOut out, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_tile<kWidth, 1>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t) {
        const kit::PartVector at{row, column, kit::left<kWidth>(tiles.dim, column)};
        const std::int64_t tall = at.row / image.cols, view = tall / image.rows;
        const T* corner = image.data + view * image.view_stride +
                          (tall - view * image.rows) * image.patch * image.y_stride +
                          (at.row - tall * image.cols) * image.patch * image.x_stride;
        const auto first = static_cast<unsigned>(at.column), dots = first / image.channels;
        unsigned channel = first % image.channels, py = dots / image.patch, px = dots % image.patch;
        float values[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            const std::int64_t from =
                py * image.y_stride + px * image.x_stride + channel * image.channel_stride;
            values[i] = i < at.count ? pixel(corner[from]) * out.scale + out.shift : 0.0f;
            if (++channel < image.channels) continue;
            channel = 0;
            if (++px < image.patch) continue;
            px = 0;
            ++py;
        }
        kit::with_wide_type(out.rows.dtype, [&](auto* type) {
            kit::store<std::remove_pointer_t<decltype(type)>>(out.rows, at, values);
        });
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
