// gemm through a cuBLASLt of the test's own, on a CUDA of the test's own: which plans are chosen, when anything is timed
// or allocated, and what becomes of a product that the library refuses.
#if WEFT_HAS_CUBLASLT
#include <unistd.h>

#include <filesystem>

#include "ops/gemm/test_library.h"
#include "weft/graph.h"
#include "weft/plans.h"

namespace weft {
namespace {

using test::FakeCuda;
using test::kFakeDevice;
using test::library;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

struct GemmCublaslt : test::WithCublaslt {
    GemmCublaslt() {
        // The third is the fastest.
        FakeCuda::state().time_us = [] { return library.multiplied.back() == 3 ? 5.0 : 9.0; };
    }
    // The algorithm that a call runs.
    std::uint64_t run(std::int64_t m) {
        library.multiplied.clear();
        gemm::cublaslt_launch(product(m), *context);
        return library.multiplied.back();
    }
    std::string how(std::int64_t m) { return WithCublaslt::how(product(m)); }
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
    const std::string path =
        std::filesystem::temp_directory_path() / ("weft_test_plans_" + std::to_string(getpid()) + ".json");
    context->set_tuning(true);
    run(1000);
    context->plans().write(path);
    context.emplace(kFakeDevice);
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
