// patch_im2col: what generated cases don't say.
#include <gmock/gmock.h>

#include "ops/patch_im2col/patch_im2col.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(PatchIm2col, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("patch_im2col image=uint8[1,225,224,3] out=bf16[256,588]"),
                HasSubstr("patch_im2col.image: expected [views=1, rows*patch=224, cols*patch=224, "
                          "channels=3], got [1, 225, 224, 3]"));
    EXPECT_THAT(
        rejection("patch_im2col image=uint8[1,224,224,3] out=bf16[255,588]"),
        HasSubstr(
            "patch_im2col.out: expected [views*rows*cols=256, patch*patch*channels=588], got [255, 588]"));
    EXPECT_THAT(rejection("patch_im2col image=uint8[224,224,3] out=bf16[256,588]"),
                HasSubstr("patch_im2col.image: expected"));
    EXPECT_THAT(rejection("patch_im2col image=int8[1,224,224,3] out=bf16[256,588]"),
                HasSubstr("patch_im2col.image: expected dtype"));
    EXPECT_THAT(rejection("patch_im2col image=uint8[1,224,224,3] out=uint8[256,588]"),
                HasSubstr("patch_im2col.out: expected dtype"));
    EXPECT_THAT(rejection("patch_im2col image=uint8[1,224,224,3] out=bf16[256,588] patch=0"),
                HasSubstr("expected a value in [1, 4096]"));
}

TEST(PatchIm2col, EveryPixelGoesToItsPatch) {
    constexpr int kViews = 2, kRows = 2, kCols = 3, kPatch = 2, kChannels = 3;
    constexpr int kHeight = kRows * kPatch, kWidth = kCols * kPatch;
    HostTensor last(DType::fp32, {kViews, kHeight, kWidth, kChannels}),
        first(DType::fp32, {kViews, kChannels, kHeight, kWidth});
    for (int v = 0; v < kViews; ++v) {
        for (int y = 0; y < kHeight; ++y) {
            for (int x = 0; x < kWidth; ++x) {
                for (int c = 0; c < kChannels; ++c) {
                    const double value = ((v * 100 + y) * 100 + x) * 10 + c;
                    last.set(((v * kHeight + y) * kWidth + x) * kChannels + c, value);
                    first.set(((v * kChannels + c) * kHeight + y) * kWidth + x, value);
                }
            }
        }
    }
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp32, {kViews * kRows * kCols, kPatch * kPatch * kChannels});
        HostTensor same(DType::fp32, {kViews * kRows * kCols, kPatch * kPatch * kChannels});
        run(PatchIm2col{.image = last.on(device), .out = out.on(device), .patch = kPatch});
        // View 1, patch (1, 2), pixel (1, 0), channel 2.
        EXPECT_EQ(out[(((1 * kRows + 1) * kCols + 2) * kPatch * kPatch + (1 * kPatch + 0)) * kChannels + 2],
                  ((1 * 100 + 3) * 100 + 4) * 10 + 2);
        // Channels first: the same image through other strides.
        Tensor view = first.on(device);
        view = Tensor(view.data, view.dtype, std::vector<std::int64_t>{kViews, kHeight, kWidth, kChannels},
                      std::vector<std::int64_t>{kChannels * kHeight * kWidth, kWidth, 1, kHeight * kWidth},
                      device);
        run(PatchIm2col{.image = view, .out = same.on(device), .patch = kPatch});
        EXPECT_EQ(out, same);
    }
}

TEST(PatchIm2col, TakesBytesToMinusOneToOne) {
    HostTensor image(DType::uint8, {1, 1, 3, 1}, {0, 255, 127});
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp32, {3, 1});
        run(PatchIm2col{
            .image = image.on(device), .out = out.on(device), .patch = 1, .scale = 1 / 127.5f, .shift = -1});
        EXPECT_EQ(out[0], -1);
        EXPECT_NEAR(out[1], 1, 1e-6);
        EXPECT_NEAR(out[2], 127 / 127.5 - 1, 1e-6);
    }
}

TEST(PatchIm2col, PolicyMovesRunsOfNeighboursByVectors) {
    if (test::configuration("patch_im2col image=uint8[1,14,14,3] out=bf16[1,588]").empty())
        GTEST_SKIP() << "no kernels";
    EXPECT_THAT(test::configuration("patch_im2col image=uint8[3,224,224,3] out=bf16[768,588]"),
                HasSubstr("runs: width=2 each=2 threads=128 blocks=882"));
    EXPECT_THAT(test::configuration("patch_im2col image=uint8[1,224,224,3] out=bf16[196,768] patch=16"),
                HasSubstr("runs: width=8 each=1 threads=128 blocks=147"));
    EXPECT_THAT(test::configuration("patch_im2col image=fp16[5,140,448,128] out=bf16[1600,25088]"),
                HasSubstr("runs: width=8 each=4"));
    EXPECT_THAT(test::configuration("patch_im2col image=uint8[1,15,15,1] out=bf16[1,225] patch=15"),
                HasSubstr("vectors: "));
}

}  // namespace
}  // namespace weft
