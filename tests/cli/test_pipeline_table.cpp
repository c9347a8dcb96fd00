// The demo's table of what ran beside PyTorch.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "pipelines/pi05/tool/report.h"

namespace weft {
namespace {

nlohmann::json times(double median) { return {{"median", median}, {"p10", median - 1}, {"p90", median + 1}}; }

TEST(PipelineTable, FastestFirstAgainstTorchCompile) {
    const std::string text = baseline_table({{"us",
                                              {{"torch eager", times(9606)},
                                               {"torch.compile default", times(7090)},
                                               {"weft bf16", times(7213)},
                                               {"weft fp8", times(4835)}}}});
    EXPECT_LT(text.find("weft fp8"), text.find("torch.compile default"));
    EXPECT_LT(text.find("torch.compile default"), text.find("weft bf16"));
    EXPECT_LT(text.find("weft bf16"), text.find("torch eager"));
    EXPECT_THAT(text, testing::HasSubstr("1.47x"));
    EXPECT_THAT(text, testing::HasSubstr("4.834-4.836"));
}

TEST(PipelineTable, APlanNamesWhatTookTheSameOp) {
    SessionResult here;
    const auto label = [](const char* name, const char* op, const char* implementation) {
        LabelTime made;
        made.label = name, made.op = op, made.implementation = implementation;
        return made;
    };
    here.labels = {label("embed", "gemm", "of gemm"), label("embed", "embedding", "of embedding")};
    LabelTime step = label("embed", "embedding", "rows"), other = label("norm", "embedding", "rows");
    step.calls = 4, step.floor_us = 8, other.calls = 1;
    const std::string text = plan_table({step, other}, {{"CPU", &here}});
    EXPECT_THAT(text, testing::HasSubstr("of embedding"));
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("of gemm")));
    EXPECT_THAT(text, testing::HasSubstr("2.0 us"));
}

TEST(PipelineTable, WithoutTorchCompileThereIsNoRatio) {
    EXPECT_THAT(baseline_table({{"us", {{"weft bf16", times(7213)}}}}), testing::HasSubstr("-\n"));
    EXPECT_THROW(baseline_table(nlohmann::json::object()), nlohmann::json::exception);
}

}  // namespace
}  // namespace weft
