// What cuBLASLt is told of a product: layouts, attributes, addresses, preferences; and by what a plan is known again.
#if WEFT_HAS_CUBLASLT
#include <array>

#include "ops/gemm/test_library.h"
#include "weft/graph.h"
#include "weft/plans.h"

namespace weft {
namespace {

using test::kFakeDevice;
using test::library;
using test::Preference;
using test::Product;
using testing::HasSubstr;

using Attributes = std::map<int, std::int64_t>;
constexpr std::size_t kWorkspace = std::size_t{64} << 20;
constexpr const char* kNone = "its heuristic knows no algorithm for this product that rounds once";

struct GemmCublasltCalls : test::WithCublaslt {
    GemmCublasltCalls() { library.noted = true; }

    // At a place of its own; nothing is read there.
    static Tensor matrix(std::int64_t place, DType dtype, std::int64_t rows, std::int64_t columns,
                         std::int64_t stride, std::int64_t step = 1) {
        return Tensor(reinterpret_cast<void*>(place << 20), dtype, std::array{rows, columns},
                      std::array{stride, step}, kFakeDevice);
    }
    static Tensor vector(std::int64_t place, DType dtype, std::int64_t size) {
        return Tensor(reinterpret_cast<void*>(place << 20), dtype, {size}, kFakeDevice);
    }
    static std::int64_t address(const Tensor& t) { return reinterpret_cast<std::int64_t>(t.data); }
    // [40, 24] @ [48, 24]^T with gaps between all rows.
    static Gemm gaps(DType dtype) {
        Gemm op{};
        op.a = matrix(1, dtype, 40, 24, 32);
        op.b = matrix(2, dtype, 48, 24, 64);
        op.out = matrix(3, dtype, 40, 48, 56);
        return op;
    }
    Product launch(const Gemm& op) {
        gemm::cublaslt_launch(op, *context);
        return library.products.back();
    }
    std::string failure(const Gemm& op) {
        try {
            gemm::cublaslt_launch(op, *context);
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::cuda);
            return e.what();
        }
        return "done";
    }
};

TEST_F(GemmCublasltCalls, RowsAreItsColumns) {
    const Gemm op = gaps(DType::bf16);
    const Product p = launch(op);
    EXPECT_EQ(p.a_layout, "bf16 24x48/64");
    EXPECT_EQ(p.b_layout, "bf16 24x40/32");
    EXPECT_EQ(p.c_layout, "bf16 48x40/56");
    EXPECT_EQ(p.d_layout, "bf16 48x40/56");
    EXPECT_EQ(p.attributes, (Attributes{{CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T},
                                        {CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N},
                                        {CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT}}));
    EXPECT_EQ(p.a, op.b.data);
    EXPECT_EQ(p.b, op.a.data);
    EXPECT_EQ(p.c, op.out.data);
    EXPECT_EQ(p.d, op.out.data);
    EXPECT_EQ(p.alpha, 1);
    EXPECT_EQ(p.beta, 0);
    EXPECT_FALSE(p.has_workspace);
    EXPECT_EQ(p.workspace, 0u);
    EXPECT_EQ(gemm::cublaslt_config(op, device_info(kFakeDevice)), "tn");
    EXPECT_EQ(gemm::cublaslt_decline(op, device_info(kFakeDevice)), nullptr);
}

TEST_F(GemmCublasltCalls, SizesBeyond31Bits) {
    constexpr std::int64_t kLarge = (std::int64_t{1} << 32) + 8;
    Gemm op = gaps(DType::bf16);
    op.a = matrix(1, DType::bf16, kLarge, 24, 24);
    op.out = matrix(3, DType::bf16, kLarge, 48, 48);
    const Product many = launch(op);
    EXPECT_EQ(many.b_layout, fmt::format("bf16 24x{}/24", kLarge));
    EXPECT_EQ(many.d_layout, fmt::format("bf16 48x{}/48", kLarge));
    op = gaps(DType::bf16);
    op.a = matrix(1, DType::bf16, 40, kLarge, kLarge);
    op.b = matrix(2, DType::bf16, 48, kLarge, 2 * kLarge);
    const Product deep = launch(op);
    EXPECT_EQ(deep.a_layout, fmt::format("bf16 {}x48/{}", kLarge, 2 * kLarge));
    EXPECT_EQ(deep.b_layout, fmt::format("bf16 {0}x40/{0}", kLarge));
}

TEST_F(GemmCublasltCalls, AContiguousNIsNotTransposedAndAResidualIsC) {
    Gemm op = gaps(DType::fp16);
    op.b = matrix(2, DType::fp16, 48, 24, 1, 80);
    op.residual = matrix(4, DType::fp16, 40, 48, 72);
    const Product p = launch(op);
    EXPECT_EQ(p.a_layout, "fp16 48x24/80");
    EXPECT_EQ(p.b_layout, "fp16 24x40/32");
    EXPECT_EQ(p.c_layout, "fp16 48x40/72");
    EXPECT_EQ(p.d_layout, "fp16 48x40/56");
    EXPECT_EQ(p.attributes.at(CUBLASLT_MATMUL_DESC_TRANSA), CUBLAS_OP_N);
    EXPECT_EQ(p.c, op.residual.data);
    EXPECT_EQ(p.d, op.out.data);
    EXPECT_EQ(p.alpha, 1);
    EXPECT_EQ(p.beta, 1);
    EXPECT_EQ(gemm::cublaslt_config(op, device_info(kFakeDevice)), "nn");
}

TEST_F(GemmCublasltCalls, AddressesGoWithEveryCall) {
    Gemm op = gaps(DType::fp32);
    op.residual = matrix(4, DType::fp32, 40, 48, 72);
    for (const std::int64_t place : {5, 6}) {
        op.bias = vector(place, DType::fp32, 48);
        const Product p = launch(op);
        EXPECT_EQ(p.c_layout, "fp32 48x40/72");
        EXPECT_EQ(p.attributes, (Attributes{{CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T},
                                            {CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N},
                                            {CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS},
                                            {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F},
                                            {CUBLASLT_MATMUL_DESC_BIAS_POINTER, address(op.bias)}}));
    }
    EXPECT_EQ(library.asked, 1);
}

TEST_F(GemmCublasltCalls, ScalesOfFp8ChangePlacesWithTheirOperands) {
    Gemm op = gaps(DType::fp8_e4m3);
    op.b = matrix(2, DType::fp8_e5m2, 48, 24, 64);
    op.out = matrix(3, DType::bf16, 40, 48, 56);
    op.a_scale = vector(5, DType::fp32, 1);
    op.b_scale = vector(6, DType::fp32, 1);
    for (const bool fast : {false, true}) {
        op.fast_accumulation = fast;
        const Product p = launch(op);
        EXPECT_EQ(p.a_layout, "e5m2 24x48/64");
        EXPECT_EQ(p.b_layout, "e4m3 24x40/32");
        EXPECT_EQ(p.d_layout, "bf16 48x40/56");
        EXPECT_EQ(p.attributes, (Attributes{{CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T},
                                            {CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N},
                                            {CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT},
                                            {CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast},
                                            {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, address(op.b_scale)},
                                            {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, address(op.a_scale)}}));
    }
}

TEST_F(GemmCublasltCalls, TheHeuristicKnowsAlignmentsWorkspaceAndWhatMayBeSplit) {
    Gemm op = gaps(DType::fp16);
    op.a.data = static_cast<char*>(op.a.data) + 32;
    op.b.data = static_cast<char*>(op.b.data) + 2;
    op.out.data = static_cast<char*>(op.out.data) + 128 + 64;
    launch(op);
    const auto preferred = [](std::int64_t c, std::int64_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
        return Attributes{{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace},
                          {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, scheme},
                          {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 2},
                          {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 32},
                          {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c},
                          {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 64}};
    };
    EXPECT_EQ(library.preferences.back().attributes, preferred(64));
    EXPECT_EQ(library.preferences.back().wanted, 8);
    op.residual = matrix(4, DType::fp16, 40, 48, 72);
    launch(op);
    EXPECT_EQ(library.preferences.back().attributes, preferred(256));
    EXPECT_EQ(library.asked, 2);
    op.residual = {};
    op.bias = vector(5, DType::fp16, 48);
    library.kernels = {{1, {24, 2}}, {2, {24, 3}}, {3, {24, 2}}};
    EXPECT_THROW(launch(op), Refused) << "it offers nothing else";
    EXPECT_EQ(library.asked, 4) << "it is asked again for what it would not share along k";
    EXPECT_EQ(library.preferences[2].attributes, preferred(64));
    EXPECT_EQ(library.preferences[3].attributes, preferred(64, CUBLASLT_REDUCTION_SCHEME_NONE));
}

TEST_F(GemmCublasltCalls, AGeluIsTheLibrarys) {
    Gemm op = gaps(DType::bf16);
    op.activation = Gemm::Activation::gelu_tanh;
    EXPECT_EQ(launch(op).attributes.at(CUBLASLT_MATMUL_DESC_EPILOGUE), CUBLASLT_EPILOGUE_GELU);
    op.bias = vector(5, DType::bf16, 48);
    const Product p = launch(op);
    EXPECT_EQ(p.attributes.at(CUBLASLT_MATMUL_DESC_EPILOGUE), CUBLASLT_EPILOGUE_GELU_BIAS);
    EXPECT_EQ(p.attributes.at(CUBLASLT_MATMUL_DESC_BIAS_POINTER), address(op.bias));
}

TEST_F(GemmCublasltCalls, AnOddAddressIsAlignedToOne) {
    Gemm op = gaps(DType::fp8_e4m3);
    op.out.dtype = DType::bf16;
    op.a.data = static_cast<char*>(op.a.data) + 3;
    launch(op);
    EXPECT_EQ(library.preferences.back().attributes.at(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES), 1);
}

TEST_F(GemmCublasltCalls, EachProblemHasAPlanOfItsOwn) {
    Gemm op = gaps(DType::fp8_e4m3);
    op.out.dtype = DType::bf16;
    int asked = 0;
    const auto expect_new = [&](const Gemm& other) {
        launch(other);
        EXPECT_EQ(library.asked, ++asked);
        launch(op);
        launch(other);
        EXPECT_EQ(library.asked, asked) << "known again";
    };
    expect_new(op);
    for (int given = 1; given < 8; ++given) {
        Gemm other = op;
        other.fast_accumulation = (given & 1) != 0;
        if ((given & 2) != 0) other.a_scale = vector(5, DType::fp32, 1);
        if ((given & 4) != 0) other.b_scale = vector(6, DType::fp32, 1);
        expect_new(other);
    }
    for (Tensor Gemm::* operand : {&Gemm::a, &Gemm::b, &Gemm::out}) {
        Gemm other = op;
        (other.*operand).data = static_cast<char*>((other.*operand).data) + 16;
        expect_new(other);
        other = op;
        (other.*operand).stride[0] += 16;
        expect_new(other);
    }
}

// A plan file is read by later processes, so its texts stay as they are.
TEST_F(GemmCublasltCalls, TextsOfAPlanFile) {
    library.offered = 12;
    test::FakeCuda::state().time_us = [] { return library.multiplied.back() == 12 ? 5.0 : 9.0; };
    context->set_tuning(true);
    Gemm op = product(1000);
    op.residual = op.out;
    op.a.data = static_cast<char*>(op.a.data) + 4;
    EXPECT_EQ(how(op), "timed");
    const auto number = [](DType dtype) { return static_cast<int>(dtype); };
    const int bf16 = number(DType::bf16), fp8 = number(DType::fp8_e4m3), fp32 = number(DType::fp32);
    const std::string section = "cublaslt 130002 on Fake H200 1";
    const auto choice = [&](const std::string& key) {
        const std::string* found = context->plans().find(section, key);
        return found == nullptr ? "none: " + key : *found;
    };
    EXPECT_EQ(
        choice(fmt::format("m<=1024 512 512 512 512 1 512 512 {0} {0} {0} {0} -1 4 256 256 256 0 0 0", bf16)),
        "c 0 0 0 0 0 0 0");
    op.a.dtype = op.b.dtype = DType::fp8_e4m3;
    op.out.dtype = DType::fp32;
    op.residual = {};
    op.bias = vector(5, DType::bf16, 512);
    op.fast_accumulation = true;
    op.a_scale = op.b_scale = vector(6, DType::fp32, 1);
    EXPECT_EQ(how(op), "timed");
    EXPECT_EQ(choice(fmt::format("m<=1024 512 512 512 512 1 0 512 {0} {0} {1} -1 {2} 4 256 256 0 256 0 7",
                                 fp8, fp32, bf16)),
              "c 0 0 0 0 0 0 0");
}

TEST_F(GemmCublasltCalls, WhatAPlanFileSaysIsTakenWhereTheLibraryAndTheRoomAllowIt) {
    Gemm op = gaps(DType::bf16);
    const std::string key = fmt::format("m<=48 48 24 32 64 1 0 56 {0} {0} {0} -1 -1 256 256 256 0 0 0 0",
                                        static_cast<int>(DType::bf16));
    const auto algorithm = [&](const std::string& text) {
        const Plans before = context->plans();
        context.emplace(kFakeDevice);
        context->plans().set("cublaslt 130002 on Fake H200 1", key, text);
        return launch(op).algorithm;
    };
    EXPECT_EQ(algorithm("1f 0 0 0 0 0 0 0"), 31u);
    EXPECT_EQ(library.asked, 0);
    EXPECT_EQ(algorithm("1f 0 0 0 0 0 0"), 1u) << "a word is missing";
    EXPECT_EQ(library.asked, 1);
    EXPECT_EQ(algorithm("2 0 0 0 0 0 0 0"), 2u);
    EXPECT_TRUE(library.products.back().has_workspace);
    EXPECT_EQ(library.products.back().workspace, 4096u);
    library.workspace_of_two = 1;
    EXPECT_EQ(algorithm("2 0 0 0 0 0 0 0"), 2u);
    EXPECT_TRUE(library.products.back().has_workspace);
    library.workspace_of_two = kWorkspace;
    EXPECT_EQ(algorithm("2 0 0 0 0 0 0 0"), 2u);
    library.workspace_of_two = kWorkspace + 1;
    EXPECT_EQ(algorithm("2 0 0 0 0 0 0 0"), 1u);
    library.checks_until = 2;
    library.workspace_of_two = 0;
    EXPECT_EQ(algorithm("2 0 0 0 0 0 0 0"), 1u);
}

TEST_F(GemmCublasltCalls, ABucketIsAPowerOfTwoOrThreeQuartersOfOne) {
    context->set_tuning(true);
    const auto chosen = [&](std::int64_t m) {
        Gemm op{};
        op.a = matrix(1, DType::bf16, m, 8192, 8192);
        op.b = matrix(2, DType::bf16, 8192, 8192, 8192);
        op.out = matrix(3, DType::bf16, m, 8192, 8192);
        library.asked = 0;
        how(op);
        return library.asked > 0;
    };
    for (const std::int64_t m : {1, 2, 3, 4, 5, 7, 9, 13, 17, 25}) EXPECT_TRUE(chosen(m)) << m;
    for (const std::int64_t m : {6, 8, 12, 16, 24, 32}) EXPECT_FALSE(chosen(m)) << m;
    EXPECT_TRUE(chosen(33));
}

TEST_F(GemmCublasltCalls, TimingBeginsAtSixteenMillionOperations) {
    context->set_tuning(true);
    EXPECT_EQ(how(product(31)), "the heuristic's first");
    EXPECT_EQ(how(product(32)), "timed");
}

TEST_F(GemmCublasltCalls, ACaptureChoosesOnceAndWithoutWorkspace) {
    library.offered = 0;
    const Gemm op = product(1000);
    const Graph graph(*context, [&] {
        EXPECT_EQ(how(op), kNone);
        EXPECT_EQ(how(op), kNone);
    });
    EXPECT_EQ(library.asked, 1);
    EXPECT_EQ(library.preferences.back().attributes.at(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES), 0);
    library.offered = 3;
    EXPECT_EQ(how(op), "the heuristic's first");
    EXPECT_EQ(how(op), "the heuristic's first");
    EXPECT_EQ(library.asked, 2);
}

TEST_F(GemmCublasltCalls, AContextForgetsItsPlansWhenTheyAreMany) {
    library.noted = false;
    for (std::int64_t m = 1; m <= 4096; ++m) how(product(m));
    EXPECT_EQ(library.asked, 4096);
    how(product(1));
    EXPECT_EQ(library.asked, 4097);
    how(product(2));
    how(product(1));
    EXPECT_EQ(library.asked, 4098);
}

TEST_F(GemmCublasltCalls, OffersThatCanNotBeUsedAreNone) {
    library.unusable = 1;
    EXPECT_EQ(launch(product(2)).algorithm, 2u);
    library.offered = 1;
    EXPECT_EQ(how(product(1)), kNone);
    library.refuses_heuristic = true;
    EXPECT_EQ(how(product(3)), kNone);
    context->set_tuning(true);
    EXPECT_EQ(how(product(1000)), kNone);
    EXPECT_THROW(gemm::cublaslt_launch(product(1000), *context), Refused);
}

TEST_F(GemmCublasltCalls, FailuresSayWhatFailed) {
    const Gemm op = product(64);
    for (const auto& [function, what] : {std::pair{"Create", "starting the library"},
                                         {"MatmulDescCreate", "describing a product"},
                                         {"MatmulDescSetAttribute", "describing a product"},
                                         {"MatrixLayoutCreate", "describing a matrix"},
                                         {"MatmulPreferenceCreate", "describing a preference"},
                                         {"MatmulPreferenceSetAttribute", "describing a preference"},
                                         {"MatmulAlgoConfigGetAttribute", "describing an algorithm"}}) {
        context.emplace(kFakeDevice);
        library.failing = function;
        EXPECT_THAT(failure(op), HasSubstr(std::string(what) + ": a status")) << function;
    }
    library.failing.clear();
    context.emplace(kFakeDevice);
    library.broken = 1;
    EXPECT_THAT(failure(op), HasSubstr("gemm: multiplying: a status"));
    EXPECT_EQ(how(op), "the heuristic's first");
    library.refuses = true;
    library.refusal = CUBLAS_STATUS_INVALID_VALUE;
    EXPECT_THROW(gemm::cublaslt_launch(op, *context), Refused);
    EXPECT_EQ(how(op), "it refused the product that its heuristic had offered");
}

TEST_F(GemmCublasltCalls, NothingIsLeftBehind) {
    context->set_tuning(true);
    launch(product(1000));
    EXPECT_GT(library.living, 0);
    context.reset();
    EXPECT_EQ(library.living, 0);
}

}  // namespace
}  // namespace weft
#endif
