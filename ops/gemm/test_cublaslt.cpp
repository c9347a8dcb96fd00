// gemm through a cuBLASLt of the test's own, on a CUDA of the test's own: which plans are chosen, when anything is timed
// or allocated, and what becomes of a product that the library refuses.
#if WEFT_HAS_CUBLASLT
#include <gmock/gmock.h>

#include <filesystem>

#include "ops/gemm/cublaslt.h"
#include "ops/gemm/cublaslt_library.h"
#include "tests/core/fake_cuda.h"
#include "weft/case.h"
#include "weft/graph.h"
#include "weft/memory.h"
#include "weft/plans.h"

namespace weft {
namespace {

using gemm::CublasLt;
using test::FakeCuda;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr Device kDevice{DeviceType::cuda, 1};
constexpr cublasStatus_t kDone = CUBLAS_STATUS_SUCCESS;

// Offers algorithms 1, 2, 3, of which 3 is the fastest; algorithm 2 wants workspace.
struct Library {
    int asked = 0, offered = 3;
    bool refuses = false;
    std::uint64_t checks_until = ~0u;  // algorithms from this one on fail their check
    std::vector<std::uint64_t> multiplied;
};
Library library;

template <class T>
cublasStatus_t make(T** made) {
    *made = reinterpret_cast<T*>(new std::uint64_t[64]());
    return kDone;
}
template <class T>
cublasStatus_t destroy(T* made) {
    delete[] reinterpret_cast<std::uint64_t*>(made);
    return kDone;
}

const CublasLt kLibrary = {
    .Create = [](cublasLtHandle_t* h) { return make(h); },
    .Destroy = [](cublasLtHandle_t h) { return destroy(h); },
    .Matmul =
        [](cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, cublasLtMatrixLayout_t,
           const void*, cublasLtMatrixLayout_t, const void*, const void*, cublasLtMatrixLayout_t, void*,
           cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algo, void*, size_t, cudaStream_t) {
            if (library.refuses) return CUBLAS_STATUS_NOT_SUPPORTED;
            library.multiplied.push_back(algo->data[0]);
            return kDone;
        },
    .MatmulAlgoGetHeuristic =
        [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int wanted,
           cublasLtMatmulHeuristicResult_t* results, int* found) {
            ++library.asked;
            *found = std::min(wanted, library.offered);
            for (int i = 0; i < *found; ++i) {
                results[i] = {};
                results[i].algo.data[0] = static_cast<std::uint64_t>(i) + 1;
                results[i].workspaceSize = i == 1 ? 4096 : 0;
            }
            return kDone;
        },
    .MatmulAlgoCheck =
        [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algo,
           cublasLtMatmulHeuristicResult_t* result) {
            result->workspaceSize = algo->data[0] == 2 ? 4096 : 0;
            return algo->data[0] >= library.checks_until ? CUBLAS_STATUS_NOT_SUPPORTED : kDone;
        },
    .GetVersion = []() -> size_t { return 130002; },
    .MatmulDescCreate = [](cublasLtMatmulDesc_t* d, cublasComputeType_t, cudaDataType_t) { return make(d); },
    .MatmulDescDestroy = [](cublasLtMatmulDesc_t d) { return destroy(d); },
    .MatmulDescSetAttribute = [](cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*,
                                 size_t) { return kDone; },
    .MatrixLayoutCreate = [](cublasLtMatrixLayout_t* l, cudaDataType_t, std::uint64_t, std::uint64_t,
                             std::int64_t) { return make(l); },
    .MatrixLayoutDestroy = [](cublasLtMatrixLayout_t l) { return destroy(l); },
    .MatmulPreferenceCreate = [](cublasLtMatmulPreference_t* p) { return make(p); },
    .MatmulPreferenceDestroy = [](cublasLtMatmulPreference_t p) { return destroy(p); },
    .MatmulPreferenceSetAttribute = [](cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                       const void*, size_t) { return kDone; },
    .GetStatusString = [](cublasStatus_t) { return "a status"; },
};

struct GemmCublaslt : testing::Test {
    GemmCublaslt() {
        library = {};
        CublasLt::replace(&kLibrary);
        FakeCuda::state().time_us = [] { return library.multiplied.back() == 3 ? 5.0 : 9.0; };
    }
    ~GemmCublaslt() override {
        context.reset();
        CublasLt::replace(nullptr);
    }

    // out[m, 512] of k = 512, so 0.5 million operations a row.
    Gemm product(std::int64_t m) {
        Gemm op{};
        op.a = Tensor(memory.data(), DType::bf16, {m, 512}, kDevice);
        op.b = Tensor(memory.data(), DType::bf16, {512, 512}, kDevice);
        op.out = Tensor(memory.data(), DType::bf16, {m, 512}, kDevice);
        return op;
    }
    // The algorithm that a call runs.
    std::uint64_t run(std::int64_t m) {
        library.multiplied.clear();
        gemm::cublaslt_launch(product(m), *context);
        return library.multiplied.back();
    }
    std::string how(std::int64_t m) {
        const Readiness ready = gemm::cublaslt_prepare(product(m), *context);
        return ready.reason != nullptr ? ready.reason : ready.how;
    }

