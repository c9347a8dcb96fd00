// Which of cuBLASLt's offers is taken: the first that rounds once.
#if WEFT_HAS_CUBLASLT
#include "ops/gemm/test_library.h"

namespace weft {
namespace {

using test::kFakeDevice;
using test::library;

// What the library's heuristic offers: number and parts of each algorithm.
using Kernels = std::vector<std::pair<int, int>>;
constexpr std::pair kHopper{66, 1}, kHopperParts{66, 3}, kOld{24, 1}, kOldParts{24, 2};

struct GemmCublasltOffers : test::WithCublaslt {
    GemmCublasltOffers() { library.noted = true; }

    // The algorithm that a call runs, from 1 on; 0 where it is declined.
    std::uint64_t taken(const Kernels& kernels, bool bias, bool residual, Gemm::Activation activation,
                        DType dtype = DType::bf16) {
        library.kernels.clear();
        library.offered = static_cast<int>(kernels.size());
        for (std::size_t i = 0; i < kernels.size(); ++i) library.kernels[i + 1] = kernels[i];
        Gemm op = product(++rows_);  // a problem that no plan is known of
        op.a.dtype = op.b.dtype = op.out.dtype = dtype;
        if (bias) op.bias = Tensor(memory.data(), dtype, {512}, kFakeDevice);
        if (residual) op.residual = op.out;
        op.activation = activation;
        if (gemm::cublaslt_prepare(op, *context).reason != nullptr) return 0;
        gemm::cublaslt_launch(op, *context);
        return library.products.back().algorithm;
    }

   private:
    std::int64_t rows_ = 0;
};

constexpr auto kNone = Gemm::Activation::none, kGelu = Gemm::Activation::gelu_tanh;

TEST_F(GemmCublasltOffers, OfAProductAloneTheFirstOneIsTaken) {
    EXPECT_EQ(taken({kOldParts, kHopper}, false, false, kNone), 1u);
}

TEST_F(GemmCublasltOffers, WhatOlderKernelsShareAlongKIsRoundedBeforeSomethingIsAdded) {
    for (const bool bias : {false, true}) {
        EXPECT_EQ(taken({kOldParts, kOld, kHopper}, bias, !bias, kNone), 2u) << bias;
        EXPECT_EQ(taken({kOldParts, kHopperParts, kOld}, bias, !bias, kNone), 2u) << bias;
        EXPECT_EQ(taken({kHopperParts}, bias, !bias, kNone), 1u) << bias;
        EXPECT_EQ(taken({kOldParts}, bias, !bias, kNone), 0u) << bias;
    }
}

TEST_F(GemmCublasltOffers, OlderKernelsRoundBetweenTwoStepsOfAnEpilogue) {
    EXPECT_EQ(taken({kOld, kOldParts, kHopperParts}, true, true, kNone), 3u);
    EXPECT_EQ(taken({kOld}, true, true, kNone), 0u);
    EXPECT_EQ(taken({kOldParts, kOld}, true, true, kNone, DType::fp32), 2u) << "fp32 loses nothing between";
    for (const bool bias : {false, true}) {
        EXPECT_EQ(taken({kOld, kHopper}, bias, false, kGelu), 2u) << bias;
        EXPECT_EQ(taken({kOldParts, kHopperParts}, bias, false, kGelu), 2u) << bias;
        EXPECT_EQ(taken({kOld, kOldParts}, bias, false, kGelu), 0u) << bias;
    }
}

// If all of them have parts that would be rounded, it is asked for others.
TEST_F(GemmCublasltOffers, AFavouriteIsLookedForAmongEight) {
    Kernels kernels(12, kOldParts);
    for (std::size_t i = 7; i < 12; ++i) kernels[i] = kOld;
    EXPECT_EQ(taken(kernels, true, false, kNone), 8u);
    EXPECT_EQ(library.asked, 1);
    kernels[7] = kOldParts;
    EXPECT_EQ(taken(kernels, true, false, kNone), 9u) << "the first of those without parts";
    EXPECT_EQ(library.asked, 3);
}

}  // namespace
}  // namespace weft
#endif
