// Replays the seeds and everything that the fuzzers ever found, in every test run.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "targets.h"

namespace weft::fuzz {

static void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

namespace {

class Fuzz : public testing::TestWithParam<Target> {};

void replay(const std::filesystem::path& file, const Target& target) {
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_NO_THROW(target.run(std::as_bytes(std::span(bytes)))) << file;
}

TEST_P(Fuzz, SurvivesSeedsAndFindings) {
    const std::filesystem::path here = std::filesystem::path(WEFT_SOURCE_DIR) / "tests/fuzz";
    int seeds = 0;
    for (const auto& item : std::filesystem::directory_iterator(here / "corpus" / GetParam().name)) {
        replay(item.path(), GetParam());
        ++seeds;
    }
    EXPECT_GT(seeds, 0);
    const std::filesystem::path findings = here / "regressions" / GetParam().name;
    if (!std::filesystem::exists(findings)) return;  // nothing was found so far
    for (const auto& item : std::filesystem::directory_iterator(findings)) replay(item.path(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Replay, Fuzz, testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft::fuzz