    FakeCuda cuda;
    Buffer memory{kDevice, 1 << 23};
    std::optional<Context> context{kDevice};
};

TEST_F(GemmCublaslt, AFirstCallAllocatesNothingAndTimesNothing) {
    FakeCuda::calls().clear();
    for (const std::int64_t m : {1, 64, 1000, 4096}) {
        EXPECT_EQ(run(m), 1u);
        EXPECT_EQ(how(m), "the heuristic's first");
    }
    EXPECT_EQ(library.asked, 4) << "once a problem";
    EXPECT_THAT(FakeCuda::calls(), IsEmpty());
}

TEST_F(GemmCublaslt, TimingIsAskedForAndServesItsBucket) {
    context->set_tuning(true);
    EXPECT_EQ(how(1000), "timed");
    EXPECT_EQ(run(1000), 3u);
    EXPECT_THAT(FakeCuda::calls(), Contains(StartsWith("time")));
    FakeCuda::calls().clear();
    library.asked = 0;
    for (const std::int64_t m : {769, 900, 1024}) {
        EXPECT_EQ(run(m), 3u);
        EXPECT_EQ(how(m), "timed");
    }
    EXPECT_EQ(library.asked, 0);
    EXPECT_THAT(FakeCuda::calls(), IsEmpty());
    run(768);
    EXPECT_GT(library.asked, 0) << "768 is of the bucket below";
}

TEST_F(GemmCublaslt, SmallProductsAreNotTimed) {
    context->set_tuning(true);
    EXPECT_EQ(how(1), "the heuristic's first");
    EXPECT_THAT(FakeCuda::calls(), Not(Contains(StartsWith("time"))));
}

TEST_F(GemmCublaslt, AChoiceThatTheLibraryDoesNotTakeIsLeft) {
    context->set_tuning(true);
    run(1000);
    context->set_tuning(false);
    library.checks_until = 3;
    EXPECT_EQ(run(900), 1u);
    EXPECT_EQ(how(900), "the heuristic's first");
}

TEST_F(GemmCublaslt, APlanFileSaysWhatWasTimed) {
    const std::string path = std::filesystem::temp_directory_path() / "weft_test_plans.json";
    context->set_tuning(true);
    run(1000);
    context->plans().write(path);
    context.emplace(kDevice);
    context->plans() = Plans::read(path);
    FakeCuda::calls().clear();
    EXPECT_EQ(run(800), 3u);
    EXPECT_EQ(how(800), "timed");
    EXPECT_EQ(how(2000), "the heuristic's first");
    EXPECT_THAT(FakeCuda::calls(), IsEmpty());
    std::filesystem::remove(path);
}

TEST_F(GemmCublaslt, ACaptureGetsWhatNeedsNoMemory) {
    context->set_tuning(true);
    FakeCuda::calls().clear();
    const Graph graph(*context, [&] { gemm::cublaslt_launch(product(1000), *context); });
    EXPECT_THAT(FakeCuda::calls(), ElementsAre("capture on 1"));
    EXPECT_THAT(library.multiplied, ElementsAre(1u));
    EXPECT_EQ(run(1000), 3u) << "chosen again where there is time for it";
}

TEST_F(GemmCublaslt, WhatNoAlgorithmComputesIsDeclined) {
    library.offered = 0;
    EXPECT_THAT(how(64), HasSubstr("no algorithm"));
    EXPECT_THROW(gemm::cublaslt_launch(product(64), *context), Refused);
}

TEST_F(GemmCublaslt, WhatIsRefusedIsDeclinedFromThenOn) {
    EXPECT_EQ(how(64), "the heuristic's first");
    library.refuses = true;
    EXPECT_THROW(gemm::cublaslt_launch(product(64), *context), Refused);
    EXPECT_THAT(how(64), HasSubstr("it refused"));
    EXPECT_EQ(how(65), "the heuristic's first");
}

TEST(Plans, AFileThatIsNoneIsAnError) {
    const auto failure = [](const std::string& path) {
        try {
            Plans::read(path);
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::io);
            return std::string(e.what());
        }
        return std::string("read");
    };
    EXPECT_THAT(failure("/nowhere/plans.json"), HasSubstr("/nowhere/plans.json: can't be read"));
    EXPECT_THAT(failure("pyproject.toml"), HasSubstr("is not a file of `weft tune`"));
}

}  // namespace
}  // namespace weft
#endif
