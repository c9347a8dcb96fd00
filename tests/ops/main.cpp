// The op tests' main: a race in a kernel fails its launch, and a death says which case it was. --op=NAME runs the tests
// of one op alone, --op= those that belong to none: together they are all.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "verify/trial.h"
#include "weft/op.h"

#if WEFT_HAS_EMULATOR
#include "emulator/race_hook.h"
#endif

namespace {

// By the folder of its source, or by its parameter: "…/rms_norm", "…/rms_norm_emulator".
bool is_of(const testing::TestInfo& test, const std::string& op) {
    if (std::string_view(test.file()).find("ops/" + op + "/test") != std::string_view::npos) return true;
    if (test.value_param() == nullptr) return false;
    const std::string_view name = test.name(), subject = name.substr(name.rfind('/') + 1);
    for (const std::string_view device : {"", "_cpu", "_emulator", "_cuda"}) {
        if (subject == op + std::string(device)) return true;
    }
    return false;
}

std::string op_of(const testing::TestInfo& test) {
    for (const weft::OpEntry* op : weft::all_ops()) {
        if (is_of(test, op->contract().name())) return op->contract().name();
    }
    return {};
}

// GoogleTest's filter for the tests of one op; empty where there are none.
std::string tests_of(const std::string& op) {
    std::string filter;
    const auto& all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
        const testing::TestSuite& suite = *all.GetTestSuite(i);
        for (int j = 0; j < suite.total_test_count(); ++j) {
            const testing::TestInfo& test = *suite.GetTestInfo(j);
            if (op_of(test) == op) filter += fmt::format("{}.{}:", suite.name(), test.name());
        }
    }
    return filter;
}

}  // namespace

int main(int argc, char** argv) {
    // In the process that GoogleTest begins for a death test: it has said there which one test it is for.
    const bool again = std::any_of(argv, argv + argc, [](std::string_view word) {
        return word.starts_with("--gtest_internal_run_death_test");
    });
    testing::InitGoogleMock(&argc, argv);
    if (argc > 1) {
        constexpr std::string_view kOp = "--op=";
        const std::string_view word = argv[1];
        std::string filter = word.starts_with(kOp) ? tests_of(std::string(word.substr(kOp.size()))) : "";
        if (word == kOp && filter.empty()) filter = "-*";  // every test is of an op
        if (argc > 2 || filter.empty()) {
            fmt::print(stderr, "{}: neither --op=NAME of an op with tests nor an option of GoogleTest\n",
                       word);
            return 2;
        }
        if (!again) testing::GTEST_FLAG(filter) = filter;
    }
    weft::announce_deaths();
    return RUN_ALL_TESTS();
}
