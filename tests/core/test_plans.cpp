// Choices that were timed: those that the library was built with, and whose a context has.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "weft/context.h"
#include "weft/plans.h"

namespace weft {
namespace {

TEST(Contexts, HaveTheLibrarysPlansOrThoseOfAFileOrNone) {
    unsetenv("WEFT_PLANS");
    EXPECT_EQ(Context().plans(), Plans::shipped());
    EXPECT_NE(Plans::shipped(), Plans()) << "some are built in";
    Context timing;
    timing.set_tuning(true);
    EXPECT_EQ(timing.plans(), Plans()) << "it times for the row count that it is called with";
    ASSERT_EQ(setenv("WEFT_PLANS", "", 1), 0);
    EXPECT_EQ(Context().plans(), Plans());
    unsetenv("WEFT_PLANS");
}

// Every file of plans under ops/ is in the library, to the last choice.
TEST(Plans, OfTheRepositoryAreShipped) {
    int files = 0;
    for (const auto& op : std::filesystem::directory_iterator(WEFT_SOURCE_DIR "/ops")) {
        const auto path = op.path() / "plans.json";
        if (!std::filesystem::exists(path)) continue;
        std::ifstream in(path);
        const auto file = nlohmann::json::parse(in);
        for (const auto& [section, choices] : file.at("plans").items()) {
            for (const auto& [key, choice] : choices.items()) {
                const std::string* found = Plans::shipped().find(section, key);
                ASSERT_NE(found, nullptr) << section << ": " << key;
                EXPECT_EQ(*found, choice.get<std::string>());
            }
        }
        ++files;
    }
    EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace weft
